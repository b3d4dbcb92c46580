"""What a whole session holds and has used: its file's messages and requests, on every branch, also those compacted.

Pure. What is missing or no number counts as nothing. Source: R-MSG-03, R-STA-08.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import Final

from typing_extensions import TypedDict

from pinnace_agent.core.json_access import as_amount, as_array, as_count, as_object
from pinnace_agent.session.store.entries import MESSAGE_KINDS, EntryList, Item, StoredMessage
from pinnace_spec.records.entries import Entry


class TokenTotals(TypedDict):
    """Tokens by kind. `total` is their sum, whatever providers reported."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    total: int


class FileTotals(TypedDict):
    """What a session has used."""

    toolCalls: int
    """How many its answers have."""
    tokens: TokenTotals
    cost: float
    """US dollars."""


class MessageCounts(TypedDict):
    """How many messages a session's file holds, whatever became of them."""

    userMessages: int
    assistantMessages: int
    toolResults: int
    totalMessages: int
    """Of all roles. What extensions and summaries add are entries of other types."""


# Roles of messages with a usage, and types of entries with one of their own.
_ROLES: Final = ("assistant", "toolResult")
_TYPES: Final = ("usage", "compaction", "branch_summary")
# The kinds of entries that are messages, those of unknown roles included.
_MESSAGES: Final = (*MESSAGE_KINDS.values(), "message")


class RunningTotals:
    """The totals of a list of entries that grows: each entry is read once."""

    def __init__(self) -> None:
        self._count = 0
        self._totals = _nothing()

    def of(self, entries: EntryList) -> FileTotals:
        """Return the totals of all entries: of the same list as before, longer or shorter, never both in between."""
        if len(entries) < self._count:
            self._count, self._totals = 0, _nothing()
        for sums in entries.sums:
            if sums.start >= self._count:
                _add_all(self._totals, entries.items(range(self._count, sums.start)))
                add_tokens(self._totals["tokens"], sums.input, sums.output, sums.cache_read, sums.cache_write)
                self._totals["toolCalls"] += sums.tool_calls
                self._totals["cost"] = reduce(add, sums.costs, self._totals["cost"])
                self._count = sums.end
        _add_all(self._totals, entries.items(range(self._count, len(entries))))
        self._count = len(entries)
        return {**self._totals, "tokens": self._totals["tokens"].copy()}


def file_totals(entries: Iterable[Entry]) -> FileTotals:
    """Add up what all entries of a session have used."""
    totals = _nothing()
    _add_all(totals, entries)
    return totals


def message_counts(kinds: Mapping[str, int]) -> MessageCounts:
    """Count messages by how many entries there are of each kind (`entries.head_of`)."""
    return {
        "userMessages": kinds.get("message/user", 0),
        "assistantMessages": kinds.get("message/assistant", 0),
        "toolResults": kinds.get("message/toolResult", 0),
        "totalMessages": sum(kinds.get(kind, 0) for kind in _MESSAGES),
    }


def add_tokens(totals: TokenTotals, input_: int, output: int, cache_read: int, cache_write: int) -> None:
    """Add what a request has used."""
    totals["input"] += input_
    totals["output"] += output
    totals["cacheRead"] += cache_read
    totals["cacheWrite"] += cache_write
    totals["total"] += input_ + output + cache_read + cache_write


def _nothing() -> FileTotals:
    tokens: TokenTotals = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    return {"toolCalls": 0, "tokens": tokens, "cost": 0}


def _add_all(totals: FileTotals, items: Iterable[Item]) -> None:
    """Add the calls and the usage of entries. The path of a line that has not been decoded is kept short."""
    tokens, spent, calls = totals["tokens"], totals["cost"], totals["toolCalls"]
    input_ = output = cache_read = cache_write = 0
    for item in items:
        if isinstance(item, StoredMessage):
            calls += item.tool_calls
            if (stored := item.usage) is not None:
                input_ += stored.input
                output += stored.output
                cache_read += stored.cacheRead
                cache_write += stored.cacheWrite
                spent += stored.cost.total
            continue
        calls += _calls(item)
        if (usage := _usage(item)) is not None:
            parts = [as_count(usage.get(part)) or 0 for part in ("input", "output", "cacheRead", "cacheWrite")]
            add_tokens(tokens, *parts)
            cost = as_object(usage.get("cost"))
            if cost is not None:
                spent += as_amount(cost.get("total")) or 0
    totals["cost"], totals["toolCalls"] = spent, calls
    add_tokens(tokens, input_, output, cache_read, cache_write)


def _calls(entry: Entry) -> int:
    message = as_object(entry.get("message")) if entry.get("type") == "message" else None
    if message is None or message.get("role") != "assistant":
        return 0
    return sum((as_object(each) or {}).get("type") == "toolCall" for each in as_array(message.get("content")))


def _usage(entry: Entry) -> Mapping[str, object] | None:
    entry_type = entry.get("type")
    if entry_type in _TYPES:
        return as_object(entry.get("usage"))
    message = as_object(entry.get("message")) if entry_type == "message" else None
    if message is None or message.get("role") not in _ROLES:
        return None
    return as_object(message.get("usage"))
