"""What requests of a session paid for again although a provider's cache had kept it, and why. Rule R-STA-11.

A request is compared with the one before it on its branch: what that one sent begins this one too, so it should have
been read from the cache. In a session without branches, tokens, dollars and requests are those of the release 1.5.2, by
its arithmetic. Everything follows from the entries, which a restart leaves as they are, and from the models' prices
and lifetimes of caches. Each entry is read once, and leaves a few bytes of what its branch had sent up to it, since any
entry may be continued from.
"""

from array import array
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

from typing_extensions import TypedDict

from pinnace_agent.core.json_access import as_amount, as_count, as_object, as_text
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.store.entries import Item, StoredMessage, decode_stored, time_ms
from pinnace_agent.session.totals import RunningTotals
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.messages import Model

MissReason: TypeAlias = Literal["model", "expired", "thinking", "tools", "context", "unknown"]
"""Why: another model; a pause longer than the cache keeps; another thinking level; other tools; a message that was
changed or hidden in the context; something else (another system prompt, a server that forgot)."""

FindModel: TypeAlias = Callable[[str, str], Model | None]
"""Returns the model of a provider's name and an id; None: it is not known, and has no price."""

NOISE_TOKENS: Final = 1024
"""A cache keeps and finds whole stretches of a prompt: up to so many tokens are no miss. As in 1.5.2."""

WARMING_KIND: Final = "cache_warm"
"""The kind of the entries of what requests have used that only keep a cache alive."""
SHORT_LIFETIME_S, LONG_LIFETIME_S = 300.0, 3600.0
"""How long a cache keeps a prompt from its last use, if its model does not say."""

# What an entry knows of its branch, beside the last request.
_REPORTED: Final = 1  # a cache was read or written: the provider has one
_LONG: Final = 2  # what was written is kept for the longer lifetime
_THINKING: Final = 4  # since the last request there is another level
_CONTEXT: Final = 8  # since the last request the context was edited
_TOOLS: Final = 16  # since the last request tools were added or removed
_CHANGES: Final = {"thinking_level_change": _THINKING, "tools": _TOOLS, "context_edit": _CONTEXT}
_NONE: Final = -1
_COUNTS: Final = ("input", "cacheRead", "cacheWrite", "cacheWrite1h")
_MILLION: Final = 1_000_000


_Kind: TypeAlias = Literal[
    "assistant", "usage", "compaction", "branch_summary", "thinking_level_change", "tools", "context_edit", None
]


class Missed(TypedDict):
    """What was missed."""

    missCount: int
    """Requests."""
    missedTokens: int
    """What they paid for again."""
    missedCost: float
    """How many US dollars more than reading it from the cache; nothing without known prices."""


class MissedFor(Missed):
    """What was missed for a reason."""

    reason: MissReason


class CacheMisses(Missed):
    """What a session has missed in all."""

    reasons: list[MissedFor]
    """What adds up to it, in the order of `MissReason`; only reasons that there were."""


def cache_misses(session: Session, find_model: FindModel) -> CacheMisses:
    """Return what a session has missed. What was read is kept for as long as its totals, and is read on from there."""
    running = _RUNNING.setdefault(session.totals, RunningMisses())
    return running.of(session.tree, find_model)


class RunningMisses:
    """What a tree of entries has missed: each entry is read once."""

    def __init__(self) -> None:
        # By the place of an entry: the place of the last request of its branch, what is known beside it, and, of a
        # request, when what it sent was last used.
        self._last = array("q")
        self._known = array("B")
        self._used_ms = array("q")
        self._missed: dict[MissReason, Missed] = {}

    def of(self, tree: EntryTree, find_model: FindModel) -> CacheMisses:
        """Return what all entries of a tree have missed: of the same tree as before, longer or shorter, never both."""
        if len(tree.entries) < len(self._last):
            self._last, self._known, self._used_ms = array("q"), array("B"), array("q")
            self._missed.clear()
        lasts, knowns, times = self._last, self._known, self._used_ms
        add_last, add_known, add_time = lasts.append, knowns.append, times.append
        start = len(lasts)
        last, known, sent, before = _NONE, 0, 0, _NONE
        # The path of a message that misses nothing is kept short: a long session has 200,000 of them.
        items = tree.entries.items(range(start, len(tree.entries)))
        for place, (item, parent) in enumerate(
            zip(items, map(tree.parent, range(start, len(tree.entries))), strict=True), start
        ):
            if parent != before or before == _NONE:
                if parent is None or parent >= place:  # a root, or an odd file names one that comes later
                    last, known = _NONE, 0
                else:
                    last, known = lasts[parent], knowns[parent]
                    sent = 0 if last == _NONE else _request(tree.entries.item(last))[0]
            before, used_ms = place, 0
            if type(item) is StoredMessage and item.role != "assistant":
                add_last(last)
                add_known(known)
                add_time(0)
                continue
            match _kind(item):
                case None:
                    pass
                case "assistant" | "usage" as kind:
                    tokens, cache_read, cache_write, is_long, at_ms = _request(item)
                    if tokens:
                        if kind == "usage" or cache_read or cache_write:
                            known |= _REPORTED
                        if kind == "assistant" and last != _NONE and known & _REPORTED:
                            missed = min(sent, tokens) - cache_read
                            if missed > NOISE_TOKENS:
                                self._count(
                                    tree.entries.item(place), tree.entries.item(last), missed, last, known, find_model
                                )
                            elif at_ms > times[last]:
                                times[last] = at_ms
                        # What was only read is kept for as long as before.
                        kept = _LONG if is_long else 0 if cache_write else known & _LONG
                        last, known, sent, used_ms = place, known & _REPORTED | kept, tokens, at_ms
                case "thinking_level_change" | "tools" | "context_edit" as change:
                    known |= _CHANGES[change]
                case "compaction" | "branch_summary":
                    last, known = _NONE, 0  # what follows was never sent so
            add_last(last)
            add_known(known)
            add_time(used_ms)
        reasons: list[MissedFor] = [
            {"reason": reason, **self._missed[reason]} for reason in _ORDER if reason in self._missed
        ]
        return {
            "missCount": sum(each["missCount"] for each in reasons),
            "missedTokens": sum(each["missedTokens"] for each in reasons),
            "missedCost": sum(each["missedCost"] for each in reasons),
            "reasons": reasons,
        }

    def _count(self, item: Item, former: Item, missed: int, last: int, known: int, find_model: FindModel) -> None:
        """Count what an answer has missed of what the last request had sent."""
        names = _names(item)
        model, used_ms, at_ms = find_model(*names), self._used_ms[last], _request(item)[4]
        is_same_model = names == _names(former)
        if is_same_model:
            self._used_ms[last] = max(used_ms, at_ms)
        if not is_same_model:
            reason: MissReason = "model"
        elif at_ms - used_ms > _MILLISECONDS * _lifetime_s(model, is_long=bool(known & _LONG)):
            reason = "expired"
        elif known & _THINKING:
            reason = "thinking"
        elif known & _TOOLS:
            reason = "tools"
        else:
            reason = "context" if known & _CONTEXT else "unknown"
        total = self._missed.setdefault(reason, {"missCount": 0, "missedTokens": 0, "missedCost": 0})
        total["missCount"] += 1
        total["missedTokens"] += missed
        total["missedCost"] += missed * max(0.0, _rebilled(item, model))


_ORDER: Final[tuple[MissReason, ...]] = ("model", "expired", "thinking", "tools", "context", "unknown")
_MILLISECONDS: Final = 1000


def _kind(item: Item) -> _Kind:
    """Return `assistant` for an answer, `usage` for that of warming, `tools` for a choice of tools (`tool_records`).

    The type of another entry that matters; else None.
    """
    if isinstance(item, StoredMessage):
        return "assistant" if item.role == "assistant" else None
    match item.get("type"):
        case "message":
            message = as_object(item.get("message")) or {}
            if message.get("role") == "system" and not message.keys().isdisjoint(("toolsAdded", "toolsRemoved")):
                return "tools"
            return "assistant" if message.get("role") == "assistant" else None
        case "usage":
            return "usage" if item.get("kind") == WARMING_KIND else None
        case "compaction":
            return "compaction"
        case "branch_summary":
            return "branch_summary"
        case "thinking_level_change":
            return "thinking_level_change"
        case "context_edit":
            return "context_edit"
        case _:
            return None


def _request(item: Item) -> tuple[int, int, int, object, int]:
    """Return what an answer, or the usage of warming, reports of its request.

    That is the tokens of its prompt, 0 if it reported none; those read from a cache; those written to one; whether some
    of these are kept for longer; the time in milliseconds.
    """
    if isinstance(item, StoredMessage):
        usage = item.usage
        if usage is None:
            return 0, 0, 0, False, 0
        cache_read, cache_write = usage.cacheRead, usage.cacheWrite
        return (
            usage.input + cache_read + cache_write,
            cache_read,
            cache_write,
            getattr(usage, "cacheWrite1h", 0),
            item.timestamp_ms,
        )
    holder: Mapping[str, object] = as_object(item.get("message")) or item
    used = as_object(holder.get("usage")) or {}
    input_, cache_read, cache_write, long_write = (as_count(used.get(name)) or 0 for name in _COUNTS)
    return input_ + cache_read + cache_write, cache_read, cache_write, long_write, time_ms(holder.get("timestamp")) or 0


def _names(item: Item) -> tuple[str, str]:
    """Return the provider and the model of a request. The line stays undecoded: only those of misses are read so."""
    entry = decode_stored(item) if isinstance(item, StoredMessage) else item
    holder: Mapping[str, object] = as_object(entry.get("message")) or entry
    return as_text(holder.get("provider")) or "", as_text(holder.get("model")) or ""


def _lifetime_s(model: Model | None, *, is_long: bool) -> float:
    lifetimes = {} if model is None else model.get("promptCache") or {}
    named = as_amount(lifetimes.get("long" if is_long else "short"))
    return named or (LONG_LIFETIME_S if is_long else SHORT_LIFETIME_S)


def _rebilled(item: Item, model: Model | None) -> float:
    """Return how many dollars more a token cost that came from no cache than one that came from it.

    That one costs what the request reports, else the model's price.
    """
    _, cache_read, _, _, _ = _request(item)
    entry = decode_stored(item) if isinstance(item, StoredMessage) else item
    used = as_object((as_object(entry.get("message")) or {}).get("usage")) or {}
    costs = as_object(used.get("cost")) or {}
    input_, read, write = (as_amount(costs.get(name)) or 0 for name in _COUNTS[:3])
    paid = sum(as_count(used.get(name)) or 0 for name in ("input", "cacheWrite"))
    paid_price = (input_ + write) / paid if paid else 0.0
    if cache_read:
        return paid_price - read / cache_read
    return paid_price - (0.0 if model is None else model["cost"]["cacheRead"] / _MILLION)


# Beside the totals, not in them: a start does without this module.
_RUNNING: Final[WeakKeyDictionary[RunningTotals, RunningMisses]] = WeakKeyDictionary()
