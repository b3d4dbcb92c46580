"""A branch as compaction sees it: what its latest compaction left, entry by entry, with the message of each.

Pure. `session.context` decides what an entry adds to the context; this module only keeps which message came from which
entry.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pinnace_agent.core.json_access import as_text
from pinnace_agent.session.context import build_context, context_message, edit_targets, first_kept, last_compaction
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message


class Span(NamedTuple):
    """The entries that make the context, but for the summary of what was before them."""

    first: int
    """The place of the first one on the branch. All from here to the end count, except compactions."""
    messages: Mapping[int, Message]
    """By place, in order; only of those that add one."""
    compaction: Entry | None
    """The latest compaction of the branch; None: it was never compacted."""
    ends_compacted: bool
    """Nothing that a model reads follows the latest compaction."""

    @property
    def previous_summary(self) -> str | None:
        """The summary of everything before, if there is one."""
        return None if self.compaction is None else as_text(self.compaction.get("summary"))


def span_of(path: Sequence[Entry]) -> Span:
    """Read what a branch, given from its root on, adds to the context since its latest compaction."""
    compaction = last_compaction(path)
    first = 0
    if compaction is not None:
        # It kept what it names, and then also what was kept by those before it; nothing if that is not there.
        kept = first_kept(path, compaction)
        first = compaction + 1 if kept is None else kept
    messages = {place: message for place, message in _messages(path, first) if path[place].get("type") != "compaction"}
    ends_compacted = compaction is not None and (not messages or max(messages) < compaction)
    return Span(first, messages, None if compaction is None else path[compaction], ends_compacted)


def messages_of(entries: Sequence[Entry]) -> list[Message]:
    """Return what a part of a branch shows to a model, summaries included, as its edits have left it."""
    return [message for _, message in _messages(entries, 0)]


def _messages(path: Sequence[Entry], first: int) -> Iterator[tuple[int, Message]]:
    edits: dict[int, list[int]] = {}
    for place, target in sorted(edit_targets(path).items()):
        if place >= first:
            edits.setdefault(target, []).append(place)
    for place in range(first, len(path)):
        entry = path[place]
        message = _edited(entry, [path[edit] for edit in edits[place]]) if place in edits else context_message(entry)
        if message is not None:
            yield place, message


def _edited(entry: Entry, edits: Sequence[Entry]) -> Message | None:
    messages = build_context([entry, *edits]).messages
    return messages[0] if messages else None
