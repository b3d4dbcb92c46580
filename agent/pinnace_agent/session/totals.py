"""What a whole session has used: every request that its file tells of, on every branch and before every compaction.

Pure. What is missing or no number counts as nothing. Must not know messages further than their usage. Source: R-MSG-03.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from typing_extensions import TypedDict

from pinnace_agent.llm.json_edge import as_amount, as_count, as_object
from pinnace_spec.entries import Entry


class TokenTotals(TypedDict):
    """Tokens by kind. `total` is their sum, whatever providers told as theirs."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    total: int


class FileTotals(TypedDict):
    """What a session has used."""

    tokens: TokenTotals
    cost: float
    """US dollars."""


# Roles of messages that tell a usage, and types of entries that do so themselves.
_ROLES: Final = ("assistant", "toolResult")
_TYPES: Final = ("usage", "compaction", "branch_summary")


class RunningTotals:
    """The totals of a list of entries that grows: each entry is looked at once."""

    def __init__(self) -> None:
        self._count = 0
        self._totals = file_totals(())

    def of(self, entries: Sequence[Entry]) -> FileTotals:
        """Return the totals of all entries: of the same list as before, longer or shorter, never both in between."""
        if len(entries) < self._count:
            self._count, self._totals = 0, file_totals(())
        if len(entries) > self._count:
            self._totals = _sum(self._totals, file_totals(entries[self._count :]))
            self._count = len(entries)
        return self._totals


def _sum(one: FileTotals, other: FileTotals) -> FileTotals:
    tokens: TokenTotals = {
        "input": one["tokens"]["input"] + other["tokens"]["input"],
        "output": one["tokens"]["output"] + other["tokens"]["output"],
        "cacheRead": one["tokens"]["cacheRead"] + other["tokens"]["cacheRead"],
        "cacheWrite": one["tokens"]["cacheWrite"] + other["tokens"]["cacheWrite"],
        "total": one["tokens"]["total"] + other["tokens"]["total"],
    }
    return {"tokens": tokens, "cost": one["cost"] + other["cost"]}


def file_totals(entries: Iterable[Entry]) -> FileTotals:
    """Add up what all entries of a session have used."""
    tokens: TokenTotals = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    cost: float = 0
    for entry in entries:
        usage = _usage(entry)
        if usage is None:
            continue
        tokens["input"] += as_count(usage.get("input")) or 0
        tokens["output"] += as_count(usage.get("output")) or 0
        tokens["cacheRead"] += as_count(usage.get("cacheRead")) or 0
        tokens["cacheWrite"] += as_count(usage.get("cacheWrite")) or 0
        spent = as_object(usage.get("cost"))
        if spent is not None:
            cost += as_amount(spent.get("total")) or 0
    tokens["total"] = tokens["input"] + tokens["output"] + tokens["cacheRead"] + tokens["cacheWrite"]
    return {"tokens": tokens, "cost": cost}


def _usage(entry: Entry) -> Mapping[str, object] | None:
    entry_type = entry.get("type")
    if entry_type in _TYPES:
        return as_object(entry.get("usage"))
    message = as_object(entry.get("message")) if entry_type == "message" else None
    if message is None or message.get("role") not in _ROLES:
        return None
    return as_object(message.get("usage"))
