"""What the clients of one agent have offered and asked for by `hello`, as its process is to have it.

The process has one client, the host: what one of several clients says must neither end nor replace what another one has
said for itself. So the fields of a `hello` are changed before it is sent, and what `subagent_event` shows goes to the
clients alone that have asked for it (R-SUB-09). How a client that draws looks is for extensions to see: of several, the
one counts that has said it last and is still there. All of it ends with the process. Pure, but for `are_folders`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

import trio

from pinnace_spec.records.flat_commands import flat_command
from pinnace_spec.rules.errors import ClientError
from pinnace_spec.wire.json_text import JsonValue

Look: TypeAlias = Mapping[str, JsonValue]
"""Fields of `hello` that were said."""
_LOOK: Final = ("themes", "theme", "toolsExpanded")
"""Fields of `hello` that say how a client that draws looks."""
_UNSAID: Final[Look] = {"toolsExpanded": False}
"""What the process believes of a client that draws and does not say it."""
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
        self._drawing: dict[int, Look] = {}
        """The connections whose clients draw surfaces, and how each looks; the newest one that has said it is last."""
        self._is_drawn = False
        """Whether the process believes that one does."""
        self._shown: Look = {}
        """How the process believes that the client looks which draws."""
        self._watching: dict[int, set[bytes]] = {}
        """For each connection whose client has asked for what sub-agents do, those of whose work it was sent the
        beginning, and not the end."""
        self._is_watched = False
        """Whether the process believes that one has."""
        self._is_followed = False
        """Whether the host has asked for it itself."""

    def take(self, connection: int, fields: Mapping[str, JsonValue]) -> Changed:
        """Take a `hello` that is about to be sent. One that the process will refuse changes nothing."""
        before: dict[str, object] = {}
        members: dict[str, object] = {}
        if not _is_taken(fields):
            return Changed(before, members)
        files = fields.get("delegate")
        if files == [] and self.serves_files not in (None, connection):
            members["delegate"] = None  # it withdraws what it does not offer
        elif files is not None:
            if self._offered_by not in (None, connection):
                before["delegate"] = []  # its open requests end, since its answers are not taken any more
            self.serves_files = self._offered_by = connection
        members |= self._take_look(connection, fields)
        watches = fields.get("subagents")
        if isinstance(watches, bool):
            if watches:
                self._watching.setdefault(connection, set())
            else:
                self._watching.pop(connection, None)
            members["subagents"] = watches if watches or not self._is_wanted else None
            self._is_watched = self._is_wanted
        return Changed(before, members)

    def _take_look(self, connection: int, fields: Mapping[str, JsonValue]) -> Look:
        """Take whether a client draws, and how it looks; return the members that say this for all that draw."""
        draws = fields.get("surfaces")
        said: Look = {name: fields[name] for name in _LOOK if fields.get(name) is not None}
        former = self._drawing.get(connection)
        if draws is False:
            self._drawing.pop(connection, None)
        elif draws is True or (former is not None and said):
            self._drawing.pop(connection, None)  # it is the newest one now
            self._drawing[connection] = said if draws is True or former is None else {**former, **said}
        if draws is True:  # which has the process forget what others have said
            self._is_drawn, self._shown = True, said
            return {"surfaces": True}
        if not self._drawing:
            if draws is None:
                return {}
            self._is_drawn = False
            return {"surfaces": False}
        others: Look = {} if connection in self._drawing else dict.fromkeys(said)
        look = {name: value for name, value in self._look().items() if fields.get(name) != value}
        return {**({} if draws is None else {"surfaces": None}), **others, **look}

    def _look(self) -> Look:
        """Return the fields by which the process has the look of the newest client that draws."""
        look = next(reversed(self._drawing.values()))
        former, self._shown = self._shown, look
        if any(name in former and name not in look for name in ("themes", "theme")):
            return {"surfaces": True, **look}  # nothing else has it forget them
        return {
            name: value for name, value in {**_UNSAID, **look}.items() if value != former.get(name, _UNSAID.get(name))
        }

    def leave(self, connection: int) -> None:
        """Take notice that a connection has ended: with it ends what its client has offered and asked for."""
        if self.serves_files == connection:
            self.serves_files = None
        self._drawing.pop(connection, None)
        self._watching.pop(connection, None)

    def withdrawal(self) -> Mapping[str, object]:
        """Return the fields of a `hello` that withdraws what no client offers or asks for any more; empty: nothing."""
        fields: dict[str, object] = {}
        if self._offered_by is not None and self.serves_files is None:
            fields["delegate"] = []
            self._offered_by = None
        if self._drawing:
            fields |= self._look()
        elif self._is_drawn:
            fields["surfaces"] = self._is_drawn = False
        if self._is_watched != self._is_wanted:
            fields["subagents"] = self._is_watched = self._is_wanted
        return fields

    @property
    def _is_wanted(self) -> bool:
        return self._is_followed or bool(self._watching)

    def follow(self, *, is_wanted: bool) -> Mapping[str, object]:
        """Have the process show the host what sub-agents do, or no more; return the fields of a `hello`, as above."""
        self._is_followed = is_wanted
        return self.withdrawal()

    def forget(self) -> None:
        """Take notice that the process has ended."""
        self.serves_files = self._offered_by = None
        self._drawing.clear()
        self._watching.clear()
        self._is_drawn = self._is_watched = self._is_followed = False

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


def _is_taken(fields: Mapping[str, JsonValue]) -> bool:
    """Return whether the process takes a `hello` with these fields: it takes all of them, or refuses all."""
    return flat_command("hello", fields, None, has_id=False) is not None


async def are_folders(directories: JsonValue) -> bool:
    """Return whether the process takes the `directories` of a `hello`, which it refuses as a whole if not."""
    if not isinstance(directories, list):
        return True
    from pinnace_rpc.server.directories import real_folders  # with the first one

    try:
        await trio.to_thread.run_sync(real_folders, list(map(str, directories)))
    except ClientError:
        return False
    return True
