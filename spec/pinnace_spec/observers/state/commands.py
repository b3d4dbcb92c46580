"""Which response answers which command: by id, else by the name of the command, each used once.

Pure. A part of the fold (`fold`). Judges nothing: a response that answers nothing is only marked as such. Rules
R-RSP-01, R-ERR-01, R-ID-01.
"""

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.verdicts import Record, Step
from pinnace_spec.records import command_table
from pinnace_spec.records.command_table import CLIENT_ANSWERS

UNREADABLE: Final = "parse"
"""Stands for the type of a line that is not a JSON object, as responses do."""
UNTYPED: Final = "unknown"
"""Stands for the type of an object without one, as responses do."""

TEXT_COMMANDS: Final = frozenset(command_table.TEXT_COMMANDS)
SESSION_COMMANDS: Final = frozenset(command_table.SESSION_COMMANDS)
SLOW_COMMANDS: Final = (
    TEXT_COMMANDS
    | SESSION_COMMANDS
    | {"bash", "compact", "navigate_tree", "reload"}
    | {"abort", "export_html", "list_sessions", "message_agent"}
    | {"start_agent", "wait_agent"}
    | {"login", "logout"}
)
"""Commands that are answered after their work. All others are answered as soon as they are read."""
READS: Final = frozenset({*command_table.READS, "hello"})
"""Change nothing."""

_BLANKS: Final = " \t\r\v\f"
"""The characters of a blank line (R-FRM-04). Other agents accept further white space, or ignore it."""
_MAX_BLANKS: Final = 1000
_MAX_GUESSED: Final = 20
_LONG_ID: Final = 256
_LARGE: Final = 1 << 20
_MANY_BRACKETS: Final = 100
_DEEP_BRACKETS: Final = 500
_NULL: Final = "null"
"""The key of the id null."""


@dataclass(slots=True, eq=False)
class Sent:
    """One line of the client, and its answer."""

    number: int
    """Of its step."""
    kind: str
    """Its type, or `UNREADABLE`, or `UNTYPED`."""
    key: str | None
    """Of its id; None: it has none, or none that can be a key."""
    has_id: bool
    record: Record
    at: float
    answered: int = 0
    """The step of its first answer."""
    is_success: bool = False
    """The success of that answer."""
    is_extreme: bool = False
    """An agent may have a limit that this line is over."""
    is_deep: bool = False
    """And most have one."""
    lenient_record: Record | None = None
    """A command that other agents may read in a line that this judge can't parse."""
    lenient: str = ""
    """Of a line that can't be read: its text with invalid UTF-8 replaced."""
    is_blank: bool = False
    """An agent may take this line for a blank one, which needs no answer."""


@dataclass(slots=True)
class SentCommands:
    """The commands that were sent, and those that are open."""

    sent: Sent | None = None
    """What this step sent; None also for a blank line, which is no command."""
    answered: Sent | None = None
    """What this step is the first answer to."""
    again: Sent | None = None
    """What this step answers once more."""
    is_stray: bool = False
    """This step is a response, and nothing was sent that it answers."""
    blanks: deque[int] = field(default_factory=lambda: deque[int](maxlen=_MAX_BLANKS))
    """Blank lines that were not answered, which they need not be."""
    open: dict[int, Sent] = field(default_factory=dict[int, Sent])
    """Not answered yet, by step."""
    last_input: int = 0
    _by_id: dict[str, deque[Sent]] = field(default_factory=dict[str, deque[Sent]])
    _plain: dict[str, deque[Sent]] = field(default_factory=dict[str, deque[Sent]])
    """Without an id, by type."""
    _odd: dict[str, deque[Sent]] = field(default_factory=dict[str, deque[Sent]])
    """With an id that is no text or a very long one, which an agent may refuse to echo; by type."""
    _counts: dict[str, int] = field(default_factory=dict[str, int])
    """How many are open, by type."""
    _guessed: deque[Sent] = field(default_factory=lambda: deque[Sent](maxlen=_MAX_GUESSED))
    """Lines that only some can read, and that were answered without an id, like unreadable ones."""
    _done: dict[str, Sent] = field(default_factory=dict[str, Sent])

    def advance(self, step: Step) -> None:
        """Take a step."""
        self.sent = self.answered = self.again = None
        self.is_stray = False
        if step.direction == "in":
            self._take_line(step)
        elif step.record is not None and edge.text(step.record, "type") == "response":
            self._take_response(step, step.record)

    def are_open(self, kinds: frozenset[str]) -> bool:
        """Return whether a command of one of these types waits for its answer."""
        return any(self._counts.get(kind) for kind in kinds)

    def _take_line(self, step: Step) -> None:
        self.last_input = step.number
        record = step.record
        if record is None:
            if not step.line.strip(_BLANKS):
                self.blanks.append(step.number)
                return
            has_id = False
            sent = Sent(step.number, UNREADABLE, None, False, edge.EMPTY, step.at)
            sent.lenient = _lenient(step.line)
            sent.lenient_record = _lenient_record(sent.lenient)
        else:
            name = record.get("type")
            kind, has_id = name if isinstance(name, str) else UNTYPED, "id" in record
            key = edge.id_key(record["id"]) if has_id else None
            sent = Sent(step.number, kind, key, has_id, record, step.at)
        # Nesting is not counted: any line with so many brackets may be too deep for some parser.
        sent.is_blank = record is None and not step.line.strip()
        brackets = step.line.count("[") + step.line.count("{")
        sent.is_extreme = len(step.line) > _LARGE or brackets > _MANY_BRACKETS
        sent.is_deep = len(step.line) > _LARGE or brackets >= _DEEP_BRACKETS
        self.sent = sent
        if sent.kind in CLIENT_ANSWERS:
            return
        self.open[step.number] = sent
        self._counts[sent.kind] = self._counts.get(sent.kind, 0) + 1
        if sent.key is not None:
            self._by_id.setdefault(sent.key, deque()).append(sent)
        if not has_id:
            self._plain.setdefault(sent.kind, deque()).append(sent)
        elif not isinstance(sent.record["id"], str) or len(sent.record["id"]) > _LONG_ID:
            self._odd.setdefault(sent.kind, deque()).append(sent)

    def _take_response(self, step: Step, record: Record) -> None:
        name = edge.text(record, "command")
        key = edge.id_key(record["id"]) if "id" in record else None
        sent = self._find(name, key)
        if sent is not None:
            sent.answered, sent.is_success = step.number, record.get("success") is True
            if self.open.pop(sent.number, None) is not None:
                self._counts[sent.kind] -= 1
            if key is None and sent.lenient_record is not None:
                self._guessed.append(sent)
            self.answered = sent
            if sent.key is not None:
                self._done[sent.key] = sent
        elif key is not None and key in self._done:
            self.again = self._done[key]
        else:
            self.is_stray = True

    def _find(self, name: str, key: str | None) -> Sent | None:
        if key is not None:
            waiting = _waiting(self._by_id, key)
            same = next((sent for sent in waiting if sent.kind == name and not sent.answered), None)
            found = same or self._misread_as(name, key) or _first(self._by_id, key)
            if found is not None or key != _NULL:
                return found if found is not None else self._misread(name, key)
            # Others write null where no id was sent.
        # An invalid id is not echoed, and an unreadable line has none.
        named = self._unreadable() if name == UNREADABLE else _first(self._plain, name)
        found = named or _first(self._odd, name) or self._unreadable()
        if found is None and name in {UNREADABLE, UNTYPED, ""}:
            # A line that this judge can read may exceed a limit of the agent; and agents name both differently.
            extreme = self._extreme()
            if extreme is not None and self.blanks and not extreme.is_deep:
                return None  # more likely a blank line was treated as a command than this one is too deep
            return extreme or _first(self._plain, UNTYPED) or _first(self._odd, UNTYPED)
        return found

    def _unreadable(self) -> Sent | None:
        """Find an unreadable line, in preference to one that some agents take for a command."""
        waiting = _waiting(self._plain, UNREADABLE)
        nonsense = next((sent for sent in waiting if not sent.answered and sent.lenient_record is None), None)
        return nonsense or (waiting[0] if waiting else None)

    def _misread_as(self, name: str, key: str) -> Sent | None:
        """Find a line that this judge can't read, and that is the command which the response names."""
        for sent in self.open.values():
            record = sent.lenient_record if sent.kind == UNREADABLE else None
            if record is not None and _says(record, name, key):
                return sent
        # Or one of which a refusal was taken that was a blank line's.
        guessed = next((sent for sent in self._guessed if _says(sent.lenient_record or {}, name, key)), None)
        if guessed is None or not self.blanks:
            return None
        self._guessed.remove(guessed)
        self.blanks.popleft()
        return guessed

    def _misread(self, name: str, key: str) -> Sent | None:
        """Find a line that this judge can't read and the agent has taken for that command all the same."""
        unreadable = (sent for sent in self.open.values() if sent.kind == UNREADABLE)
        word = f'"{name}"' if name else key
        return next((sent for sent in unreadable if word in sent.lenient), None)

    def _extreme(self) -> Sent | None:
        return next((sent for sent in self.open.values() if sent.is_extreme), None)


def _lenient(line: str) -> str:
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _says(record: Record, name: str, key: str) -> bool:
    return edge.id_key(record.get("id")) == key and edge.text(record, "type") == name


def _lenient_record(text: str) -> Record | None:
    """Parse a line as lenient agents do: numbers of any size, invalid bytes replaced."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return edge.as_record(value) if edge.is_object(value) else None


def _waiting(index: dict[str, deque[Sent]], key: str) -> deque[Sent]:
    waiting = index.get(key)
    if waiting is None:
        return deque()
    while waiting and waiting[0].answered:
        waiting.popleft()
    return waiting


def _first(index: dict[str, deque[Sent]], key: str) -> Sent | None:
    waiting = _waiting(index, key)
    return waiting[0] if waiting else None
