"""The README: its length, its two commands and its examples."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest
from tests.source_tree import PYTHONPATH

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def path_with_pinnace(tmp_path: Path) -> dict[str, str]:
    """An environment in which `pinnace` is this checkout."""
    command = tmp_path / "bin" / "pinnace"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={quote(PYTHONPATH)} exec {quote(sys.executable)} -P -m pinnace_rpc "$@"\n'
    )
    command.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    return {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}


def example(language: str) -> str:
    """Return the README's one block of code in a language."""
    [block] = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return str(block)


def run(command: list[str], env: dict[str, str], text: str = "") -> str:
    """Run to the end and return what was printed."""
    done = subprocess.run(command, input=text, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_in_python_streams_an_answer(path_with_pinnace: dict[str, str]) -> None:
    assert 'You said: "Hello!"' in run([sys.executable, "-c", example("python")], path_with_pinnace)


def test_the_description_of_an_endpoint_is_a_valid_models_json(path_with_pinnace: dict[str, str]) -> None:
    folder = Path(path_with_pinnace["HOME"]) / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "models.json").write_text(example("json"))
    flags = ["--mode", "rpc", "--no-session", "--provider", "local", "--model", "qwen3"]

    state = run(["pinnace", *flags], path_with_pinnace, '{"type":"get_state"}\n')

    assert '"id":"qwen3"' in state
    assert '"contextWindow":32768' in state


def test_it_is_an_introduction_of_at_most_200_lines() -> None:
    assert len(README.splitlines()) <= 200


def test_two_commands_set_up_the_program_and_run_the_checks() -> None:
    """The first one installs the program alone; continuous integration takes the second one apart."""
    program, checks = re.findall(r"^```sh\n(scripts/setup.*)\n```", README, re.MULTILINE)

    assert (program, checks) == ("scripts/setup && .venv/bin/pinnace demo", "scripts/setup --dev && scripts/check")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    setup, *parts = re.findall(r"^(?:\w+=\S+ )*(scripts/[^>|&\n]*[^>|&\s])", ci, re.MULTILINE)
    assert setup == "scripts/setup --dev"
    (known,) = re.findall(r'^known="(.*)"$', (ROOT / "scripts" / "check").read_text(encoding="utf-8"), re.MULTILINE)
    # The checks of `all`, each once; it has what the command without it has, and the campaigns.
    taken = [name for part in parts for name in part.removeprefix("scripts/check ").split()]
    assert sorted(taken) == sorted(known.split())


@pytest.mark.parametrize(
    ("has_program", "message"),
    [(False, "no .venv; run scripts/setup --dev first"), (True, "the program alone; run scripts/setup --dev")],
)
def test_the_checks_name_the_setup_that_is_missing(has_program: bool, message: str, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "check", tmp_path / "scripts")
    if has_program:
        (tmp_path / ".venv" / "bin").mkdir(parents=True)
        (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    done = subprocess.run([tmp_path / "scripts" / "check"], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 2
    assert message in done.stderr


def test_the_demo_shows_a_stream_a_tool_and_a_steer(path_with_pinnace: dict[str, str]) -> None:
    """The README's first command, without its set-up."""
    shown = run(["pinnace", "demo"], path_with_pinnace)

    assert "hello from the shell" in shown
    assert "user: One more thing: answer in a single sentence." in shown
    assert "[agent_settled]" in shown
