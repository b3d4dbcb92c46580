"""The agent's process and its pipes: started in its own process group, and ended in every case.

Its end is bounded: the end of stdin, some seconds for an orderly exit, TERM, another second, KILL for the whole group.
Processes that the agent started in other sessions must be ended by the agent. Has no access to records. POSIX only.
"""

import codecs
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from anyio import (
    BrokenResourceError,
    ClosedResourceError,
    move_on_after,
    notify_closing,
    sleep,
    to_thread,
    wait_readable,
    wait_writable,
)

# After TERM an agent kills what it has started and writes its last records; one that takes longer hangs.
TERM_GRACE_S: Final = 1.0
# A killed process ends at once, unless it hangs in the kernel.
KILL_WAIT_S: Final = 1.0
# Enough to find out why an agent exited: a traceback, or a few log lines.
STDERR_TAIL_BYTES: Final = 64 * 1024
READ_BYTES: Final = 64 * 1024
# A line of stderr that is longer is passed on in parts.
MOST_LINE_CHARS: Final = 64 * 1024
# Where the system does not report an exit to those who wait for it: how often it is asked for.
_EXIT_POLL_S: Final = 0.02


class Pipe:
    """This process' end of a pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        """Take over the file."""
        self._file = file
        self._fd = file.fileno()
        os.set_blocking(self._fd, False)

    async def receive_some(self, most_bytes: int) -> bytes:
        """Wait for data; none at its end, or when it is closed meanwhile. Cancelled, nothing was read."""
        try:
            while not self._file.closed:
                await wait_readable(self._fd)
                with suppress(BlockingIOError):
                    return os.read(self._fd, most_bytes)
        except (OSError, ClosedResourceError):
            pass
        return b""

    async def send_all(self, data: bytes) -> None:
        """Write everything.

        Raises:
            BrokenResourceError: Nothing reads it.
            ClosedResourceError: It was closed meanwhile.
        """
        rest = memoryview(data)
        while rest:
            if self._file.closed:
                raise ClosedResourceError
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await wait_writable(self._fd)
            except OSError as error:
                raise BrokenResourceError from error

    def close(self) -> None:
        """Close it; who waits for it stops."""
        if not self._file.closed:
            notify_closing(self._fd)
            self._file.close()


class AgentProcess:
    """One run of an agent, from its start until `end`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        command: Sequence[str],
        on_stderr: Callable[[str], object] | None = None,
    ) -> None:
        """Take over a process that leads a group of its own, with three pipes.

        `on_stderr` takes each line of stderr without its end; None: they are written to this process' stderr.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self.command = tuple(command)
        self.stdin = Pipe(process.stdin)
        self.stdout = Pipe(process.stdout)
        self._stderr = Pipe(process.stderr)
        self._stderr_tail = bytearray()
        self._on_stderr = on_stderr
        self._has_ended_group = False
        self._exit_code: int | None = None
        # For a loop that is dropped with what runs in it.
        self._finalizer = weakref.finalize(self, _end_at_once, process)

    @property
    def pid(self) -> int:
        """The process' id, which is its group's too."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Minus the signal that ended it; None while it runs. It may be read in any thread."""
        return self._exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of what it wrote to stderr."""
        return bytes(self._stderr_tail[-STDERR_TAIL_BYTES:]).decode("utf-8", "replace")

    async def collect_stderr(self) -> None:
        """Read stderr to its end, pass it on, and keep the tail, so that an agent that logs much never blocks."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        while data := await self._stderr.receive_some(READ_BYTES):
            rest = await self._pass_on(rest + decoder.decode(data))
            self._stderr_tail += data
            # Twice the tail before it is cut: the cost stays linear in what is written.
            if len(self._stderr_tail) > 2 * STDERR_TAIL_BYTES:
                del self._stderr_tail[:-STDERR_TAIL_BYTES]
        if rest := rest + decoder.decode(b"", final=True):
            await self._pass_on(rest, is_end=True)

    async def _pass_on(self, text: str, *, is_end: bool = False) -> str:
        """Pass on whole lines of stderr; return the beginning of the next one."""
        lines = text.split("\n")
        rest = "" if is_end or len(lines[-1]) > MOST_LINE_CHARS else lines.pop()
        if is_end and not lines[-1]:
            lines.pop()
        if self._on_stderr is not None:
            for line in lines:
                self._on_stderr(line.removesuffix("\r"))
        elif lines:
            # In a thread: where this process' stderr is not read, only this waits.
            await to_thread.run_sync(_write_stderr, "".join(f"{line}\n" for line in lines), abandon_on_cancel=True)
        return rest

    async def wait(self) -> None:
        """Wait for the exit, then kill what is left of its group, which also ends its pipes."""
        if self._exit_code is None:
            await _exit_of(self._process)
        self._exit_code = self._process.wait()
        # At once, and once: the id of an ended process may be reused.
        self._kill_group()
        self._has_ended_group = True
        self._finalizer.detach()

    async def end(self, grace_s: float) -> None:
        """End it: by the end of stdin, or TERM after `grace_s`, or KILL. Its group has ended on return.

        Takes `grace_s` and two seconds at most, also when cancelled. Stdout and stderr must be read meanwhile.
        """
        try:
            with move_on_after(grace_s + TERM_GRACE_S + KILL_WAIT_S, shield=True):
                self.stdin.close()
                with move_on_after(grace_s):
                    await self.wait()
                    return
                self._process.terminate()
                with move_on_after(TERM_GRACE_S):
                    await self.wait()
                    return
                self._kill_group()
                await self.wait()
        finally:
            if self.exit_code is None:  # KeyboardInterrupt, which a shield does not delay
                self._kill_group()

    def close(self) -> None:
        """Close every pipe; after `end`."""
        for pipe in (self.stdin, self.stdout, self._stderr):
            pipe.close()

    def _kill_group(self) -> None:
        # No process is left, or on some systems: only zombies.
        if not self._has_ended_group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def start_process(
    command: Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    on_stderr: Callable[[str], object] | None = None,
) -> AgentProcess:
    """Start an agent. Never waits.

    Raises:
        OSError: It could not be started.
    """
    pipe = subprocess.PIPE
    # asyncio's own processes report an exit only when their pipes have ended, which a child of the agent may hold open.
    process = subprocess.Popen(
        list(command), stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, bufsize=0, start_new_session=True
    )
    return AgentProcess(process, command, on_stderr)


def _end_at_once(process: subprocess.Popen[bytes]) -> None:
    """End a process without a loop, also at the exit of the interpreter."""
    if process.returncode is not None:  # its id may be another's
        return
    for file in (process.stdin, process.stdout, process.stderr):
        if file is not None:
            file.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(TERM_GRACE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILL_WAIT_S)


async def _exit_of(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has ended."""
    if process.poll() is not None:
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # neither on every system, nor in every container
        while process.poll() is None:  # noqa: ASYNC110 - there is nothing to wait for
            await sleep(_EXIT_POLL_S)
        return
    try:
        await wait_readable(descriptor)
    finally:
        os.close(descriptor)


def _write_stderr(text: str) -> None:
    """Write to this process' stderr; where it is closed, nothing reads it."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
