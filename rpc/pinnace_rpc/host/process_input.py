"""The stdin of an agent's process: where commands go, and when."""

from collections.abc import Callable
from contextlib import suppress

import trio

from pinnace_rpc.host.agents.ports import HostedProcess


class ProcessInput:
    """That of one agent, over all its processes."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        """Begin without a process; `is_over` returns whether there is none and none will be started."""
        self.process: HostedProcess | None = None
        """The one that there is, set by the agent."""
        self.takes_commands = False
        """Whether it takes those of clients, set by the agent."""
        self.changed = trio.lowlevel.ParkingLot()
        """Wakes those that wait for a change of a process, or of what is known of it."""
        self.is_over = is_over
        self._turn = trio.Lock()

    async def wait_open(self) -> bool:
        """Wait until the process takes commands of clients, and return True; False: there is none any more."""
        while not self.takes_commands and not self.is_over():
            await self.changed.park()
        return self.takes_commands

    async def send(self, line: bytes) -> None:
        """Write a line to the process, all of it: the connection that it came from may end meanwhile.

        It ends with the process at the latest. Does not wait where the pipe takes the line: two turns of the event loop
        cost more than the write.
        """
        if self.process is not None and not self._turn.locked():
            line = line[self.process.send_now(line) :]
        if line:
            with trio.CancelScope(shield=True):
                await self._write(line)

    async def _write(self, line: bytes) -> None:
        async with self._turn:
            if self.process is not None:
                # Of a process that has ended, all open commands are answered.
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self.process.stdin.send_all(line)
