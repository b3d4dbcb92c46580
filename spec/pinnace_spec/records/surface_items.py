"""Items of the conversation that a client has drawn by extensions: their fields, with the first one.

Must not import pydantic: an agent that draws items reads them without it, as other commands.
"""

from collections.abc import Mapping
from typing import Final, Literal, NotRequired, get_args

from typing_extensions import TypedDict

from pinnace_spec.wire.json_text import JsonValue

ItemKind = Literal["call", "result", "message", "entry", "markdown"]
"""What of a conversation an extension can draw: a call of a tool, its result, a custom message, a custom entry; and
Markdown that it changes before the client draws it."""
MarkdownType = Literal["user", "assistant", "assistant-thinking", "custom", "summary", "changelog"]
"""Whose Markdown it is."""
ANY_TOOL: Final = "*"
"""In the place of a tool's name: an extension draws the calls and results of tools by names that it does not list."""
_KINDS: Final[frozenset[str]] = frozenset(get_args(ItemKind))


class SurfaceItem(TypedDict):
    """An item of the conversation, as the client has it, that an extension is to draw."""

    kind: ItemKind
    name: str
    """The name of the tool, the custom type, or whose Markdown it is."""
    id: str
    """The id of the call or of the entry; of Markdown it may be empty."""
    expanded: NotRequired[bool]
    """Whether the client shows it whole."""
    arguments: NotRequired[dict[str, object]]
    """Of a call and its result."""
    isStarted: NotRequired[bool]
    """Whether the tool runs or has run."""
    isPartial: NotRequired[bool]
    """Whether there is no final result yet, or the Markdown is growing."""
    isError: NotRequired[bool]
    durationMs: NotRequired[int | float]
    content: NotRequired[object]
    """Of a result or a message, whose pictures may lack their data; or the Markdown."""
    details: NotRequired[object]
    data: NotRequired[object]
    """Of an entry."""
    timestamp: NotRequired[object]
    """Of a message or an entry, as the session has it."""


_ITEM_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "name": (str,),
    "id": (str,),
    "expanded": (bool,),
    "arguments": (dict,),
    "isStarted": (bool,),
    "isPartial": (bool,),
    "isError": (bool,),
    "durationMs": (int, float),
}


def is_item(item: JsonValue) -> bool:
    """Return whether a value is surely an item; if not, the model of its command says what it lacks."""
    if not isinstance(item, dict):
        return False
    is_named = item.get("kind") in _KINDS and "name" in item and "id" in item
    return is_named and all(type(item[each]) in kinds for each, kinds in _ITEM_FIELDS.items() if each in item)
