"""Pipes in memory, of which a seed decides how they are cut: partial writes, short reads, delays, a full buffer.

A byte is never lost or changed while both ends are open, as in a pipe. After `break_off`, the crash of the process at
one end, everything that is written goes nowhere.
"""

import random
from typing import Final, Self

import trio

CAPACITY_BYTES: Final = 64 * 1024
# How often a read or a write takes a part only, and how often an end waits before it goes on.
_CUTS: Final = 0.2
_DELAYS: Final = 0.05
_MAX_DELAY_S: Final = 0.5
# The output of an agent that ends waits so long for a reader that takes nothing, as that of a process does.
_STALLED_S: Final = 2.0


class Pipe:
    """One direction. The agent's end of stdin and stdout: it has the methods of both."""

    def __init__(self, draws: random.Random) -> None:
        """Begin open and empty."""
        self._draws = draws
        self._data = bytearray()
        self._is_ended = False
        self._is_broken = False
        self._has_reader = True
        self._changed = trio.Event()
        self.taken_bytes = 0
        """How much the reader has taken."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Close the writer's end."""
        self._is_ended = True
        self._wake()

    def break_off(self) -> None:
        """Drop what is in it and what is written later; the reader finds the end."""
        self._is_broken = self._is_ended = True
        self._data.clear()
        self._wake()

    def lose_writer(self) -> None:
        """The writer's process is gone: what it has written is there, what it writes later goes nowhere."""
        self._is_broken = self._is_ended = True
        self._wake()

    def lose_reader(self) -> None:
        """The reader's process is gone, or has closed its end."""
        self._has_reader = False
        self._data.clear()
        self._is_ended = True
        self._wake()

    @property
    def is_over(self) -> bool:
        """Whether it has lost an end."""
        return self._is_broken or not self._has_reader

    def write_now(self, data: bytes) -> int:
        """Write without waiting, perhaps a part; return how much was written.

        Raises:
            BlockingIOError: There is no room.
            BrokenPipeError: The reader is gone.
        """
        if self._is_broken:
            return len(data)
        if not self._has_reader:
            raise BrokenPipeError
        room = CAPACITY_BYTES - len(self._data)
        if room <= 0:
            raise BlockingIOError
        count = min(room, len(data))
        if count > 1 and self._draws.random() < _CUTS:
            count = self._draws.randrange(1, count)
        self._data += data[:count]
        self._wake()
        return count

    async def send_all(self, data: bytes) -> None:
        """Write everything, in parts, waiting for room.

        Raises:
            trio.BrokenResourceError: The reader is gone.
        """
        await trio.lowlevel.checkpoint()
        left = memoryview(data)
        while left:
            await self._delay()
            try:
                left = left[self.write_now(bytes(left)) :]
            except BlockingIOError:
                await self._changed.wait()
            except BrokenPipeError:
                raise trio.BrokenResourceError from None

    async def wait_room(self) -> None:
        """Wait until something can be written, or the reader is gone."""
        await trio.lowlevel.checkpoint()
        while len(self._data) >= CAPACITY_BYTES and not self.is_over:
            await self._changed.wait()

    async def receive_some(self, max_bytes: int = CAPACITY_BYTES) -> bytes:
        """Return what is there, perhaps a part, after waiting for something; empty: the end."""
        await trio.lowlevel.checkpoint()
        await self._delay()
        while not self._data:
            if self._is_ended:
                return b""
            await self._changed.wait()
        count = min(max_bytes, len(self._data))
        if count > 1 and self._draws.random() < _CUTS:
            count = self._draws.randrange(1, count)
        data = bytes(self._data[:count])
        del self._data[:count]
        self.taken_bytes += count
        self._wake()
        return data

    async def wait_read(self, _is_signalled: object, finished: trio.Event, on_progress: object = None) -> None:
        """Wait until everything is written, as long as the reader reads."""
        taken = -1
        while not finished.is_set() and taken != (taken := self.taken_bytes):
            with trio.move_on_after(_STALLED_S):
                await finished.wait()

    async def _delay(self) -> None:
        if self._draws.random() < _DELAYS:
            await trio.sleep(self._draws.random() * _MAX_DELAY_S)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
