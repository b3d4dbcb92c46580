"""Brings the new records of one agent to the connections that wait for them.

A connection that has written everything follows: it is called when there is more, and writes without waiting. To wake
its task instead would cost several times the write. A response is brought to its connection at once, and no other one
reads it. Events are brought to all in one pass, from one place on, so that what is read for the first is there for all;
other work has its turn after each few connections. After a pass the followers rest for as long as it took: the more
clients there are and the more their agent writes, the larger are the pieces. Must not know what is written.
"""

from collections.abc import Callable, Collection
from typing import Final

import trio

from pinnace_rpc.host.surroundings import OF_PROCESS

_GROUP: Final = 16
"""Connections that are called without a turn for others."""
_MOST_REST_S: Final = 0.05


Advance = Callable[[int], bool]
"""Writes what there is for a connection, without waiting, from a place on before which nothing is for it. Returns
whether it still follows: everything is written."""


class _Follower:
    """A connection that waits."""

    __slots__ = ("advance", "error", "leaves")

    def __init__(self, advance: Advance) -> None:
        self.advance = advance
        self.error: Exception | None = None
        self.leaves = trio.Event()


class Followers:
    """The connections of one agent that have written everything that was there for them."""

    def __init__(self, nursery: trio.Nursery, elapsed_s: Callable[[], float] = OF_PROCESS.elapsed_s) -> None:
        """Begin without any.

        Args:
            nursery: Gets a task for a pass that is put off.
            elapsed_s: The clock by which a pass is measured.
        """
        self._nursery = nursery
        self._elapsed_s = elapsed_s
        self._followers: dict[int, _Follower] = {}
        self._end = 0
        self._pending: int | None = None
        """Where the events begin that not all have. Between the end of the last pass and there are responses, which
        their connections have."""
        self._next: int | None = None
        """Where the events begin that were published during a pass."""
        self._is_passing = False
        self._rests_until = 0.0

    async def follow(self, connection: int, advance: Advance) -> None:
        """Have `advance` called whenever there is more, until it returns False. Raises what it raises."""
        follower = self._followers[connection] = _Follower(advance)
        try:
            await follower.leaves.wait()
        finally:
            self._followers.pop(connection, None)
        if follower.error is not None:
            raise follower.error

    def advance(self, connection: int) -> None:
        """Call a connection, if it follows."""
        self._advance(connection, self._end if self._pending is None else self._pending)

    def publish(self, start: int, end: int, to: Collection[int] | None = None) -> None:
        """Bring what is new to the connections that it is for.

        Args:
            start: The place before it.
            end: The place behind it.
            to: The connections; None: all.
        """
        self._end = end
        if to is not None:
            self._call(to, start if self._pending is None else self._pending)
        elif self._pending is not None:
            if self._is_passing and self._next is None:
                self._next = start
        else:
            self._pending = start
            if len(self._followers) <= _GROUP and trio.current_time() >= self._rests_until:
                begun_s = self._elapsed_s()
                self._call(tuple(self._followers), start)
                self._end_pass(begun_s)
            else:
                self._nursery.start_soon(self._pass, name="records for clients")

    async def _pass(self) -> None:
        while self._pending is not None:
            await trio.sleep_until(self._rests_until)
            begun_s = self._elapsed_s()
            self._is_passing = True
            connections = tuple(self._followers)
            for first in range(0, len(connections), _GROUP):
                self._call(connections[first : first + _GROUP], self._pending)
                await trio.lowlevel.checkpoint()
            self._end_pass(begun_s)

    def _end_pass(self, begun_s: float) -> None:
        self._is_passing = False
        self._pending, self._next = self._next, None
        took_s = self._elapsed_s() - begun_s
        self._rests_until = trio.current_time() + min(took_s, _MOST_REST_S)

    def _call(self, connections: Collection[int], place: int) -> None:
        for connection in connections:
            self._advance(connection, place)

    def _advance(self, connection: int, place: int) -> None:
        follower = self._followers.get(connection)
        if follower is None:
            return
        try:
            if follower.advance(place):
                return
        except Exception as error:
            follower.error = error  # it concerns no other client
        del self._followers[connection]
        follower.leaves.set()
