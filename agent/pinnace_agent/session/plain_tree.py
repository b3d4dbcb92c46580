"""The tree of a file about which nothing is odd: each entry has an id of its own and hangs from one before it.

Pure. Several times faster than to look at one entry after the other (`tree`), and that is how long files are. Must not
guess: about which anything is odd gets nothing.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from pinnace_agent.session.entry_head import Head

_TEXTS: Final = frozenset({str})
_TEXTS_OR_NONE: Final = frozenset({str, type(None)})


class PlainTree(NamedTuple):
    """Where entries are."""

    places: dict[str, int]
    """By id."""
    parents: list[int | None]
    """By place; None for roots."""
    straight: int
    """How many of the first entries make one line: each but the first, a root, hangs from the one before it."""


def plain_tree(heads: Sequence[Head]) -> PlainTree | None:
    """Find the parents of a file's entries; None if they have to be looked at one by one."""
    ids, parent_ids = [head[0] for head in heads], [head[1] for head in heads]
    if not (_TEXTS.issuperset(map(type, ids)) and _TEXTS_OR_NONE.issuperset(map(type, parent_ids))):
        return None
    places: dict[object, int] = dict(zip(ids, range(len(ids)), strict=True))
    parents = list(map(places.get, parent_ids))
    if len(places) != len(ids) or parents.count(None) != parent_ids.count(None):
        return None
    first_odd = straight(parents)
    if any(parent is not None and parent >= place for place, parent in enumerate(parents[first_odd:], first_odd)):
        return None
    return PlainTree(cast("dict[str, int]", places), parents, first_odd)  # cast: all ids are texts


def straight(parents: Sequence[int | None]) -> int:
    """Return `PlainTree.straight`."""
    if parents == [None, *range(len(parents) - 1)]:
        return len(parents)
    odd = (place for place, parent in enumerate(parents) if parent != (place - 1 if place else None))
    return next(odd, len(parents))
