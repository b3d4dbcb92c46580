"""The entries of a session in the order of its file. Those of a long file stay lines until somebody needs one.

Pure. A line that is known to hold a well-formed message (`line_shape`) is kept as its bytes, with what a session is
asked most often: decoding 20,000 of them takes longer than everything else about opening a session, and most are never
looked at. An entry that was decoded once stays decoded, so an entry is one object however often it is asked for. Must
not know what entries mean.
"""

import gc
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeAlias, cast, overload

import orjson

from pinnace_agent.session.shared_words import share_words
from pinnace_spec.entries import Entry
from pinnace_spec.messages import Message, StopReason


class StoredCost(Protocol):
    """US dollars."""

    @property
    def total(self) -> float:
        """What a request has cost."""
        ...


class StoredUsage(Protocol):
    """As `pinnace_spec.messages.Usage`."""

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
    """What it used, if it says so."""
    stop_reason: StopReason | None = None
    """Of an answer."""
    tool_calls: int = 0
    """How many an answer has."""

    @property
    def line(self) -> bytes:
        """One JSON object, without LF or anything else around it."""
        return self.source[self.start : self.end]

    def message(self) -> Message:
        """Decode the message."""
        entry = decode_stored(self)
        return cast("Message", entry["message"])  # cast: its line has been compared with what a message may be


Item: TypeAlias = Entry | StoredMessage


class EntryList(Sequence[Entry]):
    """A list of entries that is appended to. Reading one decodes it if need be; `item` does not."""

    __slots__ = ("_items", "append", "extend")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        """Take entries, and lines that are known to hold one."""
        self._items: list[Item] = list(items)
        self.append: Callable[[Item], None] = self._items.append
        """Append an entry. The list's own, since it is called for each line."""
        self.extend: Callable[[Iterable[Item]], None] = self._items.extend
        """Append entries."""

    def pop(self) -> Entry:
        """Take the last entry back."""
        entry = self[-1]
        self._items.pop()
        return entry

    def copy(self) -> "EntryList":
        """Return another list of the same entries. What is decoded later is decoded in each."""
        return EntryList(self._items)

    def item(self, place: int) -> Item:
        """Return an entry as it is held."""
        return self._items[place]

    def items(self, places: Iterable[int] | None = None) -> Iterator[Item]:
        """Give entries as they are held: those of some places, or all."""
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
    share_words(entry)
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
