"""The agent's process and its pipes: started in its own process group, and ended in every case.

Its end is bounded: the end of stdin, some seconds for an orderly exit, TERM, another second, KILL for the whole group.
Processes that the agent started in other sessions must be ended by the agent. Has no access to records. POSIX only.
"""

import codecs
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from subprocess import PIPE
from typing import Final

import trio

# After TERM an agent kills what it has started and writes its last records; one that takes longer hangs.
TERM_GRACE_S: Final = 1.0
# A killed process ends at once, unless it hangs in the kernel.
KILL_WAIT_S: Final = 1.0
# Enough to find out why an agent exited: a traceback, or a few log lines.
STDERR_TAIL_BYTES: Final = 64 * 1024
READ_BYTES: Final = 64 * 1024
# A line of stderr that is longer is passed on in parts.
MOST_LINE_CHARS: Final = 64 * 1024


class AgentProcess:
    """One run of an agent, from its start until `end`."""

    def __init__(
        self, process: trio.Process, command: Sequence[str], on_stderr: Callable[[str], object] | None = None
    ) -> None:
        """Take over a process that leads a group of its own, with three pipes.

        `on_stderr` takes each line of stderr without its end; None: they are written to this process' stderr.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self.command = tuple(command)
        self.stdin: trio.abc.SendStream = process.stdin
        self.stdout: trio.abc.ReceiveStream = process.stdout
        self._stderr: trio.abc.ReceiveStream = process.stderr
        self._stderr_tail = bytearray()
        self._on_stderr = on_stderr
        self._has_ended_group = False
        # Trio's own may be read by its thread alone; a program on asyncio reads it in another one.
        self._exit_code: int | None = None

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
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
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
            await trio.to_thread.run_sync(_write_stderr, "".join(f"{line}\n" for line in lines), abandon_on_cancel=True)
        return rest

    async def wait(self) -> None:
        """Wait for the exit, then kill what is left of its group, which also ends its pipes."""
        self._exit_code = await self._process.wait()
        # At once, and once: the id of an ended process may be reused.
        self._kill_group()
        self._has_ended_group = True

    async def end(self, grace_s: float) -> None:
        """End it: by the end of stdin, or TERM after `grace_s`, or KILL. Its group has ended on return.

        Takes `grace_s` and two seconds at most, also when cancelled. Stdout and stderr must be read meanwhile.
        """
        try:
            with trio.move_on_after(grace_s + TERM_GRACE_S + KILL_WAIT_S, shield=True):
                await trio.aclose_forcefully(self.stdin)
                with trio.move_on_after(grace_s):
                    await self.wait()
                    return
                self._process.terminate()
                with trio.move_on_after(TERM_GRACE_S):
                    await self.wait()
                    return
                self._kill_group()
                await self.wait()
        finally:
            if self.exit_code is None:  # KeyboardInterrupt, which a shield does not delay
                self._kill_group()

    async def close(self) -> None:
        """Close every pipe; after `end`."""
        for stream in (self.stdin, self.stdout, self._stderr):
            await trio.aclose_forcefully(stream)

    def _kill_group(self) -> None:
        # No process is left, or on some systems: only zombies.
        if not self._has_ended_group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


async def start_process(
    command: Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    on_stderr: Callable[[str], object] | None = None,
) -> AgentProcess:
    """Start an agent. A cancelled start leaves none behind: it is over before `Cancelled` is raised elsewhere.

    Raises:
        OSError: It could not be started.
    """
    process = await trio.lowlevel.open_process(
        list(command), stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=cwd, env=env, start_new_session=True
    )
    return AgentProcess(process, command, on_stderr)


def _write_stderr(text: str) -> None:
    """Write to this process' stderr; where it is closed, nothing reads it."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
