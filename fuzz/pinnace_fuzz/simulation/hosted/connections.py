"""Connections of clients to a simulated host: two pipes each, the frames on them, and where a host takes them.

Frames are written and read here a second time, since nothing of the agent is imported: one byte for the kind, four for
the length (big-endian), the payload.
"""

import json
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import trio

from pinnace_fuzz.simulation.streams import Pipe

_HEADER_BYTES: Final = 5


def control(record: Mapping[str, object]) -> bytes:
    """Return a control message in its frame."""
    return _frame(b"j", json.dumps(record).encode("ascii"))


def data(payload: bytes) -> bytes:
    """Return bytes of the RPC stream in a frame."""
    return _frame(b"d", payload)


def _frame(kind: bytes, payload: bytes) -> bytes:
    return kind + len(payload).to_bytes(4, "big") + payload


class Frames:
    """Divides what comes into frames."""

    def __init__(self) -> None:
        """Begin at a frame."""
        self._rest = bytearray()

    def feed(self, received: bytes) -> list[tuple[str, bytes]]:
        """Take bytes; return the kinds and payloads of the frames that are complete."""
        self._rest += received
        frames: list[tuple[str, bytes]] = []
        while len(self._rest) >= _HEADER_BYTES:
            end = _HEADER_BYTES + int.from_bytes(self._rest[1:_HEADER_BYTES], "big")
            if len(self._rest) < end:
                break
            frames.append((chr(self._rest[0]), bytes(self._rest[_HEADER_BYTES:end])))
            del self._rest[:end]
        return frames


class Connection:
    """A socket in memory. Has the methods that a host calls at its end; the client has the two pipes."""

    def __init__(self, draws: random.Random) -> None:
        """Begin open."""
        self.to_host = Pipe(random.Random(draws.getrandbits(64)))
        self.to_client = Pipe(random.Random(draws.getrandbits(64)))

    def lose_client(self) -> None:
        """The client's process is gone, or has closed its end."""
        self.to_host.lose_writer()
        self.to_client.lose_reader()

    def lose_host(self) -> None:
        """The host's process is gone, or has closed its end."""
        self.to_client.lose_writer()
        self.to_host.lose_reader()

    def check(self, agents: Collection[int]) -> None:
        """Every client may connect."""

    async def receive_some(self, max_bytes: int) -> bytes:
        """Return what the client has sent, after waiting for something; empty: the end."""
        return await self.to_host.receive_some(max_bytes)

    async def send_all(self, sent: bytes) -> None:
        """Write everything to the client."""
        await self.to_client.send_all(sent)

    def send_now(self, pieces: Sequence[memoryview]) -> int:
        """Write what the client's pipe takes."""
        return self.to_client.write_now(b"".join(pieces))

    async def wait_writable(self) -> None:
        """Wait for room, or the end of the client."""
        await self.to_client.wait_room()

    async def aclose(self) -> None:
        """Close the host's end."""
        self.lose_host()
        await trio.lowlevel.checkpoint()


class Listening:
    """Where a host takes connections, from its start to its end."""

    def __init__(self, draws: random.Random) -> None:
        """Begin without any."""
        self._draws = draws
        self._waiting: deque[Connection] = deque()
        self._all: list[Connection] = []
        self._changed = trio.Event()
        self._is_over = False

    def connect(self) -> Connection | None:
        """Connect a client; None: the host is gone."""
        if self._is_over:
            return None
        connection = Connection(self._draws)
        self._waiting.append(connection)
        self._all.append(connection)
        self._changed.set()
        return connection

    def end(self) -> None:
        """The host is gone."""
        self._is_over = True
        for connection in self._all:
            connection.lose_host()

    async def accept(self) -> Connection:
        """Wait for the next client."""
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            self._changed = trio.Event()
            await self._changed.wait()
        return self._waiting.popleft()

    def look_after(self) -> None:
        """Nothing needs mending."""


Connect = Callable[[], Connection | None]
"""Connects a client to the host that runs; None: none does."""
