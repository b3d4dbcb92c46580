"""The tree that a session's entries make: who hangs from whom, where the session is in it, what is named and labelled.

Pure. Decides the parent of every entry, whatever a file says: a parent that is missing, an id that is there twice or
parents in a circle hide nothing, and every path ends at a root. A file in which all is well gets exactly the parents
that it names. Entries are kept as they are. Must not know what reaches a model (`context`), nor files.
"""

import re
from collections.abc import Iterable, KeysView, Sequence
from typing import Final, NamedTuple, NotRequired

from typing_extensions import TypedDict

from pinnace_agent.session.branch import Branch
from pinnace_agent.session.entry_head import Head, head_of
from pinnace_agent.session.entry_list import EntryList
from pinnace_agent.session.entry_time import time_ms
from pinnace_agent.session.forest import Forest
from pinnace_spec.entries import Entry

# What separates words, line ends of all kinds and TAB, is a space in a name; other controls (C0, DEL, C1) would reach
# the terminal of whoever shows the name.
_SEPARATORS: Final = re.compile(r"[\t-\r\x1c-\x1f\x85\u2028\u2029]+")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# The types that name the session or label an entry.
_NOTED: Final = ("label", "session_info")


class Label(NamedTuple):
    """A bookmark of an entry."""

    label: str
    timestamp: str | None
    """When it was set, as its entry says; None if that says nothing."""


class TreeNode(TypedDict):
    """An entry with those that hang from it."""

    entry: Entry
    children: list["TreeNode"]
    """By their times; those of the same time, or without one, as in the file."""
    label: NotRequired[str]
    labelTimestamp: NotRequired[str]


class EntryTree:
    """The entries of one session in the order of its file, and the branch that is in force.

    The parent of an entry is the newest one before it with the id that it names, else a later one, unless that hangs
    from the entry itself. If there is none, the entry is an orphan and hangs from the one just before it in the file,
    or the nearest that does not hang from it. Only a parent that is explicitly null makes a root.
    """

    __slots__ = (
        "_ids",
        "_kinds",
        "_newest",
        "_orphans",
        "_parents",
        "_shadowed",
        "_straight",
        "entries",
        "kinds",
        "labels",
        "leaf",
        "name",
    )

    def __init__(self, entries: Iterable[Entry] = (), heads: Sequence[Head] | None = None) -> None:
        """Take what a file holds; the leaf is the last entry. Linear, or nearly so, for any file.

        Args:
            entries: In the order of the file.
            heads: Of each of them, if they are known already.
        """
        self.entries = entries.copy() if isinstance(entries, EntryList) else EntryList(entries)
        """In the order of the file; for reading."""
        self.kinds: dict[str, int] = {}
        """How many entries of each kind there are."""
        self.leaf: int | None = None
        """The place of the entry at which the session is, None before the first. May be set to any place."""
        self.name: str | None = None
        """As the latest entry that names the session says, on whichever branch. `clean_name` made it."""
        self.labels: dict[str, Label] = {}
        """By the id of the labelled entry, from all branches; for reading."""
        self._newest: dict[str, int] = {}
        self._shadowed: dict[int, int] = {}  # an entry's place to that of the former one with its id
        self._parents: list[int | None] = []
        self._kinds: list[str] = []
        self._ids: list[object] = []
        self._orphans: set[int] = set()
        if heads is None:
            heads = [head_of(entry) for entry in self.entries]
        # How many of the first entries make one line: each but the first hangs from the one before it.
        self._straight = 0
        if heads:
            self._hang_all(heads)
        if self.entries:
            self.leaf = len(self.entries) - 1

    @property
    def leaf_id(self) -> object:
        """The id of the entry at which the session is, None before the first."""
        return None if self.leaf is None else self._ids[self.leaf]

    @property
    def orphans(self) -> int:
        """How many entries hang from another than they name, since that is missing, the entry itself, or below it."""
        return len(self._orphans)

    @property
    def ids(self) -> KeysView[str]:
        """All ids that are taken."""
        return self._newest.keys()

    def has_id(self, entry_id: str) -> bool:
        """Tell whether an entry has this id."""
        return entry_id in self._newest

    def find(self, entry_id: str) -> int | None:
        """Return the place of the newest entry with this id."""
        return self._newest.get(entry_id)

    def parent(self, place: int) -> int | None:
        """Return the place of an entry's parent, None for a root."""
        return self._parents[place]

    def branch(self) -> Branch:
        """Return the entries from a root to the leaf: the current branch, as it is now."""
        return Branch(self.entries, self.path(self.leaf), self._kinds)

    def path(self, leaf: int | None) -> Sequence[int]:
        """Return the places from a root to this entry; none for None."""
        places: list[int] = []
        while leaf is not None and leaf >= self._straight:
            places.append(leaf)
            leaf = self._parents[leaf]
        if leaf is None:
            places.reverse()
            return places
        beginning = range(leaf + 1)
        return [*beginning, *reversed(places)] if places else beginning

    def add(self, entry: Entry) -> int:
        """Append an entry and move the leaf to it. Its parent is looked for as in a file that ends here."""
        self.leaf = self.add_aside(entry)
        return self.leaf

    def add_aside(self, entry: Entry) -> int:
        """Append an entry that another program wrote: the leaf stays."""
        place = len(self._parents)
        self.entries.append(entry)
        if self._hang([head_of(entry)]):
            self._orphans.add(place)
            self._parents[place] = place - 1 if place else None
        if self._straight == place and self._parents[place] == (place - 1 if place else None):
            self._straight += 1
        return place

    def remove_last(self, place: int) -> None:
        """Take back the newest entry, which was never written. A leaf at it goes back to its parent.

        Raises:
            ValueError: It is not the newest one.
        """
        if place != len(self.entries) - 1:
            raise ValueError("only the newest entry can be taken back")
        entry = self.entries.pop()
        parent = self._parents.pop()
        self._kinds.pop()
        self._ids.pop()
        self._orphans.discard(place)
        self._straight = min(self._straight, place)
        if self.leaf == place:
            self.leaf = parent
        entry_id, _, kind = head_of(entry)
        self.kinds[kind] -= 1
        if not self.kinds[kind]:
            del self.kinds[kind]
        former = self._shadowed.pop(place, None)
        if former is not None and isinstance(entry_id, str):
            self._newest[entry_id] = former
        elif isinstance(entry_id, str):
            self._newest.pop(entry_id, None)
        if entry.get("type") in _NOTED:
            self.name = None
            self.labels.clear()
            for each, kind in enumerate(self._kinds):
                if kind in _NOTED:
                    self._note(self.entries[each])

    def nodes(self) -> list[TreeNode]:
        """Return the roots, with everything that hangs from them, each entry once.

        The value nests two levels for each entry of a branch, thousands of them in a long session: walk through it in
        loops, and encode it with `encode_nodes`.
        """
        labels = self.labels
        nodes: list[TreeNode] = [{"entry": entry, "children": []} for entry in self.entries]
        if labels:
            for node in nodes:
                entry_id = node["entry"].get("id")
                label = labels.get(entry_id) if isinstance(entry_id, str) else None
                if label is not None:
                    node["label"] = label.label
                    if label.timestamp is not None:
                        node["labelTimestamp"] = label.timestamp
        roots: list[TreeNode] = []
        forks: set[int] = set()
        for node, parent in zip(nodes, self._parents, strict=True):
            if parent is None:
                roots.append(node)
                continue
            siblings = nodes[parent]["children"]
            siblings.append(node)
            if len(siblings) > 1:
                forks.add(parent)
        for place in forks:
            nodes[place]["children"] = _by_time(nodes[place]["children"])
        return roots

    def _hang_all(self, heads: Sequence[Head]) -> None:
        """Find the parents of all entries of a file, the fast way if nothing is odd about it."""
        from pinnace_agent.session.plain_tree import plain_tree, straight  # not at start: for files that are read

        found = plain_tree(heads)
        if found is None:
            if unknown := self._hang(heads):
                self._adopt(unknown)
            self._straight = straight(self._parents)
            return
        self._newest, self._parents, self._straight = found
        self._ids, self._kinds = [head[0] for head in heads], [head[2] for head in heads]
        self.kinds.update((kind, self._kinds.count(kind)) for kind in dict.fromkeys(self._kinds))
        if not self.kinds.keys().isdisjoint(_NOTED):
            for place, kind in enumerate(self._kinds):
                if kind in _NOTED:
                    self._note(self.entries[place])

    def _hang(self, heads: Sequence[Head]) -> list[int]:
        """Find the parents of the last entries among those before them; return who has none. It is a root, for now."""
        newest, parents, kinds = self._newest, self._parents, self.kinds
        kind_of, ids = self._kinds, self._ids
        unknown: list[int] = []
        for place, (entry_id, parent_id, kind) in enumerate(heads, len(parents)):
            parent: int | None = None
            if parent_id is not None:  # what has none is no root: one says so
                parent = newest.get(parent_id) if isinstance(parent_id, str) else None
                if parent is None:
                    unknown.append(place)
            parents.append(parent)
            if isinstance(entry_id, str):
                if entry_id in newest:
                    self._shadowed[place] = newest[entry_id]
                newest[entry_id] = place
            kinds[kind] = kinds.get(kind, 0) + 1
            kind_of.append(kind)
            ids.append(entry_id)
            if kind in _NOTED:
                self._note(self.entries[place])
        return unknown

    def _adopt(self, unknown: list[int]) -> None:
        """Find parents for those whose parent is not before them; they are roots so far."""
        forest = Forest(self._parents)
        for place in unknown:
            parent_id = self.entries[place].get("parentId")
            parent = self._newest.get(parent_id) if isinstance(parent_id, str) else None
            # An entry that names its own id names itself, even if a later one has that id too.
            is_itself = parent_id == self.entries[place].get("id")
            if parent is None or is_itself or forest.root(parent) == place:
                self._orphans.add(place)
            else:
                forest.join(place, parent)
                self._parents[place] = parent
        # DEVIATION D-21: what stood before them is the best guess at what they hang from.
        for place in sorted(self._orphans):
            parent = self._parents[place] = forest.nearest_before(place)
            if parent is not None:
                forest.join(place, parent)

    def _note(self, entry: Entry) -> None:
        """Take in what an entry says about the session's name, or about a label."""
        if entry.get("type") == "session_info":
            name = entry.get("name")
            self.name = clean_name(name) if isinstance(name, str) else None
            return
        target_id, label, timestamp = entry.get("targetId"), entry.get("label"), entry.get("timestamp")
        if isinstance(target_id, str):
            self.labels.pop(target_id, None)
            if isinstance(label, str) and label:
                self.labels[target_id] = Label(label, timestamp if isinstance(timestamp, str) else None)


def clean_name(text: str) -> str | None:
    """Return a name on one line, trimmed and without control characters; None if nothing is left."""
    return _CONTROLS.sub("", _SEPARATORS.sub(" ", text)).strip() or None


def _by_time(siblings: list[TreeNode]) -> list[TreeNode]:
    """Sort by time, stably; a node without one stays behind the node that it follows."""
    times: list[int] = []
    for node in siblings:
        own_ms = time_ms(node["entry"].get("timestamp"))
        former_ms = times[-1] if times else 0
        times.append(former_ms if own_ms is None else own_ms)
    return [siblings[place] for place in sorted(range(len(siblings)), key=times.__getitem__)]
