"""Runs a program for an extension without a shell, with empty standard input.

The program has its own process group, which is ended when the waiting task is cancelled.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import trio

from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.core.ports.confinement import RunningProcess
from pinnace_agent.shell.child_processes import Child, children, work_turns
from pinnace_agent.shell.process import CHUNK_BYTES, EXIT_SILENCE_S, FINAL_READ_S, REAP_S
from pinnace_spec.rules.limits import MAX_BUFFER_BYTES

KILL_GRACE_S: Final = 5.0
"""Seconds between SIGTERM and SIGKILL, as in pi."""

START_FAILED: Final = 1
"""The code of a program that could not be started."""


class ExecResult(NamedTuple):
    """The output of a program, and how it ended."""

    stdout: str
    stderr: str
    """Holds the reason if the program could not be started."""
    code: int
    """128 + n when a signal n ended it."""
    killed: bool = False
    """Whether it was killed by the timeout."""
    truncated: bool = False
    """Whether output was dropped."""


class _Kept:
    """The kept part of one output."""

    def __init__(self, limit: int) -> None:
        self._pieces: list[bytes] = []
        self._room = limit
        self.is_cut = False

    def take(self, chunk: bytes | bytearray) -> None:
        if len(chunk) > self._room:
            self.is_cut = True
        if kept := bytes(chunk[: self._room]):
            self._pieces.append(kept)
            self._room -= len(kept)

    @property
    def text(self) -> str:
        return b"".join(self._pieces).decode("utf-8", "replace")


async def run_program(
    command: Sequence[str],
    *,
    cwd: str,
    timeout_s: float | None = None,
    max_buffer: int = MAX_BUFFER_BYTES,
    env: Mapping[str, str] | None = None,
    grace_s: float = KILL_GRACE_S,
) -> ExecResult:
    """Run a program until it has exited and its outputs have ended or fallen silent.

    Cancelling and the timeout send SIGTERM to the process group and, after `grace_s`, SIGKILL to all processes that the
    program started, before this returns. Neither a failed start nor the timeout raises an exception.

    Args:
        command: The program and its arguments.
        cwd: The working folder.
        timeout_s: Seconds; None: no limit.
        max_buffer: How many bytes of each output are kept.
        env: The complete environment; None: that of this process.
        grace_s: Seconds between SIGTERM and SIGKILL.
    """
    stdout, stderr = _Kept(max_buffer), _Kept(max_buffer)
    async with work_turns():
        return await _run(command, cwd, env, timeout_s, grace_s, stdout, stderr)


async def _run(  # the arguments of `run_program`
    command: Sequence[str],
    cwd: str,
    env: Mapping[str, str] | None,
    timeout_s: float | None,
    grace_s: float,
    stdout: _Kept,
    stderr: _Kept,
) -> ExecResult:
    try:
        child = await children().start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env)
    except (OSError, ValueError) as error:  # ValueError: a NUL in a word
        return ExecResult("", _start_failure(command, cwd, error), START_FAILED)
    is_done = False
    code: int | None = None
    try:
        with trio.move_on_after(float("inf") if timeout_s is None else timeout_s):
            await _collect(child, stdout, stderr)
            is_done = True
    finally:
        try:
            if not is_done:
                await _end(child, stdout, stderr, grace_s)
        finally:
            code = await child.reap(REAP_S)
            _close(child.process)
    if is_done and child.failure is not None:
        return ExecResult("", f"{child.failure}\n{stderr.text}".rstrip(), START_FAILED)
    shown = 128 - code if code is not None and code < 0 else code
    return ExecResult(
        stdout.text,
        stderr.text,
        128 + signal.SIGKILL if shown is None else shown,
        killed=not is_done,
        truncated=stdout.is_cut or stderr.is_cut,
    )


async def _collect(child: Child, stdout: _Kept, stderr: _Kept) -> None:
    """Read both outputs until the program has exited and they have ended or fallen silent."""
    with trio.CancelScope() as silence:
        is_over = False

        def on_output() -> None:
            if is_over:
                silence.deadline = trio.current_time() + EXIT_SILENCE_S

        async with open_flat_nursery() as nursery:
            nursery.start_soon(partial(_read, child.process.stdout, stdout, on_output))
            nursery.start_soon(partial(_read, child.process.stderr, stderr, on_output))
            await child.exited()
            is_over = True
            on_output()


async def _read(stream: trio.abc.ReceiveStream | None, kept: _Kept, on_output: Callable[[], None]) -> None:
    assert stream is not None
    with suppress(trio.BrokenResourceError):
        while chunk := await stream.receive_some(CHUNK_BYTES):
            kept.take(chunk)
            on_output()


async def _end(child: Child, stdout: _Kept, stderr: _Kept, grace_s: float) -> None:
    """End the process group: SIGTERM, wait, SIGKILL. Its output is read meanwhile, so that it doesn't block."""
    child.terminate()
    with trio.move_on_after(grace_s, shield=True):
        await _collect(child, stdout, stderr)
    # Also when the program has exited: processes that it started may still run.
    child.kill()
    with trio.move_on_after(FINAL_READ_S, shield=True):
        await _collect(child, stdout, stderr)


def _close(process: RunningProcess) -> None:
    for stream in (process.stdout, process.stderr):
        if isinstance(stream, trio.lowlevel.FdStream):
            stream.close()


def _start_failure(command: Sequence[str], cwd: str, error: Exception) -> str:
    program = command[0] if command else ""
    if isinstance(error, FileNotFoundError | NotADirectoryError) and not os.path.isdir(cwd):
        return f"Cannot start {program}: there is no folder {cwd}"
    return f"Cannot start {program}: {error}"
