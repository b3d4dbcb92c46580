"""The tree of a session's entries: the parent of each, the leaf, the name of the session, labels, and all that as JSON.

Pure. Decides the parent of every entry, whatever a file says: a missing parent, an id that occurs twice or parents in a
circle hide nothing, and every path ends at a root. A well-formed file gets exactly the parents that it names. Entries
are kept as they are. Has no access to what reaches a model (`context`), nor to files.
"""

import re
from collections.abc import Iterable, Iterator, KeysView, Sequence
from typing import Final, NamedTuple, NotRequired, cast

import orjson
from typing_extensions import TypedDict

from pinnace_agent.session.branch import Branch
from pinnace_agent.session.store.entries import MESSAGE_KINDS, EntryList, Head, Item, StoredMessage, head_of, time_ms
from pinnace_spec.records.entries import Entry
from pinnace_spec.wire.json_text import encode_record

# What separates words, line ends of all kinds and TAB, is a space in a name; other controls (C0, DEL, C1) would reach
# the terminal on which the name is shown.
_SEPARATORS: Final = re.compile(r"[\t-\r\x1c-\x1f\x85\u2028\u2029]+")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_TEXTS: Final = frozenset({str})
_TEXTS_OR_NONE: Final = frozenset({str, type(None)})
_NODE_END: Final = b"]}"
# The types that name the session or label an entry.
_NAMING_TYPES: Final = ("label", "session_info")
_USER: Final = MESSAGE_KINDS["user"]


class Label(NamedTuple):
    """A bookmark of an entry."""

    label: str
    timestamp: str | None
    """When it was set, by its entry; None without a time there."""


class TreeNode(TypedDict):
    """An entry with its children."""

    entry: Entry
    children: list["TreeNode"]
    """By their times; those of the same time, or without one, as in the file."""
    label: NotRequired[str]
    labelTimestamp: NotRequired[str]


class EntryTree:
    """The entries of one session in the order of its file, and the current branch.

    The parent of an entry is the newest one before it with the id that it names, else a later one, unless that is
    a descendant of the entry. If there is none, the entry is an orphan, and its parent is the one just before it in the
    file, or the nearest that is no descendant. Only a parent that is explicitly null makes a root.
    """

    __slots__ = (
        "_by_message_id",
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
        """Of the latest entry that names the session, on any branch; made by `clean_name`."""
        self.labels: dict[str, Label] = {}
        """By the id of the labelled entry, from all branches; for reading."""
        self._by_message_id: dict[str, str] | None = None  # made when it is first asked for
        self._newest: dict[str, int] = {}
        self._shadowed: dict[int, int] = {}  # an entry's place to that of the former one with its id
        self._parents: list[int | None] = []
        self._kinds: list[str] = []
        self._ids: list[object] = []
        self._orphans: set[int] = set()
        if heads is None:
            heads = [head_of(entry) for entry in self.entries]
        # How many of the first entries make one line: the parent of each but the first is the one before it.
        self._straight = 0
        if heads:
            self._add_all(heads)
        if self.entries:
            self.leaf = len(self.entries) - 1

    @property
    def leaf_id(self) -> object:
        """The id of the entry at which the session is, None before the first."""
        return None if self.leaf is None else self._ids[self.leaf]

    @property
    def orphans(self) -> int:
        """How many entries have another parent than they name: that is missing, the entry itself, or a descendant."""
        return len(self._orphans)

    @property
    def ids(self) -> KeysView[str]:
        """All ids that are taken."""
        return self._newest.keys()

    def of_type(self, entry_type: str) -> Iterator[tuple[int, Entry]]:
        """Yield the places and the entries of a type, on any branch, in the order of the file."""
        if entry_type in self.kinds:
            for place, kind in enumerate(self._kinds):
                if kind == entry_type:
                    yield place, self.entries[place]

    def has_id(self, entry_id: str) -> bool:
        """Return whether an entry has this id."""
        return entry_id in self._newest

    def find(self, entry_id: str) -> int | None:
        """Return the place of the newest entry with this id."""
        return self._newest.get(entry_id)

    def entry_of_message_id(self, message_id: str) -> str | None:
        """Return the id of the newest entry whose message of the user has this id.

        Linear the first time, without decoding an entry; then kept with each entry that is added.
        """
        if self._by_message_id is None:
            found = self._by_message_id = {}
            for place, kind in enumerate(self._kinds):
                if kind == _USER:
                    self._note_message_id(found, self.entries.item(place), self._ids[place])
        return self._by_message_id.get(message_id)

    @staticmethod
    def _note_message_id(found: dict[str, str], item: Item, entry_id: object) -> None:
        message_id = item.message_id if isinstance(item, StoredMessage) else item.get("messageId")
        if isinstance(message_id, str) and isinstance(entry_id, str):
            found[message_id] = entry_id

    def parent(self, place: int) -> int | None:
        """Return the place of an entry's parent, None for a root."""
        return self._parents[place]

    def branch(self) -> Branch:
        """Return the entries from a root to the leaf: the current branch, as it is now."""
        return Branch(self.entries, self.path(self.leaf), self._kinds)

    def upward(self, place: int | None) -> Iterator[Entry]:
        """Yield the entries from one to its root; none for None."""
        while place is not None:
            yield self.entries[place]
            place = self._parents[place]

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
        """Append an entry and move the leaf to it. Its parent is found as in a file that ends here."""
        self.leaf = self.add_aside(entry)
        return self.leaf

    def add_aside(self, entry: Entry) -> int:
        """Append an entry that another program wrote: the leaf stays."""
        place = len(self._parents)
        self.entries.append(entry)
        if self._add_heads([head_of(entry)]):
            self._orphans.add(place)
            self._parents[place] = place - 1 if place else None
        if self._by_message_id is not None and self._kinds[place] == _USER:
            self._note_message_id(self._by_message_id, entry, self._ids[place])
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
        if kind == _USER and "messageId" in entry:
            self._by_message_id = None  # a former entry may have had the same
        self.kinds[kind] -= 1
        if not self.kinds[kind]:
            del self.kinds[kind]
        former = self._shadowed.pop(place, None)
        if former is not None and isinstance(entry_id, str):
            self._newest[entry_id] = former
        elif isinstance(entry_id, str):
            self._newest.pop(entry_id, None)
        if entry.get("type") in _NAMING_TYPES:
            self.name = None
            self.labels.clear()
            for each, kind in enumerate(self._kinds):
                if kind in _NAMING_TYPES:
                    self._apply_naming(self.entries[each])

    def nodes(self) -> list[TreeNode]:
        """Return the roots with all their descendants, each entry once.

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

    def _add_all(self, heads: Sequence[Head]) -> None:
        """Find the parents of all entries of a file, the fast way if nothing is odd about it."""
        found = plain_tree(heads)
        if found is None:
            if unknown := self._add_heads(heads):
                self._adopt(unknown)
            self._straight = straight(self._parents)
            return
        self._newest, self._parents, self._straight = found
        self._ids, self._kinds = [head[0] for head in heads], [head[2] for head in heads]
        self.kinds.update((kind, self._kinds.count(kind)) for kind in dict.fromkeys(self._kinds))
        if not self.kinds.keys().isdisjoint(_NAMING_TYPES):
            for place, kind in enumerate(self._kinds):
                if kind in _NAMING_TYPES:
                    self._apply_naming(self.entries[place])

    def _add_heads(self, heads: Sequence[Head]) -> list[int]:
        """Find the parents of the last entries among those before them.

        Returns the places of entries whose parent was not found; they are roots for now.
        """
        newest, parents, kinds = self._newest, self._parents, self.kinds
        kind_of, ids = self._kinds, self._ids
        unknown: list[int] = []
        for place, (entry_id, parent_id, kind) in enumerate(heads, len(parents)):
            parent: int | None = None
            if parent_id is not None:  # a missing parent makes no root: only null does
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
            if kind in _NAMING_TYPES:
                self._apply_naming(self.entries[place])
        return unknown

    def _adopt(self, unknown: list[int]) -> None:
        """Find parents for those whose parent is not before them; they are roots so far."""
        trees = DisjointSet(self._parents)
        for place in unknown:
            parent_id = self.entries[place].get("parentId")
            parent = self._newest.get(parent_id) if isinstance(parent_id, str) else None
            # An entry that names its own id names itself, even if a later one has that id too.
            is_itself = parent_id == self.entries[place].get("id")
            if parent is None or is_itself or trees.root(parent) == place:
                self._orphans.add(place)
            else:
                trees.join(place, parent)
                self._parents[place] = parent
        # DEVIATION D-21: the entry before them is the best guess at their parent.
        for place in sorted(self._orphans):
            parent = self._parents[place] = trees.nearest_before(place)
            if parent is not None:
                trees.join(place, parent)

    def _apply_naming(self, entry: Entry) -> None:
        """Apply an entry that names the session or labels an entry."""
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


class DisjointSet:
    """The trees of a list of parents; they grow together, and are never parted.

    Roots are found with path halving, so a search takes a number of steps that grows with the logarithm of the number
    of entries, averaged over all searches.
    """

    __slots__ = ("_above", "_below")

    def __init__(self, parents: Sequence[int | None]) -> None:
        """Take the parents that are known, by the place of the child. They must not make a cycle."""
        self._above = [place if parent is None else parent for place, parent in enumerate(parents)]
        self._below: dict[int, int] = {}  # by place: a lower one; all between them are in its tree

    def root(self, place: int) -> int:
        """Return the root of the tree in which this is."""
        above = self._above
        while (upper := above[place]) != place:
            above[place] = above[upper]
            place = above[place]
        return place

    def join(self, root: int, parent: int) -> None:
        """Attach a root, and with it its tree, to a parent in another tree."""
        assert self.root(parent) != root == self._above[root]
        self._above[root] = parent

    def nearest_before(self, root: int) -> int | None:
        """Return the last place before a root that is not in its tree; None if there is none.

        Ask in the order of places, and join the root afterwards: then no place is visited more than once one by one.
        """
        place = root - 1
        while place >= 0 and self.root(place) == root:
            place = self._below.get(place, place - 1)
        self._below[root] = place
        return place if place >= 0 else None


class PlainTree(NamedTuple):
    """Where entries are."""

    places: dict[str, int]
    """By id."""
    parents: list[int | None]
    """By place; None for roots."""
    straight: int
    """How many of the first entries make one line: the parent of each but the first, a root, is the one before it."""


def plain_tree(heads: Sequence[Head]) -> PlainTree | None:
    """Find the parents of a file's entries; None if they have to be found one by one."""
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


# DEVIATION D-24: no branch is too long.
def encode_nodes(roots: Sequence[TreeNode]) -> orjson.Fragment:
    """Encode what `EntryTree.nodes` gave, as a value of a record. Linear; not recursive."""
    pieces = [b"["]
    left: list[Iterator[TreeNode]] = [iter(roots)]
    is_first = True
    while left:
        node = next(left[-1], None)
        if node is None:
            left.pop()
            is_first = False
            if left:
                pieces.append(_NODE_END)
            continue
        pieces.append(_opening(node) if is_first else b"," + _opening(node))
        left.append(iter(node["children"]))
        is_first = True
    pieces.append(b"]")
    return orjson.Fragment(b"".join(pieces))


def _opening(node: TreeNode) -> bytes:
    """Encode a node up to where its children begin."""
    bare = {key: value for key, value in node.items() if key != "children"}
    return encode_record(bare)[: -len(b"}\n")] + b',"children":['
