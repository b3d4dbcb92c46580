"""Which reads of clients an agent's process has at once."""

from typing import Final

import trio

_MAX_READS: Final = 32
"""In the process at once; an agent answers them in two milliseconds."""
_MAX_READ_WAIT_S: Final = 0.1


class ReadSlots:
    """Which reads the process has at once, those of all clients together.

    A client that sends thousands in one go would have all others wait behind them in the pipe. With slots it has one
    more command that waits, as each of the others, and they take turns.
    """

    def __init__(self) -> None:
        """All are free."""
        self._free = trio.Semaphore(_MAX_READS)
        self._held: set[int] = set()

    async def take(self) -> bool:
        """Wait for a slot; return whether there was one in time.

        A read may be deferred by the agent until a client has sent something, which may be behind this command.
        """
        try:
            self._free.acquire_nowait()
        except trio.WouldBlock:
            with trio.move_on_after(_MAX_READ_WAIT_S):
                await self._free.acquire()
                return True
            return False
        return True

    def hold(self, number: int | None) -> None:
        """Keep the slot until the command of this number is answered."""
        if number is None:
            self.give_back()
        else:
            self._held.add(number)

    def answered(self, number: int | None) -> None:
        """Free the slot of a command."""
        if number in self._held:
            self._held.remove(number)
            self.give_back()

    def give_back(self) -> None:
        """Free a slot that is not held."""
        self._free.release()

    def give_up(self) -> None:
        """Free all slots that are held: the process has ended."""
        while self._held:
            self._held.pop()
            self.give_back()
