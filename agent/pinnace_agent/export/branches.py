"""The branches of a session in the order in which people read them: the active one, then those that were left.

Pure. Each entry is in exactly one branch. A branch that was left begins behind the entry at which it parts from another
one and goes to its newest end.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from pinnace_agent.session.tree import EntryTree


class EntryChain(NamedTuple):
    """A chain of entries."""

    number: int
    """From 1, the active one."""
    places: Sequence[int]
    parting: int | None
    """The place of the entry that it continues; None: it begins with nothing."""
    depth: int
    """How many branches it takes to get to the active one; 0 is that itself."""


# First place, the place of the entry that it parts from, depth.
_Parting: TypeAlias = tuple[int, int | None, int]


def branches(tree: EntryTree, *, only_active: bool = False) -> list[EntryChain]:
    """Return all branches; linear in the entries for any tree."""
    active = EntryChain(1, tree.path(tree.leaf), None, 0)
    if only_active:
        return [active]
    children: dict[int | None, list[int]] = defaultdict(list)
    for place in range(len(tree.entries)):
        children[tree.parent(place)].append(place)
    found = [active]
    taken = bytearray(len(tree.entries))
    for place in active.places:
        taken[place] = 1
    # Where branches begin that are not followed yet, the next one last: those of a branch come right behind it.
    waiting: list[_Parting] = [(place, None, 1) for place in reversed(children[None]) if not taken[place]]
    waiting += _partings(active, children, taken)
    while waiting:
        first, parting, depth = waiting.pop()
        places = [first]
        while below := children.get(places[-1]):
            places.append(below[-1])
        branch = EntryChain(len(found) + 1, places, parting, depth)
        for place in places:
            taken[place] = 1
        found.append(branch)
        waiting += _partings(branch, children, taken)
    return found


def _partings(branch: EntryChain, children: dict[int | None, list[int]], taken: bytearray) -> list[_Parting]:
    """Return the beginnings of those that part from a branch, in the reverse of their order."""
    return [
        (child, place, branch.depth + 1)
        for place in reversed(branch.places)
        for child in reversed(children.get(place, []))
        if not taken[child]
    ]
