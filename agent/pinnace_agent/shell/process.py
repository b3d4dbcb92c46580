"""Runs one shell command: reads its output, waits for its exit, kills it.

For the model's shell tool and the client's `bash`. Has no knowledge of the limits or wording of output, nor of the
statechart: a command is a coroutine, and cancelling it kills the command. Rules R-BSH-01, R-BSH-02, R-BSH-04.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final, NamedTuple, Protocol

import trio

from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.shell.child_processes import Child, ChildProcesses, work_turns
from pinnace_agent.shell.child_processes import children as own_children

EXIT_SILENCE_S: Final = 0.1
"""After the shell's exit a descendant may keep the pipe open, a server forever: this much silence ends the wait. More
would delay every `server &`, less would cut the output of a pipeline's last process."""

REAP_S: Final = 0.5
"""How long a killed shell may take to exit. SIGKILL takes microseconds unless the process hangs in the kernel (a dead
network disk); the whole program must exit within 0.8 s after its client has left."""

CHUNK_BYTES: Final = 64 * 1024
"""The size of a read: the capacity of a pipe on Linux, so that a busy command costs one read per filled pipe."""

FINAL_READ_S: Final = 0.1
"""How long the pipe of a killed group is still read. Its end arrives at once, when all writers have exited; only a
process that has left the group can keep it open, and must not delay an abort."""

_DRAIN_BYTES: Final = 1024 * 1024
"""The output that is read without waiting after the silence. A pipe's capacity is enough; the bound is for descendants
that continue to write."""

_PIPE_BYTES: Final = 256 * 1024
"""The requested capacity of a pipe: fewer switches between a busy command and the agent. More was not faster."""


_BEGINNING_BYTES: Final = 500

_MAX_ARGUMENT_BYTES: Final = 127 * 1024
"""Linux starts no program with an argument of 128 KiB or more: a longer command is read by the shell."""
_READ_COMMAND: Final = 'eval "$(cat)" < /dev/null'
"""The words are expanded before the redirection, so the command is read from stdin, and then has an empty one."""


class ShellUnavailable(Exception):
    """No command could be started; the text is for the user or the model."""


class ShellStatus(NamedTuple):
    """The end of a command."""

    exit_code: int | None
    """128 + n if signal n killed the shell; None if the time limit did."""
    timed_out: bool = False
    """Also set with an exit code, if the shell had exited by itself and only its descendants were left."""
    exited_after_s: float | None = None
    """The time from start to exit of the shell; None if the time limit killed it."""


class ShellOutput(Protocol):
    """Receives the output of a command as it arrives."""

    def feed(self, data: bytes) -> str:
        """Add the next raw bytes and return the text that they added."""
        ...

    def finish(self) -> str:
        """End the output, and return the replacement of an incomplete character."""
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
    children: ChildProcesses | None = None,
    turns: trio.CapacityLimiter | None = None,
    is_outside: bool = False,
) -> ShellStatus:
    """Run a command by `<shell> -c` in a new session and feed its output to `output`.

    stdin is empty; stdout and stderr are one pipe, so their order is that of writing. Returns when the shell
    has exited and the pipe has ended, or after `EXIT_SILENCE_S` without output while a descendant keeps it open; such
    descendants live on. Memory does not grow with the output.

    Cancelling, or the time limit, kills all processes of the command (`child_processes`), also if only descendants of
    the shell are left. The shell has exited and is reaped before `Cancelled` leaves (or hangs in the kernel for over
    `REAP_S`). `output` then has everything that was written until the kill.

    Args:
        command: Passed to the shell unchanged, and read by it from a file if it is longer than an argument may be.
        cwd: The folder to run in.
        output: Receives the bytes; it is finished when this returns or raises, but for `ShellUnavailable`.
        env: The whole environment; None inherits ours.
        timeout_s: Seconds, or None for no limit. A timeout is a result, not an exception.
        shell_path: The shell; None searches bash, then sh.
        command_prefix: A line to run before the command, in the same shell.
        on_output: Called with each piece of text that `output` returned.
        room: Awaited after each read, so that a flooding command waits for the receiver of `on_output`.
        children: The registry that starts it and can kill it; None: that of the agent.
        turns: The limiter that it is counted in while it runs; None: that of tools.
        is_outside: Whether it runs without the sandbox, if there is one, as the user has approved.

    Raises:
        ShellUnavailable: It was not started: the folder or shell is missing, or a system call failed.
    """
    if command_prefix:
        command = f"{command_prefix}\n{command}"
    async with turns or work_turns():
        listener = _Listener(output, on_output, room)
        return await _run(command, shell_path, cwd, env, timeout_s, children or own_children(), listener, is_outside)


async def _run(  # what `run_shell` was given
    command: str,
    shell_path: str | None,
    cwd: str,
    env: Mapping[str, str] | None,
    timeout_s: float | None,
    children: ChildProcesses,
    listener: "_Listener",
    is_outside: bool,
) -> ShellStatus:
    try:
        shell = await trio.to_thread.run_sync(_find_shell, shell_path, cwd)
    except RuntimeError as error:  # no thread is left
        raise ShellUnavailable(f"Cannot start a command: {error}") from error
    run = await _start(children, shell, command, cwd, env, listener, is_outside)
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
    if is_done and run.child.failure is not None:
        raise ShellUnavailable(f"{run.child.failure}\n{run.beginning}".rstrip())
    if is_done:
        return ShellStatus(code, False, run.exited_after_s)
    return ShellStatus(code if run.exited_after_s is not None else None, True, run.exited_after_s)


class _Listener(NamedTuple):
    """The receivers of a command's output."""

    output: ShellOutput
    on_output: Callable[[str], None] | None
    room: Callable[[], Awaitable[None]] | None


class _Run:
    """One process and the reading end of its pipe."""

    __slots__ = ("_beginning", "_listener", "_pipe", "_started_s", "child", "exited_after_s")

    def __init__(self, child: Child, pipe: trio.lowlevel.FdStream, listener: _Listener) -> None:
        self.child = child
        self.exited_after_s: float | None = None
        self._beginning = b""
        self._pipe = pipe
        self._listener = listener
        self._started_s = trio.current_time()

    @property
    def beginning(self) -> str:
        """The beginning of the output, where a sandbox that can't be set up says why."""
        return self._beginning.decode("utf-8", "replace")

    async def collect(self) -> None:
        """Read until the shell has exited and the pipe has ended or is silent; leave the shell unreaped."""
        with trio.CancelScope() as silence:
            async with open_flat_nursery() as nursery:
                nursery.start_soon(self._watch_exit, silence)
                while chunk := await self._pipe.receive_some(CHUNK_BYTES):
                    self._feed(chunk)
                    self._drain(_PIPE_BYTES)
                    if self.exited_after_s is not None:
                        silence.deadline = trio.current_time() + EXIT_SILENCE_S
                    if self._listener.room is not None:
                        # If the shell exits meanwhile, its output is still in the pipe, and is drained.
                        await self._listener.room()

    async def close(self, *, is_killed: bool) -> int | None:
        """Reap the shell, read the rest of the pipe, close it. Takes at most `REAP_S` and `FINAL_READ_S`.

        Returns:
            The exit code of the shell; None if it has not exited.
        """
        status = await self.child.reap(REAP_S)
        try:
            if is_killed:
                await self._read_to_end()
            else:
                # After the silence, a descendant may still keep the pipe open and write.
                self._drain(_DRAIN_BYTES)
        finally:
            self._pipe.close()
            self._emit(self._listener.output.finish())
        return status

    async def _watch_exit(self, silence: trio.CancelScope) -> None:
        await self.child.exited()
        self.exited_after_s = trio.current_time() - self._started_s
        silence.deadline = trio.current_time() + EXIT_SILENCE_S

    async def _read_to_end(self) -> None:
        """Read the output until the kill. The end of the pipe shows that its last writer has exited."""
        with trio.move_on_after(FINAL_READ_S, shield=True):
            while chunk := await self._pipe.receive_some(CHUNK_BYTES):
                self._feed(chunk)

    def _drain(self, most_bytes: int) -> None:
        """Read what is available without waiting: a wait for each chunk would cost as much as its processing."""
        for _ in range(most_bytes // CHUNK_BYTES):
            try:
                chunk = os.read(self._pipe.fileno(), CHUNK_BYTES)
            except OSError:  # nothing is available
                return
            if not chunk:
                return
            self._feed(chunk)

    def _feed(self, chunk: bytes) -> None:
        if (room := _BEGINNING_BYTES - len(self._beginning)) > 0:
            self._beginning += chunk[:room]
        self._emit(self._listener.output.feed(chunk))

    def _emit(self, text: str) -> None:
        if text and self._listener.on_output is not None:
            self._listener.on_output(text)


def _find_shell(shell_path: str | None, cwd: str) -> str:
    """Choose the shell and check the folder, which the system would report as a missing shell.

    Raises:
        ShellUnavailable: One of them is missing.
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


@contextmanager
def _command_file(command: str) -> Generator[BinaryIO | None]:
    """Open a file without a name that holds a command which is too long for an argument; None: it is not.

    Raises:
        OSError: It can't be written.
        ValueError: The command contains a NUL character.
    """
    data = os.fsencode(command)
    if len(data) <= _MAX_ARGUMENT_BYTES:
        yield None
        return
    if b"\0" in data:
        raise ValueError("embedded null byte")
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


async def _start(
    children: ChildProcesses,
    shell: str,
    command: str,
    cwd: str,
    env: Mapping[str, str] | None,
    listener: _Listener,
    is_outside: bool,
) -> _Run:
    try:
        reading, writing = os.pipe()
        try:
            with _command_file(command) as file:
                child = await children.start(
                    [shell, "-c", command if file is None else _READ_COMMAND],
                    stdin=subprocess.DEVNULL if file is None else file.fileno(),
                    stdout=writing,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env=env,
                    is_outside=is_outside,
                )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command
        raise ShellUnavailable(f"Cannot start {shell}: {error}") from error
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # the user's limit of pipe memory is reached
            fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return _Run(child, trio.lowlevel.FdStream(reading), listener)


def _exit_code(returncode: int | None) -> int | None:
    return 128 - returncode if returncode is not None and returncode < 0 else returncode
