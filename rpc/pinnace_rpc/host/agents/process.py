"""A process of an agent, fresh or forked: its pipes, the end of its stderr, its exit.

The exit is that of the process, not the end of a pipe: a child of a tool may hold stdout and stderr open for ever.
"""

import os
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

# What a person needs to see why an agent ended: a traceback, or a few log lines.
STDERR_TAIL_BYTES: Final = 16 * 1024
_READ_BYTES: Final = 16 * 1024


class PipedProcess:
    """A `HostedProcess`. `run` has to run in a task for as long as the process lives."""

    def __init__(
        self,
        pid: int,
        pipes: tuple[trio.lowlevel.FdStream, trio.abc.ReceiveStream, trio.lowlevel.FdStream],
        reap: Callable[[], Awaitable[int | None]],
        kill: Callable[[], None],
    ) -> None:
        """Take over a process that was started.

        Args:
            pid: Its id.
            pipes: The host's ends of stdin, stdout and stderr.
            reap: Waits for the exit and returns the status; called once.
            kill: Sends SIGKILL; only called before `reap` has returned.
        """
        self.pid = pid
        self.stdin, self.stdout, self._stderr = pipes
        self._reap = reap
        self._kill = kill
        self._tail = _Tail()
        self._status: int | None = None
        self._exited = trio.Event()

    def send_now(self, data: bytes) -> int:
        """Write to stdin what it takes without waiting, and return how many bytes."""
        try:
            return os.write(self.stdin.fileno(), data)
        except OSError:  # full, closed, or without a reader
            return 0

    def has_programs(self) -> bool:
        """Return whether a program that it has started lives; also if that can't be found out."""
        from pinnace_agent.shell.process_table import children_of  # the host loads nothing of the agent before

        try:
            return bool(children_of(self.pid))
        except OSError:  # no descriptor is left
            return True

    def stderr_tail(self) -> str:
        """Return the end of what it has written to stderr."""
        return self._tail.text()

    async def wait(self) -> int | None:
        """Wait for the exit and return the status."""
        await self._exited.wait()
        return self._status

    def kill(self) -> None:
        """Send SIGKILL to the process alone."""
        if not self._exited.is_set():
            self._kill()

    async def run(self) -> None:
        """Read stderr, so that an agent that logs much is never held up, until the process has exited.

        Cancelled: the process lives on, and its exit counts as seen with an unknown status.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._collect, name="stderr")
                self._status = await self._reap()
                nursery.cancel_scope.cancel()
            self._collect_rest()
        finally:
            self._exited.set()
            with trio.CancelScope(shield=True):  # closing a descriptor does not wait
                await self._stderr.aclose()

    async def _collect(self) -> None:
        with suppress(trio.BrokenResourceError):
            while data := await self._stderr.receive_some(_READ_BYTES):
                self._tail.add(data)

    def _collect_rest(self) -> None:
        """Read what the process has left in the pipe, which other processes may continue to fill."""
        with suppress(OSError):  # empty
            for _ in range(2 * STDERR_TAIL_BYTES // _READ_BYTES):
                if data := os.read(self._stderr.fileno(), _READ_BYTES):
                    self._tail.add(data)


class _Tail:
    """The last bytes of a stream, with bounded memory and cost linear in what is written."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        while self._size - len(self._pieces[0]) >= STDERR_TAIL_BYTES:
            self._size -= len(self._pieces.popleft())

    def text(self) -> str:
        return b"".join(self._pieces)[-STDERR_TAIL_BYTES:].decode("utf-8", "replace")
