"""How full the context of a session is.

Decides nothing: `compaction.threshold` does, for this and for compaction. Rule R-CMP-04.
"""

from collections.abc import Iterator

from pinnace_agent.compaction.threshold import ContextUsage, usage_of_context
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.entries import Entry


def context_usage(session: Session) -> ContextUsage | None:
    """Return how full the context is, or None without a model or a window."""
    return usage_of_context(_Branch(session.tree), session.meter.tokens(), session.model)


class _Branch:
    """The branch in force, read from its leaf only as far as somebody looks: it is as long as the session."""

    def __init__(self, tree: EntryTree) -> None:
        self._tree = tree

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._tree.branch())

    def __reversed__(self) -> Iterator[Entry]:
        place = self._tree.leaf
        while place is not None:
            yield self._tree.entries[place]
            place = self._tree.parent(place)
