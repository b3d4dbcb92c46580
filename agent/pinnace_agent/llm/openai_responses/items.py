"""The output items of one response while they come in, and which of them an event means.

Decides only what belongs together: by the index of the output, else by the item's id, else by kind and order, since
servers leave out the first and gateways invent a new id for every event. Independent of the meaning of an event.
"""

from collections.abc import Mapping, Set
from typing import Final, Literal, TypeAlias

from pinnace_agent.core.json_access import as_array, as_count, as_object, as_text, compact_json

Kind: TypeAlias = Literal["reasoning", "message", "function_call"]
Part: TypeAlias = tuple[str, int | None]
"""A part of a text: the name of its index, and the index, None where the server leaves it out."""

BLANK_LINE: Final = "\n\n"
"""Between the parts of a summary, which are paragraphs with headings."""

_KINDS: Final[dict[str, Kind]] = {
    "reasoning": "reasoning",
    "message": "message",
    "function_call": "function_call",
}


def kind_of(members: Mapping[str, object]) -> Kind | None:
    """Return the kind of an item; None if it is one that no model of ours makes."""
    return _KINDS.get(as_text(members.get("type")) or "")


class OutputItem:
    """One output item; also the key of its block."""

    __slots__ = ("call_id", "held", "index", "is_done", "is_open", "item_id", "kind", "name", "part", "parts", "wire")

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.is_done = False
        """The provider has sent the complete item."""
        self.is_open = False
        """It has a block."""
        self.index: int | None = None
        self.item_id = ""
        self.call_id = ""
        self.name = ""
        self.held: list[str] = []
        """Arguments of a call that has no block yet, since its name is not known."""
        self.part: Part | None = None
        """Which part of the text came last."""
        self.parts: set[Part] = set()
        """The parts of which some text came."""
        self.wire: Mapping[str, object] = {}
        """The whole item, once done."""


class OutputItems:
    """All items of one response, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []
        self._by_index: dict[int, OutputItem] = {}
        self._by_id: dict[str, OutputItem] = {}

    def find(self, kind: Kind, event: Mapping[str, object], members: Mapping[str, object]) -> OutputItem | None:
        """Find the item that an event is about, None if there is none yet.

        Args:
            kind: Of the item; one of another kind is never meant.
            event: The event, which may have an index and an id.
            members: The item itself where the event has it, else empty.
        """
        index = as_count(event.get("output_index"))
        at_index = None if index is None else self._by_index.get(index)
        if at_index is not None and at_index.kind == kind and not _is_other(at_index, members):
            return at_index
        for item_id in _ids(event, members):
            named = self._by_id.get(item_id)
            if named is not None and named.kind == kind and (None in (index, named.index) or index == named.index):
                return named
        if index is not None or members:
            return None
        return next((item for item in reversed(self.all) if item.kind == kind and not item.is_done), None)

    def add(self, kind: Kind, event: Mapping[str, object], members: Mapping[str, object]) -> OutputItem:
        """Begin an item. Arguments as `find`."""
        item = OutputItem(kind)
        self.all.append(item)
        if (index := as_count(event.get("output_index"))) is not None:
            self._by_index[index] = item
            item.index = index
        self.name(item, event, members)
        return item

    def name(self, item: OutputItem, event: Mapping[str, object], members: Mapping[str, object]) -> None:
        """Note what an item is called; the first id and name win."""
        for item_id in _ids(event, members):
            self._by_id.setdefault(item_id, item)
        item.item_id = item.item_id or as_text(members.get("id")) or ""
        item.call_id = item.call_id or as_text(members.get("call_id")) or ""
        item.name = item.name or as_text(members.get("name")) or ""

    def of_output(self, position: int, kind: Kind, members: Mapping[str, object]) -> OutputItem | None:
        """Find the item at a place of the finished output."""
        item = self.find(kind, {"output_index": position}, members)
        if item is None:
            left = [each for each in self.all if each.kind == kind and not each.is_done]
            item = left[0] if len(left) == 1 else None
        return item


def _ids(event: Mapping[str, object], members: Mapping[str, object]) -> list[str]:
    """Return what an item is named by; some servers name a call's item by its `call_id`."""
    values = (members.get("id"), members.get("call_id"), event.get("item_id"))
    return [text for value in values if (text := as_text(value))]


def _is_other(item: OutputItem, members: Mapping[str, object]) -> bool:
    """Return whether an index is given a second time: to a call that is another, or after the item was done."""
    call_id = as_text(members.get("call_id"))
    if call_id and item.call_id:
        return call_id != item.call_id
    item_id = as_text(members.get("id"))
    return item.is_done and bool(item_id) and bool(item.item_id) and item_id != item.item_id


def whole_arguments(value: object) -> str | None:
    """Return the JSON text of a call's arguments as a whole; None where only the deltas have them."""
    if isinstance(value, str):
        return value or None
    return None if value is None else compact_json(value)


def whole_thoughts(members: Mapping[str, object], parts: Set[Part]) -> str | None:
    """Return all thoughts of an item, of the kind of which some came."""
    kinds = {name for name, _ in parts}
    summary = joined_texts(members.get("summary"), "text", between=BLANK_LINE)
    content = joined_texts(members.get("content"), "text", between=BLANK_LINE)
    if not kinds:
        return summary or content
    return summary if "summary_index" in kinds else content


def joined_texts(parts: object, *fields: str, between: str = "") -> str | None:
    """Join the texts of parts, each under one of `fields`; None if there is none."""
    texts: list[str] = []
    for part in as_array(parts):
        members = as_object(part) or {}
        text = next((text for field in fields if (text := as_text(members.get(field)))), None)
        if text is not None:
            texts.append(text)
    return between.join(texts) or None
