"""A branch of a session: its entries from a root to a leaf, each of which is decoded only when it is read.

Pure. The kind of each entry is known without decoding it.
"""

from collections.abc import Iterator, Sequence
from typing import overload

from pinnace_agent.session.store.entries import EntryList, Item, head_of
from pinnace_spec.records.entries import Entry


class Branch(Sequence[Entry]):
    """Some entries of a list, in their order. The list may grow, but what is in it must stay."""

    __slots__ = ("_entries", "_kinds", "_places")

    def __init__(self, entries: EntryList, places: Sequence[int], kinds: Sequence[str]) -> None:
        """Choose entries.

        Args:
            entries: Of a session.
            places: Of those of the branch, from the root to the leaf.
            kinds: Of all entries, by place (`entry_head`).
        """
        self._entries = entries
        self._places = places
        self._kinds = kinds

    @classmethod
    def of(cls, path: Sequence[Entry]) -> "Branch":
        """Return the branch that some entries make."""
        if isinstance(path, Branch):
            return path
        return cls(EntryList(path), range(len(path)), [head_of(entry)[2] for entry in path])

    def select(self, places: Sequence[int]) -> "Branch":
        """Return some of the entries, by their places in this branch."""
        return Branch(self._entries, [self._places[place] for place in places], self._kinds)

    def kind(self, place: int) -> str:
        """Return the kind of an entry (`entry_head`)."""
        return self._kinds[self._places[place]]

    def kinds(self) -> Iterator[str]:
        """Yield the kinds of all entries."""
        return map(self._kinds.__getitem__, self._places)

    def last(self, kind: str, before: int | None = None) -> int | None:
        """Return the place of the last entry of a kind, or of the last before a place."""
        places = range((len(self) if before is None else before) - 1, -1, -1)
        return next((place for place in places if self.kind(place) == kind), None)

    def item(self, place: int) -> Item:
        """Return an entry, decoded or not."""
        return self._entries.item(self._places[place])

    def items(self) -> Iterator[Item]:
        """Yield all entries, decoded or not."""
        return self._entries.items(self._places)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        if isinstance(place, slice):
            return [self._entries[each] for each in self._places[place]]
        return self._entries[self._places[place]]

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Entry]:
        return map(self._entries.__getitem__, self._places)
