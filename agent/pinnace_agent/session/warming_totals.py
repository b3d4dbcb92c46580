"""What a session has used to keep a provider's cache alive: a part of its totals, which have it, too.

Pure. What is missing or no number counts as nothing. Loaded for the statistics of a session. Source: R-STA-12.
"""

from typing import Final
from weakref import WeakKeyDictionary

from typing_extensions import TypedDict

from pinnace_agent.core.json_access import as_amount, as_count, as_object
from pinnace_agent.session.cache_misses import WARMING_KIND, CacheMisses, FindModel, cache_misses
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.store.entries import EntryList, StoredMessage
from pinnace_agent.session.totals import RunningTotals, TokenTotals, add_tokens


class WarmingTotals(TypedDict):
    """What these requests have used."""

    requests: int
    tokens: TokenTotals
    cost: float
    """US dollars."""


class CacheStats(TypedDict):
    """What the statistics of a session say of caches."""

    cacheMisses: CacheMisses
    cacheWarming: WarmingTotals


def cache_stats(session: Session, find_model: FindModel) -> CacheStats:
    """Return what a session says of caches. What was read is kept for as long as its totals, and read on from there."""
    warming = _RUNNING.setdefault(session.totals, RunningWarming()).of(session.tree.entries)
    return {"cacheMisses": cache_misses(session, find_model), "cacheWarming": warming}


class RunningWarming:
    """The totals of a list of entries that grows: each entry is read once."""

    def __init__(self) -> None:
        self._count = 0
        self._totals = _nothing()

    def of(self, entries: EntryList) -> WarmingTotals:
        """Return the totals of all entries: of the same list as before, longer or shorter, never both in between."""
        if len(entries) < self._count:
            self._count, self._totals = 0, _nothing()
        for item in entries.items(range(self._count, len(entries))):
            if isinstance(item, StoredMessage) or item.get("type") != "usage" or item.get("kind") != WARMING_KIND:
                continue
            usage = as_object(item.get("usage")) or {}
            parts = [as_count(usage.get(part)) or 0 for part in ("input", "output", "cacheRead", "cacheWrite")]
            add_tokens(self._totals["tokens"], *parts)
            self._totals["cost"] += as_amount((as_object(usage.get("cost")) or {}).get("total")) or 0
            self._totals["requests"] += 1
        self._count = len(entries)
        return {**self._totals, "tokens": self._totals["tokens"].copy()}


_RUNNING: Final[WeakKeyDictionary[RunningTotals, RunningWarming]] = WeakKeyDictionary()


def _nothing() -> WarmingTotals:
    return {
        "requests": 0,
        "tokens": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        "cost": 0,
    }
