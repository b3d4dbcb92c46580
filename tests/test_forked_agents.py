"""An agent that a test forks is what a start gives: process, child, environment, folder, output, end."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked_agents import COMMAND, VARIABLE
from tests.source_tree import PYTHONPATH

from pinnace_rpc.host.agents.zygote import start_only

RPC = [*COMMAND, "--mode", "rpc", "--no-session", "--provider", "offline"]
LOOK = "pwd; umask; echo $LOOKED_FOR; ps -o ppid= -p $PPID; ps -o sid= -p $PPID; test -e /proc/self/fd/9; echo $?"
pytestmark = pytest.mark.skipif(VARIABLE in os.environ, reason=f"{VARIABLE} is set")


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "LOOKED_FOR": "here"}


def is_fork(process: "subprocess.Popen[bytes]") -> bool:
    """Whether there is room for another command line."""
    return Path(f"/proc/{process.pid}/cmdline").read_bytes().endswith(b"\0\0")


def shown(process: "subprocess.Popen[bytes]", command: str) -> list[str]:
    """The lines that a shell command of the agent prints, each without blanks around it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"type": "bash", "command": command}).encode() + b"\n")
    process.stdin.flush()
    for line in process.stdout:
        record = json.loads(line)
        if record["type"] == "response":
            return [each.strip() for each in str(record["data"]["output"]).splitlines()]
    raise AssertionError("no response")


def ended(process: "subprocess.Popen[bytes]") -> int:
    process.communicate()
    return process.returncode


def test_a_fork_is_what_a_start_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(**asked: Any) -> tuple[bool, list[str], int]:
        asked |= {"env": environment(tmp_path), "cwd": tmp_path, "start_new_session": True}
        process = subprocess.Popen(RPC, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **asked)
        forked, lines = is_fork(process), shown(process, LOOK)
        lines = [line.replace(str(process.pid), "its own id") for line in lines]
        return forked, lines, ended(process)

    umask = os.umask(0o027)
    try:
        fork, other = look(), look(umask=0o077)
        monkeypatch.setenv(VARIABLE, "1")
        start = look()
    finally:
        os.umask(umask)

    assert (True, False) == (fork[0], start[0])
    assert [str(tmp_path), "0027", "here", str(os.getpid()), "its own id", "1"] == start[1]
    assert start[1:] == fork[1:]
    assert (True, "0077") == (other[0], other[1][1])


@pytest.mark.parametrize("name", sorted({**start_only(os.environ), "PATH": ""}))
def test_an_agent_with_one_of_the_variables_of_the_tests_is_a_fork(name: str, tmp_path: Path) -> None:
    """One of those that only a start applies, where the machine sets several, such as LANG and PYTHONUNBUFFERED."""
    given = {"PYTHONPATH": PYTHONPATH} if name == "PYTHONPATH" else {name: os.environ[name]}
    process = subprocess.Popen(
        RPC, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**environment(tmp_path), **given}
    )

    shown(process, "true")

    assert is_fork(process)
    assert 0 == ended(process)


def test_a_fork_leads_its_session_and_is_in_its_folder_as_soon_as_it_is_there(tmp_path: Path) -> None:
    """Whoever has started it may kill its group at once."""
    for _ in range(20):
        process = subprocess.Popen(
            RPC, stdin=subprocess.PIPE, env=environment(tmp_path), cwd=tmp_path, start_new_session=True
        )
        place = os.readlink(f"/proc/{process.pid}/cwd")
        os.killpg(process.pid, signal.SIGKILL)

        assert (-signal.SIGKILL, str(tmp_path)) == (ended(process), place)


def test_a_forks_end_is_its_own(tmp_path: Path) -> None:
    process = subprocess.Popen(RPC, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(tmp_path))
    shown(process, "true")
    process.send_signal(signal.SIGKILL)

    assert -signal.SIGKILL == ended(process)
    refused = subprocess.run([*RPC, "--typo"], capture_output=True, text=True, env=environment(tmp_path), check=False)
    assert (2, "") == (refused.returncode, refused.stdout)
    assert "--typo" in refused.stderr


def test_a_subcommand_is_a_fork_that_reads_and_writes_its_pipes(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "auth", "login", "openai"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path)},
    )
    assert is_fork(process)
    output, errors = process.communicate(b"sk-of-a-test\n")

    assert (0, b"") == (process.returncode, errors)
    assert f"openai: its key is stored in {tmp_path / 'auth.json'}\n".encode() == output


def test_the_agents_of_a_batch_are_forks(tmp_path: Path) -> None:
    """In a C locale, to which an interpreter adds a variable for its children."""
    tasks = tmp_path / "tasks.jsonl"
    prompt = f"run `tail -c 2 /proc/$PPID/cmdline | od -An -tx1 > {shlex.quote(str(tmp_path / 'end'))}`"
    tasks.write_text(json.dumps({"id": "a", "prompt": prompt}) + "\n")
    words = ["batch", str(tasks), "--out", str(tmp_path / "out"), "--no-pages", "--provider", "offline"]
    done = subprocess.run([*COMMAND, *words], env=environment(tmp_path), cwd=tmp_path, check=False)

    assert 0 == done.returncode
    assert ["00", "00"] == (tmp_path / "end").read_text().split()


@pytest.mark.parametrize(
    "start",
    [
        lambda env: subprocess.Popen(RPC, env=env, stdin=subprocess.PIPE, preexec_fn=os.getpid),  # noqa: PLW1509  # no thread here
        lambda env: subprocess.Popen(RPC, env=env, stdin=subprocess.PIPE, close_fds=False),
        lambda env: subprocess.Popen([sys.executable, "-X", "dev", *RPC[1:]], env=env, stdin=subprocess.PIPE),
    ],
    ids=["code before the program", "inherited descriptors", "another interpreter"],
)
def test_what_a_fork_can_not_be_is_started(
    start: "Callable[[dict[str, str]], subprocess.Popen[bytes]]", tmp_path: Path
) -> None:
    process = start(environment(tmp_path))

    assert not is_fork(process)
    assert 0 == ended(process)
