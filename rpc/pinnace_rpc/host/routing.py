"""Which connection a command came from and a record goes to: ids of clients in the place of the host's, and back.

The host gives each command an id of its own, as a last member, which replaces the client's; the response begins with
it, so that neither a command nor a response is written anew. A line that is no command gets its answer in order. Pure.
Must not know sockets, files or processes.
"""

import json
import re
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from pinnace_spec.records.command_table import READS, SESSION_COMMANDS
from pinnace_spec.records.parsing import MAX_ID_CHARS
from pinnace_spec.rules.errors import PARSE_COMMAND
from pinnace_spec.wire.json_text import JsonValue, WireError, decode_line

MESSAGES: Final = frozenset({"prompt", "steer", "follow_up", "message_agent", "start_agent"})
"""Commands that the agent recognises when they are repeated: they have a `messageId`."""
REPEATABLE: Final = MESSAGES | {"clear_queue"}
"""Commands that are sent again to the next process of the agent: the session decides what a repetition means."""
WAIT: Final = "wait_agent"
"""Has no effect, and may take for ever: it takes no place among the reads that are executed at the same time."""
SAFE: Final = frozenset({*READS, "hello", WAIT})
"""Commands without an effect, which may be executed again."""
REPLACEMENTS: Final = frozenset(SESSION_COMMANDS)
"""Commands behind which the agent may have another session."""

_OWN_RESPONSE: Final = re.compile(rb'\{"id":"h:(\d+)",')
_OTHER_RESPONSE: Final = b'{"type":"response",'
_OWN_ID: Final = re.compile(rb'"id":"h:(\d+)",?')
_PROGRESS: Final = b'{"type":"bash_execution_update"'
_MAX_REPEATED_BYTES: Final = 1024 * 1024
_BLANK: Final = b" \t\r\n"


class RoutedCommand(NamedTuple):
    """A line of a client."""

    name: str
    """Its type, or `PARSE_COMMAND` if it is no command."""
    fields: Mapping[str, JsonValue]
    has_id: bool
    """Whether the response has an id."""
    identity: JsonValue
    is_object: bool
    """Whether the host's id can be added."""


class OpenCommand(NamedTuple):
    """A command that the agent has not answered."""

    connection: int
    name: str
    identity: bytes | None
    """The client's id as JSON; None: the response has none."""
    line: bytes | None = None
    """With what another process may be asked the same; None: never."""


def open_command(connection: int, command: RoutedCommand) -> OpenCommand:
    """Return a command of a connection as one that is answered without the agent."""
    identity = json.dumps(command.identity).encode("ascii") if command.has_id and command.is_object else None
    return OpenCommand(connection, command.name, identity)


class RoutedResponse(NamedTuple):
    """A response of the agent as its client gets it."""

    number: int | None
    """Of the command; None: the line was no command."""
    command: OpenCommand
    line: bytes


def read_command(line: bytes) -> RoutedCommand:
    """Read a line of a client as the agent will read it. Never raises."""
    try:
        value = decode_line(line)
    except WireError:
        return RoutedCommand(PARSE_COMMAND, {}, False, None, False)
    if not isinstance(value, dict):
        return RoutedCommand(PARSE_COMMAND, {}, False, None, False)
    name = value.get("type")
    identity = value.get("id")
    # An id that the agent refuses is refused by it, with its own words.
    is_id = (
        len(identity) <= MAX_ID_CHARS
        if isinstance(identity, str)
        else identity is None or (isinstance(identity, int | float) and not isinstance(identity, bool))
    )
    return RoutedCommand(name if isinstance(name, str) else PARSE_COMMAND, value, "id" in value, identity, is_id)


def with_members(line: bytes, members: Mapping[str, object]) -> bytes:
    """Return an object's line with members at its end, which replace those of the same name, and a LF."""
    body = line.strip(_BLANK)
    if not members:
        return body + b"\n"
    added = json.dumps(members, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    is_empty = not body[1:-1].strip(_BLANK)
    return b"%b%b%b\n" % (body[:-1], b"" if is_empty else b",", added[1:])


def own_id(number: int) -> str:
    """Return the id under which the agent knows a command."""
    return f"h:{number}"


class Router:
    """The commands of all clients of one agent that its process has not answered."""

    def __init__(self) -> None:
        """Begin with none."""
        self.open: dict[int, OpenCommand] = {}
        self._unnumbered: deque[OpenCommand] = deque()
        self._counts: Counter[int] = Counter()
        self._last = 0

    def add(
        self,
        connection: int,
        command: RoutedCommand,
        line: bytes,
        members: Mapping[str, object],
        *,
        is_repeatable: bool,
    ) -> tuple[int | None, bytes]:
        """Take a command and return its number and the line for the agent.

        Without a number the answer is recognised by its order. `is_repeatable`: whether another process may be asked
        the same if this one ends without an answer.
        """
        if not command.is_object:
            self._unnumbered.append(OpenCommand(connection, command.name, None))
            self._counts[connection] += 1
            return None, line + b"\n"
        identity = json.dumps(command.identity).encode("ascii") if command.has_id else None
        kept = with_members(line, members) if is_repeatable and len(line) <= _MAX_REPEATED_BYTES else None
        number = self.reserve(OpenCommand(connection, command.name, identity, kept))
        return number, with_members(line, {**members, "id": own_id(number)})

    def reserve(self, command: OpenCommand) -> int:
        """Return a number for a command."""
        self._last += 1
        self.open[self._last] = command
        self._counts[command.connection] += 1
        return self._last

    def take(self, line: bytes) -> RoutedResponse | None:
        """Return the response that a line of the agent is, with the client's id; None: it is an event."""
        if match := _OWN_RESPONSE.match(line):
            number = int(match[1])
            if (command := self.open.pop(number, None)) is None:
                return RoutedResponse(number, OpenCommand(0, PARSE_COMMAND, None), line)  # it was given up
            self._close(command)
            return RoutedResponse(number, command, _with_id(command, line[match.end() :]))
        if line.startswith(_OTHER_RESPONSE):
            command = self._unnumbered.popleft() if self._unnumbered else OpenCommand(0, PARSE_COMMAND, None)
            self._close(command)
            return RoutedResponse(None, command, line)
        return None

    def event(self, line: bytes) -> bytes:
        """Return an event as clients get it: it may name a command."""
        if line.startswith(_PROGRESS) and (match := _OWN_ID.search(line, 0, 80)):
            command = self.open.get(int(match[1]))
            if command is None or command.identity is None:
                return line[: match.start()] + line[match.end() :]
            comma = b"," if match[0].endswith(b",") else b""
            return b'%b"id":%b%b%b' % (line[: match.start()], command.identity, comma, line[match.end() :])
        return line

    def give_to(self, number: int, connection: int) -> None:
        """Let another connection get the response to a command."""
        command = self.open[number]
        self.open[number] = command._replace(connection=connection)
        self._counts[connection] += 1
        self._close(command)

    def give_up(self) -> list[tuple[int | None, OpenCommand]]:
        """Return all open commands and forget them: their process is gone."""
        left: list[tuple[int | None, OpenCommand]] = [*self.open.items()]
        left += [(None, command) for command in self._unnumbered]
        self.open.clear()
        self._unnumbered.clear()
        self._counts.clear()
        return left

    def count(self, connection: int) -> int:
        """Return how many commands of a connection are open."""
        return self._counts[connection]

    def _close(self, command: OpenCommand) -> None:
        self._counts[command.connection] -= 1
        if self._counts[command.connection] <= 0:
            del self._counts[command.connection]


def failure(command: OpenCommand, text: str, code: str, **more: object) -> bytes:
    """Return a response of the host to a command."""
    record = {"type": "response", "command": command.name, "success": False, "error": text, "errorCode": code, **more}
    return _with_id(command, json.dumps(record, separators=(",", ":")).encode("ascii")[1:] + b"\n")


def without_data(response: RoutedResponse) -> bytes:
    """Return a response that is too long to be kept, of which only the beginning is known."""
    record = {
        "type": "response",
        "command": response.command.name,
        "success": b'"success":true' in response.line[:4096],
    }
    return _with_id(response.command, json.dumps(record, separators=(",", ":")).encode("ascii")[1:] + b"\n")


def record_type(line: bytes) -> bytes:
    """Return the type of an event, which the agent writes first; empty if it does not."""
    if not line.startswith(b'{"type":"'):
        return b""
    return line[9 : line.find(b'"', 9)]


def parse_record(line: bytes) -> Mapping[str, JsonValue]:
    """Return a record that the host has to read; empty if it can't be read."""
    try:
        value = decode_line(line)
    except WireError:
        return {}
    return value if isinstance(value, dict) else {}


def member(fields: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    """Return an object in an object; empty if it is none."""
    value = fields.get(name)
    return cast("Mapping[str, JsonValue]", value) if isinstance(value, dict) else {}


def _with_id(command: OpenCommand, rest: bytes) -> bytes:
    return b"{" + rest if command.identity is None else b'{"id":%b,%b' % (command.identity, rest)
