"""What a terminal on stderr shows while `-p` works, and that nothing else shows it."""

import os
import pty
import subprocess
import sys
import tty
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_rpc.print_mode.mode import StderrProgress

PROMPT = "run `exit 3` and read `a.txt`"


def run(folder: Path, stderr: int, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": PYTHONPATH, "PINNACE_OFFLINE_DELAY_MS": "0"}
    return subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pinnace_rpc",
            "-p",
            "--provider",
            "offline",
            *words,
            "run `exit 3` and read `a.txt`",
        ],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=60,
        check=True,
    )


def to_its_end(terminal: int) -> str:
    """Read what a terminal shows, which no single read has whole, until nobody writes to it any more; close it."""
    shown = b""
    with suppress(OSError), os.fdopen(terminal, "rb", buffering=0) as stream:  # so a terminal ends
        while chunk := stream.read(65536):
            shown += chunk
    return shown.decode()


@contextmanager
def terminal() -> Generator[tuple[int, list[str]]]:
    """Give a terminal to write to, and a list that has the lines that it shows when the context ends."""
    reading, writing = pty.openpty()
    tty.setraw(writing)
    lines: list[str] = []
    try:
        yield writing, lines
    finally:
        os.close(writing)
        lines += to_its_end(reading).splitlines()


def test_a_terminal_shows_each_call_and_a_pipe_shows_nothing(tmp_path: Path) -> None:
    """The answer on stdout is the same; a new session is said to be one."""
    with terminal() as (writing, lines):
        at_terminal = run(tmp_path, writing, "--session-id", "job")
    with terminal() as (writing, continued):
        run(tmp_path, writing, "--session-id", "job")
    reading, writing = os.pipe()
    try:
        piped = run(tmp_path, writing, "--session-id", "other")
    finally:
        os.close(writing)
    with os.fdopen(reading) as stream:
        assert "" == stream.read()

    assert at_terminal.stdout == piped.stdout != ""
    assert ["pinnace: new session job", "pinnace: continues session job (5 messages)"] == [lines[0], continued[0]]
    assert {"bash: exit 3", "bash has failed", "read: a.txt", "read has failed"} == {
        line.removeprefix("pinnace: ") for line in lines[1:]
    }


def test_a_call_is_one_line_of_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    progress = StderrProgress("/work")
    for command in ("a\x1b[31mb" + "c" * 100, "\n\n"):
        progress.take({"type": "tool_execution_start", "toolName": "bash", "args": {"command": command}})
    progress.take({"type": "tool_execution_start", "toolName": "own\ttool", "args": "no object"})
    lines = capsys.readouterr().err.splitlines()

    assert 3 == len(lines)
    assert all(len(line) < 40 and line.isprintable() for line in lines)
    assert lines[0].startswith("pinnace: bash: a\\u{1b}[31mbccc")
