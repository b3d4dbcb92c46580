"""What the clients of one agent have offered and asked for by `hello`, as its process is to have it.

The process has one client, the host: what one of several clients says must neither end nor replace what another one has
said for itself. So the fields of a `hello` are changed before it is sent, and what `subagent_event` shows goes to the
clients alone that have asked for it (R-SUB-09). All of it ends with the process. Pure.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pinnace_spec.records.messages import FILE_METHODS
from pinnace_spec.wire.json_text import JsonValue

_LOOK: Final = ("themes", "theme", "toolsExpanded")
"""Fields of `hello` that say how a client that draws looks."""
_WORKS: Final = b'"state":"running"'
"""Of a sub-agent whose beginning is shown; in a text its quotes would be escaped."""
_FOR_SOME: Final = re.compile(rb'\{"type":"subagent_event","agentId":"([^"\\]*)",')


class Changed(NamedTuple):
    """What a `hello` becomes."""

    before: Mapping[str, object]
    """The fields of another one that precedes it; empty: none does."""
    members: Mapping[str, object]
    """Fields that replace its own; None: what the process has stays."""


class Offers:
    """Those of all clients of one agent."""

    def __init__(self) -> None:
        """Begin with none."""
        self.serves_files: int | None = None
        """The connection whose client serves files: the newest one that has offered it."""
        self._offered_by: int | None = None
        """The one whose offer of files the process has; it may be gone."""
        self._drawing: set[int] = set()
        """The connections whose clients draw surfaces."""
        self._is_drawn = False
        """Whether the process believes that one does."""
        self._watching: dict[int, set[bytes]] = {}
        """For each connection whose client has asked for what sub-agents do, those of whose work it was sent the
        beginning, and not the end."""
        self._is_watched = False
        """Whether the process believes that one has."""

    def take(self, connection: int, fields: Mapping[str, JsonValue]) -> Changed:
        """Take a `hello` that is about to be sent. A field that the process will refuse changes nothing."""
        before: dict[str, object] = {}
        members: dict[str, object] = {}
        files = fields.get("delegate")
        if isinstance(files, list) and all(method in FILE_METHODS for method in files):
            if self._offered_by not in (None, connection):
                before["delegate"] = []  # its open requests end, since its answers are not taken any more
            self.serves_files = self._offered_by = connection
        draws = fields.get("surfaces")
        if isinstance(draws, bool):
            (self._drawing.add if draws else self._drawing.discard)(connection)
            members["surfaces"] = draws if draws or not self._drawing else None
            self._is_drawn = bool(self._drawing)
        if self._drawing and connection not in self._drawing:
            members |= {name: None for name in _LOOK if name in fields}
        watches = fields.get("subagents")
        if isinstance(watches, bool):
            if watches:
                self._watching.setdefault(connection, set())
            else:
                self._watching.pop(connection, None)
            members["subagents"] = watches if watches or not self._watching else None
            self._is_watched = bool(self._watching)
        return Changed(before, members)

    def leave(self, connection: int) -> None:
        """Take notice that a connection has ended: with it ends what its client has offered and asked for."""
        if self.serves_files == connection:
            self.serves_files = None
        self._drawing.discard(connection)
        self._watching.pop(connection, None)

    def withdrawal(self) -> Mapping[str, object]:
        """Return the fields of a `hello` that withdraws what no client offers or asks for any more; empty: nothing."""
        fields: dict[str, object] = {}
        if self._offered_by is not None and self.serves_files is None:
            fields["delegate"] = []
            self._offered_by = None
        if self._is_drawn and not self._drawing:
            fields["surfaces"] = self._is_drawn = False
        if self._is_watched and not self._watching:
            fields["subagents"] = self._is_watched = False
        return fields

    def forget(self) -> None:
        """Take notice that the process has ended."""
        self.serves_files = self._offered_by = None
        self._drawing.clear()
        self._watching.clear()
        self._is_drawn = self._is_watched = False

    def audience(self, line: bytes) -> Collection[int] | None:
        """Return the connections that get an event, or the beginning of its line; None: all.

        A client is sent what a sub-agent does from its beginning on: the process shows that of one that works already
        when a client asks, which others have.
        """
        if (match := _FOR_SOME.match(line)) is None:
            return None
        agent = match[1]
        if line.startswith(b'"event":', match.end()):
            return [each for each, shown in self._watching.items() if agent in shown]
        if _WORKS in line:
            connections = [each for each, shown in self._watching.items() if agent not in shown]
            for each in connections:
                self._watching[each].add(agent)
        else:
            connections = [each for each, shown in self._watching.items() if agent in shown]
            for each in connections:
                self._watching[each].discard(agent)
        return connections
