"""Runs a program of a task, with a limit: the agent, git, the verification command.

The program has a session of its own, so that Ctrl-C at the coordinator does not reach it, and all of it can be ended.
It ends with the thread that started it (Linux with setpriv): a worker that is killed leaves no agent behind. Blocks.
"""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import IO, Final, NamedTuple

END_S: Final = 10.0
"""How long a program has to end after SIGTERM; an agent takes 5 s at most."""
OUTPUT_BYTES: Final = 16 * 1024
"""How much of the end of its output is kept."""


_LOCK = threading.Lock()
_running: set["subprocess.Popen[bytes]"] = set()
_is_ending = threading.Event()


class ProgramEnd(NamedTuple):
    """How a program has ended."""

    code: int
    """Negative: the number of the signal that killed it."""
    output: str
    """The end of stdout and stderr together."""
    is_over_time: bool = False


def run_program(
    command: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    output: IO[bytes],
    stdin: bytes = b"",
    limit_s: float | None = None,
) -> ProgramEnd:
    """Run a program to its end, or end it at its limit.

    Args:
        command: The program and its arguments.
        cwd: Its folder.
        env: Its whole environment.
        output: Takes stdout and stderr; open for reading too.
        stdin: What it reads.
        limit_s: How long it may take; None: no limit.

    Raises:
        OSError: It can't be started.
    """
    with _LOCK:
        if _is_ending.is_set():
            raise ProcessLookupError("programs are being ended, and no other starts")
        process = subprocess.Popen(
            [*_leash(), *command],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _running.add(process)
    is_over_time = False
    try:
        process.communicate(stdin, timeout=limit_s)
    except subprocess.TimeoutExpired:
        is_over_time = True
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # also what it left behind
        process.kill()
        process.wait()
        with _LOCK:
            _running.discard(process)
    return ProgramEnd(process.returncode, _end_of(output), is_over_time)


def end_programs() -> None:
    """Ask the programs that threads of this process run to end, as its own end would, and start no other."""
    with _LOCK:
        _is_ending.set()
        for process in _running:
            process.terminate()


def _end_of(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - OUTPUT_BYTES))
    return output.read().decode("utf-8", "replace")


@cache
def _leash() -> tuple[str, ...]:
    """Return the words that tie a program to the thread that starts it."""
    setpriv = shutil.which("setpriv")
    return () if setpriv is None else (setpriv, "--pdeathsig", "TERM", "--")
