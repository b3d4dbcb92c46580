"""The context of a branch: its messages, compacted and edited, and the model and thinking level at its end.

Pure. Works on entries of any origin and never changes one. `tree` decides which entries make the branch; `llm.context`
turns the messages into what a provider can read. Source: R-MSG-01.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from pinnace_agent.core.json_access import as_list, as_object, as_text
from pinnace_agent.session.branch import Branch
from pinnace_agent.session.store.entries import MESSAGE_KINDS, Item, StoredMessage, no_collection, time_ms
from pinnace_agent.session.store.message_repair import whole_message
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message


class BranchContext(NamedTuple):
    """What a branch comes to."""

    messages: list[Message]
    model: tuple[str, str] | None
    """Provider and id of the model chosen last, or that answered last; None: neither."""
    thinking_level: str | None
    """The level chosen last, which may be one that is unknown here; None: none was."""


# The roles of which an edit may replace the content, the type `custom_message` aside.
_EDITABLE: Final = ("user", "assistant", "toolResult", "custom")
# The kinds of which every entry is a message.
_MESSAGES: Final = frozenset({*MESSAGE_KINDS.values(), "custom_message", "compaction"})
# Whether an entry counts depends on more than its kind where there are such.
_COUNTED_ONE_BY_ONE: Final = frozenset({"compaction", "context_edit", "branch_summary"})


class ContextIndex:
    """A branch whose messages have not been decoded: each is decoded when it is read.

    The entries must not change meanwhile.
    """

    __slots__ = ("_count", "_edits", "_entries", "model", "thinking_level")

    def __init__(self, path: Branch, kinds: Mapping[str, int] | None = None) -> None:
        """Take a branch.

        Args:
            path: From the root to the leaf.
            kinds: How many entries of each kind its tree has; None: not known.
        """
        known = set(path.kinds()) if kinds is None else set(kinds)
        self.model = _latest_model(path)
        """As `BranchContext.model`; so is `thinking_level`."""
        self.thinking_level = _latest_level(path) if "thinking_level_change" in known else None
        compaction = path.last("compaction") if "compaction" in known else None
        places = range(len(path)) if compaction is None else _kept_places(path, compaction)
        self._entries = path if compaction is None else path.select(places)
        by_place = _edits(path, places) if "context_edit" in known else {}
        found = enumerate(places) if by_place else ()
        self._edits = {index: by_place[place] for index, place in found if place in by_place}
        self._count: int | None = None
        if kinds is not None and len(path) == sum(kinds.values()) and known.isdisjoint(_COUNTED_ONE_BY_ONE):
            self._count = sum(count for kind, count in kinds.items() if kind in _MESSAGES)

    def count(self) -> int:
        """Return how many messages there are, without decoding one."""
        if self._count is not None:
            return self._count
        removed = [index for index, content in self._edits.items() if content is None]
        return sum(map(self._adds_message, range(len(self._entries)))) - sum(map(self._adds_message, removed))

    def messages(self) -> list[Message]:
        """Return the messages; see `context_message`."""
        with no_collection():
            found = map(self._message, range(len(self._entries)))
            return [message for message in found if message is not None]

    def newest_first(self) -> Iterator[Message]:
        """Yield the messages from the last to the first, each decoded when its turn comes."""
        found = map(self._message, range(len(self._entries) - 1, -1, -1))
        return (message for message in found if message is not None)

    def items(self) -> Sequence[StoredMessage | Message]:
        """Return the messages, as the lines that hold them where they have not been decoded."""
        items: list[Item | Message | None] = list(self._entries.items())
        edits = self._edits
        for index in [each for each, item in enumerate(items) if not isinstance(item, StoredMessage)]:
            items[index] = self._message(index)
        for index in edits:
            items[index] = self._message(index)
        found = items if None not in items else [item for item in items if item is not None]
        return cast("Sequence[StoredMessage | Message]", found)  # cast: no entry is left

    def _message(self, index: int) -> Message | None:
        is_stored = isinstance(self._entries.item(index), StoredMessage)
        entry = self._entries[index]
        if index in self._edits:
            return _edited_message(entry, self._edits[index])
        if is_stored:
            return cast("Message", entry["message"])  # cast: its line has been compared with what a message may be
        return context_message(entry)

    def _adds_message(self, index: int) -> bool:
        """Return whether `context_message` returns one."""
        kind = self._entries.kind(index)
        if kind == "branch_summary":
            return as_text(self._entries[index].get("summary")) is not None
        return kind in _MESSAGES


def build_context(path: Sequence[Entry]) -> BranchContext:
    """Return the context at the end of a branch.

    The last compaction comes first, then what it kept of the entries before it, then what follows it. Older ones
    among those, and everything before, is no longer in the context. The choices are those of the whole branch.

    Args:
        path: From the root to the leaf.
    """
    outline = ContextIndex(Branch.of(path))
    return BranchContext(outline.messages(), outline.model, outline.thinking_level)


def context_message(entry: Entry) -> Message | None:
    """Return what one entry adds to the context, as a whole message; None if nothing, or nothing that has a meaning.

    A message that is well-formed is returned as it is, not a copy. System messages, which other programs store, add
    nothing: the system prompt is made anew.
    """
    timestamp = entry.get("timestamp")
    match entry.get("type"):
        case "message":
            return whole_message(entry.get("message"), timestamp)
        case "custom_message":
            fields = {name: entry[name] for name in ("customType", "content", "display", "details") if name in entry}
            role = "custom"
        case "branch_summary" if as_text(entry.get("summary")) is not None:
            fields = {"summary": entry.get("summary"), "fromId": entry.get("fromId")}
            role = "branchSummary"
        case "compaction":
            fields = {"summary": entry.get("summary"), "tokensBefore": entry.get("tokensBefore")}
            role = "compactionSummary"
        case _:
            return None
    return whole_message({"role": role, **fields, "timestamp": time_ms(timestamp)}, timestamp)


def last_compaction(path: Sequence[Entry]) -> int | None:
    """Return the place of the latest compaction of a branch."""
    if isinstance(path, Branch):
        return path.last("compaction")
    places = range(len(path) - 1, -1, -1)
    return next((place for place in places if path[place].get("type") == "compaction"), None)


def first_kept(path: Sequence[Entry], compaction: int) -> int | None:
    """Return the place of the first entry before a compaction that it kept; None: it kept none.

    It keeps none if it names itself, and if what it names is not before it. Of several entries with the id, the one
    closest to the compaction counts, as it does for parents.
    """
    kept_id = path[compaction].get("firstKeptEntryId")
    if not isinstance(kept_id, str) or kept_id == path[compaction].get("id"):
        return None
    return next((place for place in range(compaction - 1, -1, -1) if path[place].get("id") == kept_id), None)


def edit_targets(path: Sequence[Entry]) -> dict[int, int]:
    """Return which entry each edit is about, place to place.

    Of several entries with the id, that is the one before the edit and closest to it, else the last one behind it.
    Edits of what is not on the branch are left out.
    """
    targets: dict[int, int] = {}
    unmet: list[tuple[int, str]] = []
    latest: dict[object, int] = {}
    for place, entry in enumerate(path):
        target_id = entry.get("targetId") if entry.get("type") == "context_edit" else None
        if isinstance(target_id, str):
            if target_id in latest:
                targets[place] = latest[target_id]
            else:
                unmet.append((place, target_id))
        latest[_id(entry)] = place
    targets.update((place, latest[target_id]) for place, target_id in unmet if target_id in latest)
    return targets


def _id(entry: Entry) -> str | None:
    entry_id = entry.get("id")
    return entry_id if isinstance(entry_id, str) else None


def _latest_model(path: Branch) -> tuple[str, str] | None:
    for place in range(len(path) - 1, -1, -1):
        match path.kind(place):
            case "message/assistant":
                message = as_object(path[place].get("message"))
                found = None if message is None else _model(message.get("provider"), message.get("model"))
            case "model_change":
                found = _model(path[place].get("provider"), path[place].get("modelId"))
            case _:
                continue
        if found is not None:
            return found
    return None


def _latest_level(path: Branch) -> str | None:
    place = path.last("thinking_level_change")
    while place is not None:
        if (level := as_text(path[place].get("thinkingLevel"))) is not None:
            return level
        place = path.last("thinking_level_change", before=place)
    return None


def _model(provider: object, model_id: object) -> tuple[str, str] | None:
    """Return a model if it is named in full."""
    if isinstance(provider, str) and isinstance(model_id, str) and provider and model_id:
        return provider, model_id
    return None


def _kept_places(path: Branch, compaction: int) -> Sequence[int]:
    """Return the places that are left after a compaction, in the order in which a model reads them."""
    kept = first_kept(path, compaction)
    before = range(compaction if kept is None else kept, compaction)
    return [
        compaction,
        *(place for place in before if path.kind(place) != "compaction"),
        *range(compaction + 1, len(path)),
    ]


def _edits(path: Sequence[Entry], places: Sequence[int]) -> dict[int, str | list[object] | None]:
    """Return what the edits among some entries make of contents, by place; None: the message is taken out.

    The latest edit of an entry counts. One without either has no effect.
    """
    chosen = frozenset(places)
    edits: dict[int, str | list[object] | None] = {}
    for place, target in sorted(edit_targets(path).items()):
        if place not in chosen or "replacement" not in path[place]:
            continue
        replacement = path[place]["replacement"]
        content = (as_object(replacement) or {}).get("content")
        if replacement is None:
            edits[target] = None
        elif isinstance(content, str):
            edits[target] = content
        elif (blocks := as_list(content)) is not None:
            edits[target] = blocks
    return edits


def _edited_message(entry: Entry, content: str | list[object] | None) -> Message | None:
    if content is None:
        return None
    message = as_object(entry.get("message"))
    if entry.get("type") == "custom_message":
        entry = {**entry, "content": content}
    elif message is not None and message.get("role") in _EDITABLE:
        entry = {**entry, "message": {**message, "content": content}}
    return context_message(entry)
