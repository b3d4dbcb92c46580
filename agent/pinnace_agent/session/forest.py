"""Which root each entry hangs from while parents are still being looked for: what keeps cycles out of a tree.

Pure; numbers only. A file may say anything about parents, so the checks must be cheap for any file: a walk up for each
entry would take minutes on one made for it.
"""

from collections.abc import Sequence


class Forest:
    """The trees of a list of parents; they grow together, and are never parted.

    Roots are found with path halving, so a search takes a number of steps that grows with the logarithm of the number
    of entries, averaged over all searches.
    """

    __slots__ = ("_above", "_below")

    def __init__(self, parents: Sequence[int | None]) -> None:
        """Take the parents that are known, by the place of the child. They must not make a cycle."""
        self._above = [place if parent is None else parent for place, parent in enumerate(parents)]
        self._below: dict[int, int] = {}  # by place: a lower one; all between them hang in its tree

    def root(self, place: int) -> int:
        """Return the root of the tree in which this is."""
        above = self._above
        while (upper := above[place]) != place:
            above[place] = above[upper]
            place = above[place]
        return place

    def join(self, root: int, parent: int) -> None:
        """Hang a root, and with it its tree, under a parent in another tree."""
        assert self.root(parent) != root == self._above[root]
        self._above[root] = parent

    def nearest_before(self, root: int) -> int | None:
        """Return the last place before a root that is not in its tree; None if there is none.

        Ask in the order of places, and join the root afterwards: then no place is looked at more than once one by one.
        """
        place = root - 1
        while place >= 0 and self.root(place) == root:
            place = self._below.get(place, place - 1)
        self._below[root] = place
        return place if place >= 0 else None
