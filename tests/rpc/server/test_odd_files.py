"""Whatever lies where a file or a folder is looked for: a start neither hangs nor crashes, and a run works.

All places are of one kind at once, so that each kind costs one start: files of the user and of a project that is
trusted, and, since a folder can't be odd and hold something, those in folders apart from the folders.
"""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.rpc.conftest import COMMAND
from tests.rpc.sandbox.test_sandbox import needs_bubblewrap

from pinnace_fuzz.harness.driver import Agent

FILES = {
    "agent": """settings.json models.json auth.json trust.json trust-digests.json mcp.json mcp-auth.json
    keybindings.json presets.json models-store.json AGENTS.md SYSTEM.md APPEND_SYSTEM.md prompts/a.md skills/a/SKILL.md
    themes/a.json extensions/notes.txt""".split(),
    "work": """AGENTS.md CLAUDE.md .gitignore .ignore .fdignore .rgignore .editorconfig .gitmodules .git/HEAD
    .git/config .git/info/exclude .pi/settings.json .pi/mcp.json .pi/SYSTEM.md .pi/APPEND_SYSTEM.md .pi/prompts/a.md
    .pi/skills/a/SKILL.md .pi/extensions/notes.txt .agents/skills/a/SKILL.md .envrc .vscode .mcp.json""".split(),
}
FOLDERS = {
    "agent": "prompts skills themes extensions bin tools outputs".split(),
    "work": ".git .pi/prompts .pi/skills .pi/extensions .agents .husky".split(),
}


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(path.parent, os.O_PATH)  # the address may be no longer than 107 bytes
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


def _link_to_pipe(path: Path) -> None:
    pipe = path.with_name(f"{path.name}.pipe")
    os.mkfifo(pipe)
    path.symlink_to(pipe.name)


def _closed(path: Path) -> None:
    path.mkdir()
    path.chmod(0)


KINDS: Mapping[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a link to a pipe": _link_to_pipe,
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a folder": Path.mkdir,
    "a closed folder": _closed,
    "a file of a word": lambda path: path.write_text("x"),
    "a file of NUL": lambda path: path.write_bytes(b'\0\0\xff\xfe{"a":\0'),
    "a socket": _socket,
    "a circle of links": lambda path: path.symlink_to(path.name),
    "nothing at the end of a link": lambda path: path.symlink_to("nowhere"),
}
COMMANDS = (
    {"id": "1", "type": "get_state"},
    {"id": "2", "type": "get_commands"},
    {"id": "3", "type": "bash", "command": "echo hello"},
    {"id": "4", "type": "prompt", "message": "hello"},
)


@pytest.mark.parametrize("places", [FILES, FOLDERS], ids=["files", "folders"])
@pytest.mark.parametrize("flags", [(), pytest.param(("--sandbox", "workspace-write"), marks=needs_bubblewrap)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_start_survives_what_is_no_file(
    tmp_path: Path, kind: str, places: Mapping[str, list[str]], flags: tuple[str, ...]
) -> None:
    for root, names in places.items():
        for name in names:
            path = tmp_path / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            KINDS[kind](path)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "agent")}
    command = [*COMMAND, "--mode", "rpc", "--provider", "offline", "--approve", *flags]
    with Agent(command, cwd=tmp_path / "work", env=env) as agent:
        for each in COMMANDS:
            agent.send(each)
        agent.journal.wait_until(lambda: agent.journal.has_ended or len(agent.journal.responses) == len(COMMANDS), 60)
        if flags and agent.journal.has_ended:  # what a command could replace can't be protected: then nothing starts
            assert agent.wait_exit() == 1
            assert f"so nothing is started: {tmp_path}" in agent.stderr_text
            return
        answers = [agent.wait_response(each["id"]) for each in COMMANDS]
        agent.wait({"type": "agent_settled"})
        agent.close_stdin()
        assert agent.wait_exit() == 0

    assert [] == [each for each in answers if not each["success"]]
    assert "Traceback" not in agent.stderr_text


@pytest.fixture(autouse=True)
def _opened(tmp_path: Path) -> Iterator[None]:
    """Open closed folders again, so that an ordinary user can remove them."""
    yield
    for path in tmp_path.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
