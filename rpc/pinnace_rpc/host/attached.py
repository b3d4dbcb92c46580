"""The connections that are attached to one agent: what each of them gets alone, and their ends."""

from collections.abc import Iterator
from typing import Protocol

from pinnace_rpc.host.journal import Journal, addressed
from pinnace_rpc.host.protocol import Ended


class AgentConnection(Protocol):
    """A connection as its agent sees it."""

    number: int
    has_cursors: bool
    last_read: float
    """When the client last took something, in seconds since the epoch."""

    def finish(self, place: int, ended: Ended) -> None:
        """Write everything up to a place of the journal, and then the end. The first call counts."""
        ...

    def answered(self, place: int) -> None:
        """Take notice of a response to this connection that ends at a place."""
        ...


class AttachedConnections:
    """Those of one agent, by their numbers, in the order in which they came."""

    def __init__(self, journal: Journal) -> None:
        """Begin without any; what they get is written to the journal."""
        self._journal = journal
        self._connections: dict[int, AgentConnection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[AgentConnection]:
        """Those that there are now, whatever comes and goes meanwhile."""
        return iter(tuple(self._connections.values()))

    def __contains__(self, number: int) -> bool:
        return number in self._connections

    def get(self, number: int) -> AgentConnection | None:
        """Return the connection of a number; None: it has ended, or is the host itself."""
        return self._connections.get(number)

    def add(self, connection: AgentConnection) -> None:
        """Attach a connection."""
        self._connections[connection.number] = connection

    def remove(self, number: int) -> None:
        """Take notice that a connection has ended."""
        self._connections.pop(number, None)

    def answer(self, number: int, line: bytes) -> None:
        """Write a response of the host to a connection that is attached."""
        attached = self._connections.get(number)
        if attached is not None:
            self._journal.append(addressed((number,), len(line)) + line, to=(number,))
            attached.answered(self._journal.end)

    def finish_one(self, number: int, ended: Ended) -> None:
        """End a connection that is attached, behind what the journal has."""
        if (attached := self._connections.get(number)) is not None:
            attached.finish(self._journal.end, ended)

    def finish(self, ended: Ended, *, has_cursors: bool | None = None) -> None:
        """End all connections, behind what the journal has; or those alone that have cursors, or have none."""
        for connection in self:
            if has_cursors in (None, connection.has_cursors):
                connection.finish(self._journal.end, ended)
