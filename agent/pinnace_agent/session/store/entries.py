"""Entries of a session file: in its order, those of a long file as undecoded lines until they are needed.

Pure. A line that is known to hold a well-formed message (`line_shape`) is kept as its bytes, with the facts about it
that are used most often: decoding 20,000 of them takes longer than everything else about opening a session, and most
are never used. An entry that was decoded once stays decoded, so an entry is one object however often it is read.

The head of an entry (id, parent, kind) is taken while the entry is read: a long session is passed several times when it
is opened, and returning to each entry costs more than what is done with it. Has no access to what entries mean.
"""

import gc
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from sys import intern
from typing import Final, NamedTuple, Protocol, TypeAlias, cast, overload

import orjson

from pinnace_agent.core.json_access import as_array, as_count, as_object
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message, StopReason

Head: TypeAlias = tuple[object, object, str]
"""The id; the id of the parent, "" if there is none, which is no id; the kind. A tuple, since there are many."""

_ROLES: Final = ("user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary", "compactionSummary")
MESSAGE_KINDS: Final[Mapping[object, str]] = {role: f"message/{role}" for role in _ROLES}
"""The kinds of entries that hold a message, by its role. Any other entry's kind is its type, "" if that is no text."""

MEANINGLESS: Final = b" \t\r\0"
"""The bytes around the JSON of a line that mean nothing: blanks, the CR of CRLF, and NUL bytes."""

# Texts that nearly every entry repeats.
_TEXTS_OF_ENTRIES: Final = ("type",)
_TEXTS_OF_MESSAGES: Final = ("role", "api", "provider", "model", "stopReason", "toolName")
_TEXTS_OF_BLOCKS: Final = ("type", "name")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def head_of(entry: Mapping[str, object]) -> Head:
    """Return an entry's head."""
    kind = entry.get("type")
    if not isinstance(kind, str):
        kind = ""
    elif kind == "message":
        message = as_object(entry.get("message"))
        role = None if message is None else message.get("role")
        if isinstance(role, str):
            kind = MESSAGE_KINDS.get(role, kind)
    return entry.get("id"), entry.get("parentId", ""), kind


def time_ms(timestamp: object) -> int | None:
    """Return the time of a timestamp, in milliseconds since the epoch; None if it is none. Without a zone it is UTC."""
    if not isinstance(timestamp, str):
        return as_count(timestamp)  # milliseconds, as in messages
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


def intern_strings(entry: dict[str, object]) -> None:
    """Hold texts that nearly every entry repeats once: in a long session they are a tenth of its memory."""
    _intern(entry, _TEXTS_OF_ENTRIES)
    if (message := as_object(entry.get("message"))) is not None:
        _intern(message, _TEXTS_OF_MESSAGES)
        for each in as_array(message.get("content")):
            if (block := as_object(each)) is not None:
                _intern(block, _TEXTS_OF_BLOCKS)


def _intern(fields: dict[str, object], names: tuple[str, ...]) -> None:
    for name in names:
        if name in fields and type(text := fields[name]) is str:
            fields[name] = intern(text)


class StoredCost(Protocol):
    """US dollars."""

    @property
    def total(self) -> float:
        """What a request has cost."""
        ...


class StoredUsage(Protocol):
    """As `pinnace_spec.records.messages.Usage`."""

    @property
    def input(self) -> int:
        """Tokens, as the others but the cost."""
        ...

    @property
    def output(self) -> int: ...  # noqa: D102 - as above

    @property
    def cacheRead(self) -> int: ...  # noqa: D102

    @property
    def cacheWrite(self) -> int: ...  # noqa: D102

    @property
    def totalTokens(self) -> int: ...  # noqa: D102

    @property
    def cost(self) -> StoredCost: ...  # noqa: D102


class StoredMessage(NamedTuple):
    """A line that holds a well-formed message, and what is asked of it without decoding it."""

    source: bytes
    """Where its line is: the whole file, of which no line has to be copied, or the line alone."""
    start: int
    end: int
    role: str
    """The message's, as is the rest."""
    timestamp_ms: int
    usage: StoredUsage | None = None
    """What it used, if that is recorded."""
    stop_reason: StopReason | None = None
    """Of an answer."""
    tool_calls: int = 0
    """How many an answer has."""
    message_id: str | None = None
    """Of a message of the user, beside the message; older lines have none."""

    @property
    def line(self) -> bytes:
        """One JSON object, without LF or anything else around it."""
        return self.source[self.start : self.end]

    def message(self) -> Message:
        """Decode the message."""
        entry = decode_stored(self)
        return cast("Message", entry["message"])  # cast: its line has been compared with what a message may be


class UsageSum(NamedTuple):
    """What entries that were read together have used in all.

    Adding it up then takes a third of the time that reading each usage again takes.
    """

    start: int
    """The place of the first of them."""
    end: int
    """Behind the last place."""
    input: int
    """Tokens, as the next three."""
    output: int
    cache_read: int
    cache_write: int
    tool_calls: int
    costs: Sequence[float]
    """US dollars of each request, in the order of the entries: how a sum is rounded depends on it."""


Item: TypeAlias = Entry | StoredMessage


class EntryList(Sequence[Entry]):
    """A list of entries that is appended to. Reading one decodes it if need be; `item` does not."""

    __slots__ = ("_items", "append", "extend", "sums")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        """Take entries, and lines that are known to hold one."""
        self._items: list[Item] = list(items)
        self.append: Callable[[Item], None] = self._items.append
        """Append an entry. The list's own, since it is called for each line."""
        self.extend: Callable[[Iterable[Item]], None] = self._items.extend
        """Append entries."""
        self.sums: list[UsageSum] = []
        """Of some of the entries, in their order and without overlap."""

    def pop(self) -> Entry:
        """Take the last entry back."""
        entry = self[-1]
        self._items.pop()
        if self.sums and self.sums[-1].end > len(self._items):
            self.sums.pop()
        return entry

    def copy(self) -> "EntryList":
        """Return another list of the same entries. What is decoded later is decoded in each."""
        copied = EntryList(self._items)
        copied.sums += self.sums
        return copied

    def item(self, place: int) -> Item:
        """Return an entry, decoded or not."""
        return self._items[place]

    def items(self, places: Iterable[int] | None = None) -> Iterator[Item]:
        """Return entries, decoded or not: those of some places, or all."""
        return iter(self._items) if places is None else map(self._items.__getitem__, places)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self._items)))]
        item = self._items[place]
        if isinstance(item, StoredMessage):
            item = self._items[place] = decode_stored(item)
        return item

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Entry]:
        for place in range(len(self._items)):  # one that grows meanwhile is given as it was
            yield self[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list):
            return list(self) == other
        return list(self) == list(other) if isinstance(other, EntryList) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a list


def decode_stored(stored: StoredMessage) -> Entry:
    """Decode a line into a new entry."""
    entry: dict[str, object] = orjson.loads(stored.line)
    intern_strings(entry)
    return entry


@contextmanager
def no_collection() -> Generator[None]:
    """Hold the collector of cycles off: JSON has none, and looking for them takes longer than reading it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
