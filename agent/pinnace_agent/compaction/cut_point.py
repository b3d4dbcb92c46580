"""Finds the cut point of a branch: what becomes a summary, and what stays in the context as it is.

Pure. The newest messages stay, as many as the budget allows; a cut never comes between a call and its result. A turn
may be cut in two; its first part then gets a summary of its own. Rule R-CMP-01.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from pinnace_agent.compaction.branch import Span, span_of
from pinnace_agent.llm.message_size import message_chars
from pinnace_agent.session.context_meter import estimate_tokens
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message

# Messages of the user, or in the user's place.
_TURN_STARTS: Final = ("user", "bashExecution", "custom", "branchSummary")


class NothingToDo(StrEnum):
    """Why a branch is not cut."""

    ALREADY_COMPACTED = "already_compacted"
    """Nothing has come since the latest compaction."""
    TOO_SMALL = "too_small"
    """All of it fits the budget of what is kept."""


class Cut(NamedTuple):
    """A branch in two: `history` and `turn_prefix` make way for a summary, `kept` stays."""

    history: tuple[Message, ...]
    """Whole turns. What no model reads is left out; so it is of the prefix."""
    turn_prefix: tuple[Message, ...]
    """The first part of the turn whose rest is kept; empty if the cut is between two turns."""
    kept: tuple[Message, ...]
    first_kept_entry_id: str
    previous_summary: str | None
    """Of what was before all this."""
    compaction: Entry | None
    """The one that made it."""

    @property
    def summarised(self) -> tuple[Message, ...]:
        """Everything that makes way."""
        return self.history + self.turn_prefix


def find_cut(path: Sequence[Entry], keep_tokens: int) -> Cut | NothingToDo:
    """Cut a branch so that about `keep_tokens` of its newest messages stay.

    Args:
        path: From the root to the leaf.
        keep_tokens: What is kept is less, or more by the one message that reached the budget. It may also be more by
            an answer and its other results, if nothing but results follow that message.
    """
    span = span_of(path)
    if span.ends_compacted:
        return NothingToDo.ALREADY_COMPACTED
    named = _named_places(path)
    candidates = _candidates(span.messages, named)
    cut = _cut_place(span.messages, candidates, keep_tokens)
    if cut is None:
        return NothingToDo.TOO_SMALL
    turn = _turn_start(span.messages, candidates, cut)
    history_end = cut if turn is None else turn
    history = _read(message for place, message in span.messages.items() if place < history_end)
    prefix = _read(message for place, message in span.messages.items() if history_end <= place < cut)
    if not history and not prefix:
        return NothingToDo.TOO_SMALL
    return Cut(
        history=history,
        turn_prefix=prefix,
        kept=tuple(message for place, message in span.messages.items() if place >= cut),
        first_kept_entry_id=str(path[_first_kept_place(path, span, named, cut)]["id"]),
        previous_summary=span.previous_summary,
        compaction=span.compaction,
    )


def _candidates(messages: Mapping[int, Message], named: Container[int]) -> list[int]:
    """Return the places before which a branch may be cut, in order."""
    results_end = _results_ends(messages)
    candidates: list[int] = []
    blocked_to = -1  # the last result of the calls so far
    for place, message in messages.items():
        if place > blocked_to and message["role"] != "toolResult" and place in named:
            candidates.append(place)
        blocked_to = max(blocked_to, results_end.get(place, -1))
    return candidates


def _results_ends(messages: Mapping[int, Message]) -> dict[int, int]:
    """Return the place of the last result of each answer that has any; they come before the next answer."""
    ends: dict[int, int] = {}
    calling = -1
    call_ids: set[str] = set()
    for place, message in messages.items():
        if message["role"] == "assistant" and message["stopReason"] not in {"error", "aborted"}:
            calling = place
            call_ids = {block["id"] for block in message["content"] if block["type"] == "toolCall"}
        elif message["role"] == "toolResult" and message["toolCallId"] in call_ids:
            ends[calling] = place
    return ends


def _named_places(path: Sequence[Entry]) -> frozenset[int]:
    """Return the places to which an id leads: readers take the last entry of a branch that has it."""
    latest: dict[str, int] = {}
    for place, entry in enumerate(path):
        entry_id = entry.get("id")
        if isinstance(entry_id, str) and entry_id:
            latest[entry_id] = place
    return frozenset(latest.values())


def _cut_place(messages: Mapping[int, Message], candidates: Sequence[int], keep_tokens: int) -> int | None:
    total = 0
    for place in sorted(messages, reverse=True):
        total += estimate_tokens(messages[place])
        if total >= keep_tokens:
            following = (candidate for candidate in candidates if candidate >= place)
            return next(following, candidates[-1] if candidates else None)
    return None


def _turn_start(messages: Mapping[int, Message], candidates: Iterable[int], cut: int) -> int | None:
    """Return where the turn begins that a cut divides; None if it divides none, or one that began before all this."""
    if messages[cut]["role"] in _TURN_STARTS:
        return None
    starts = (place for place in candidates if place < cut and messages[place]["role"] in _TURN_STARTS)
    return max(starts, default=None)


def _read(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Leave out what no model reads: there is nothing in it to summarise."""
    return tuple(message for message in messages if message_chars(message))


def _first_kept_place(path: Sequence[Entry], span: Span, named: Container[int], cut: int) -> int:
    """Include entries right before a cut that add no message, such as the change to the model that answers next."""
    while (
        cut - 1 not in span.messages  # there are some before, or there was nothing to cut
        and path[cut - 1].get("type") != "compaction"
        and cut - 1 in named
    ):
        cut -= 1
    return cut
