"""Runs one shell command: reads what it writes, waits for its end, kills it.

For the model's shell tool and the client's `bash` alike. Must not know how output is limited or worded, nor
the chart: a command is a coroutine, and cancelling it is how it is killed. Rules R-BSH-01, R-BSH-02,
R-BSH-04.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

import trio

from pinnace_agent.flat_nursery import open_flat_nursery
from pinnace_agent.processes.registry import CHILDREN, Child, ChildProcesses, work_turns

EXIT_SILENCE_S: Final = 0.1
"""After the shell's exit a descendant may hold the pipe open, for ever if it is a server: so much silence
ends the wait. Longer would delay every `server &`, shorter would cut what a pipeline's last process still
says."""

REAP_S: Final = 0.5
"""How long a killed shell may take to die. SIGKILL takes microseconds unless the process hangs in the kernel
(a dead network disk); the whole program has to be gone 0.8 s after its client left."""

CHUNK_BYTES: Final = 64 * 1024
"""What one read takes at most: what a pipe holds on Linux, so that a busy command costs one read per filled
pipe."""

LAST_WORDS_S: Final = 0.1
"""How long the pipe of a killed group is still read. Its end comes at once, and says that all who wrote are gone;
only a process that has left the group can hold it open, and must not hold up an abort."""

_DRAIN_BYTES: Final = 1024 * 1024
"""What is still read without waiting when the silence has ended. A pipe's capacity is enough; the bound is for
descendants that go on writing."""

_PIPE_BYTES: Final = 256 * 1024
"""Asked of Linux: fewer switches between a busy command and us. More was not faster."""


class ShellUnavailable(Exception):
    """No command could be started; the text is for the user or the model."""


class ShellStatus(NamedTuple):
    """How a command ended."""

    exit_code: int | None
    """128 + n when a signal n killed the shell; None when the time limit did."""
    timed_out: bool = False
    """With an exit code as well if the shell was gone by itself and only its descendants were left."""
    exited_after_s: float | None = None
    """When the shell exited, counted from its start; None when the time limit killed it."""


class ShellOutput(Protocol):
    """Takes what a command writes, as it comes."""

    def feed(self, data: bytes) -> str:
        """Take the next raw bytes and return the text that they added."""
        ...

    def finish(self) -> str:
        """Take the end, and return what an incomplete character becomes."""
        ...


async def run_shell(  # noqa: PLR0913  # all but the command are keywords, most of them defaulted
    command: str,
    *,
    cwd: str,
    output: ShellOutput,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    shell_path: str | None = None,
    command_prefix: str | None = None,
    on_output: Callable[[str], None] | None = None,
    room: Callable[[], Awaitable[None]] | None = None,
    children: ChildProcesses = CHILDREN,
    turns: trio.CapacityLimiter | None = None,
) -> ShellStatus:
    """Run a command by `<shell> -c` in a new session and feed what it says to `output`.

    stdin is empty; stdout and stderr are one pipe, so their order is that of writing. Returns when the shell
    has exited and the pipe is at its end, or after `EXIT_SILENCE_S` without output while a descendant keeps
    it open; such descendants live on. Memory does not grow with the output.

    Cancelling, or the time limit, kills all that belongs to the command (`registry`), also when only descendants of
    the shell are left.
    The shell is dead and reaped before `Cancelled` leaves (or hangs in the kernel for over `REAP_S`).
    `output` has then everything that was written until the kill.

    Args:
        command: Passed to the shell unchanged.
        cwd: The folder to run in.
        output: Takes the bytes; it is finished when this returns or raises, but for `ShellUnavailable`.
        env: The whole environment; None inherits ours.
        timeout_s: Seconds, or None for no limit. A timeout is a result, not an exception.
        shell_path: The shell; None looks for bash, then sh.
        command_prefix: A line to run before the command, in the same shell.
        on_output: Told each piece of text that `output` took from the bytes.
        room: Awaited after each read, so that a command that floods waits for whoever takes what `on_output` is told.
        children: Starts it, and can kill it as long as it runs.
        turns: What it waits for before it is started, and is counted in until it has ended; None: that of tools.

    Raises:
        ShellUnavailable: Nothing was started: no such folder or shell, or the system refused.
    """
    if command_prefix:
        command = f"{command_prefix}\n{command}"
    async with turns or work_turns():
        return await _run(command, shell_path, cwd, env, timeout_s, children, _Listener(output, on_output, room))


async def _run(  # what `run_shell` was given
    command: str,
    shell_path: str | None,
    cwd: str,
    env: Mapping[str, str] | None,
    timeout_s: float | None,
    children: ChildProcesses,
    listener: "_Listener",
) -> ShellStatus:
    try:
        shell = await trio.to_thread.run_sync(_find_shell, shell_path, cwd)
    except RuntimeError as error:  # no thread is left
        raise ShellUnavailable(f"Cannot start a command: {error}") from error
    run = await _start(children, [shell, "-c", command], cwd, env, listener)
    is_done = False
    try:
        with trio.move_on_after(float("inf") if timeout_s is None else timeout_s):
            await run.collect()
            is_done = True
    finally:
        if not is_done:
            run.child.kill()
        status = await run.close(is_killed=not is_done)
    code = _exit_code(status)
    if is_done:
        return ShellStatus(code, False, run.exited_after_s)
    return ShellStatus(code if run.exited_after_s is not None else None, True, run.exited_after_s)


class _Listener(NamedTuple):
    """Who takes what a command says."""

    output: ShellOutput
    on_output: Callable[[str], None] | None
    room: Callable[[], Awaitable[None]] | None


class _Run:
    """One process and the reading end of its pipe."""

    __slots__ = ("_listener", "_pipe", "_started_s", "child", "exited_after_s")

    def __init__(self, child: Child, pipe: trio.lowlevel.FdStream, listener: _Listener) -> None:
        self.child = child
        self.exited_after_s: float | None = None
        self._pipe = pipe
        self._listener = listener
        self._started_s = trio.current_time()

    async def collect(self) -> None:
        """Read until the shell has exited and the pipe ended or fell silent; leave the shell unreaped."""
        with trio.CancelScope() as silence:
            async with open_flat_nursery() as nursery:
                nursery.start_soon(self._watch_exit, silence)
                while chunk := await self._pipe.receive_some(CHUNK_BYTES):
                    self._feed(chunk)
                    self._drain(_PIPE_BYTES)
                    if self.exited_after_s is not None:
                        silence.deadline = trio.current_time() + EXIT_SILENCE_S
                    if self._listener.room is not None:
                        # If the shell exits meanwhile, what it had written is still in the pipe, and is drained.
                        await self._listener.room()

    async def close(self, *, is_killed: bool) -> int | None:
        """Reap the shell, take what is left in the pipe, close it. Takes at most `REAP_S` and `LAST_WORDS_S`.

        Returns:
            How the shell ended; None if it has not.
        """
        status = await self.child.reap(REAP_S)
        try:
            if is_killed:
                await self._read_to_end()
            else:
                # The silence has ended, but somebody else may still hold the other end of the pipe, and write.
                self._drain(_DRAIN_BYTES)
        finally:
            self._pipe.close()
            self._tell(self._listener.output.finish())
        return status

    async def _watch_exit(self, silence: trio.CancelScope) -> None:
        await self.child.exited()
        self.exited_after_s = trio.current_time() - self._started_s
        silence.deadline = trio.current_time() + EXIT_SILENCE_S

    async def _read_to_end(self) -> None:
        """Read what was written until the kill. At the end of the pipe the last process that held it is gone."""
        with trio.move_on_after(LAST_WORDS_S, shield=True):
            while chunk := await self._pipe.receive_some(CHUNK_BYTES):
                self._feed(chunk)

    def _drain(self, most_bytes: int) -> None:
        """Take what is there without waiting: a wait for each chunk would cost as much as what is done with it."""
        for _ in range(most_bytes // CHUNK_BYTES):
            try:
                chunk = os.read(self._pipe.fileno(), CHUNK_BYTES)
            except OSError:  # nothing there now
                return
            if not chunk:
                return
            self._feed(chunk)

    def _feed(self, chunk: bytes) -> None:
        self._tell(self._listener.output.feed(chunk))

    def _tell(self, text: str) -> None:
        if text and self._listener.on_output is not None:
            self._listener.on_output(text)


def _find_shell(shell_path: str | None, cwd: str) -> str:
    """Choose the shell and check the folder, which the system would report as a missing shell.

    Raises:
        ShellUnavailable: One of them is not there.
    """
    if not os.path.isdir(cwd):
        raise ShellUnavailable(f"Working directory does not exist: {cwd}\nCannot execute bash commands.")
    if shell_path is not None:
        if not os.path.exists(os.path.expanduser(shell_path)):
            raise ShellUnavailable(f"Custom shell path not found: {shell_path}")
        return os.path.expanduser(shell_path)
    if os.path.exists("/bin/bash"):
        return "/bin/bash"
    return shutil.which("bash") or "sh"


async def _start(
    children: ChildProcesses, arguments: list[str], cwd: str, env: Mapping[str, str] | None, listener: _Listener
) -> _Run:
    try:
        reading, writing = os.pipe()
        try:
            child = await children.start(arguments, stdout=writing, stderr=subprocess.STDOUT, cwd=cwd, env=env)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command
        raise ShellUnavailable(f"Cannot start {arguments[0]}: {error}") from error
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # the user's share of pipe memory is used up
            fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return _Run(child, trio.lowlevel.FdStream(reading), listener)


def _exit_code(returncode: int | None) -> int | None:
    return 128 - returncode if returncode is not None and returncode < 0 else returncode
