"""Content blocks of messages: which values are blocks of text and images, and which of their keys are known."""

from collections.abc import Callable, Mapping
from typing import Final, TypeGuard, cast

from pinnace_agent.core.json_values import is_list, is_object
from pinnace_spec.records.messages import ImageContent, TextContent

_BLOCK_KEYS: Final[Mapping[object, frozenset[object]]] = {
    "text": frozenset({"type", "text", "textSignature"}),
    "image": frozenset({"type", "data", "mimeType"}),
}


def known_blocks(content: object, unknown: Callable[[str, str], None]) -> object:
    """Return a message's content without unknown keys of its blocks.

    Args:
        content: A list of blocks, or any value.
        unknown: Takes each unknown key, and a sentence about it.
    """
    if not is_list(content):
        return content
    return [_known_block(block, unknown) for block in content]


def _known_block(block: object, unknown: Callable[[str, str], None]) -> object:
    if not isinstance(block, Mapping):
        return block
    given = cast("Mapping[object, object]", block)  # cast: its keys may be of any type
    kind = given.get("type")
    known = _BLOCK_KEYS.get(kind) if isinstance(kind, str) else None
    if known is None or given.keys() <= known:
        return given
    for key in given.keys() - known:
        unknown(f"content.{key}", f"a block of type {kind!r} has no field {key!r}, which is left out")
    return {key: item for key, item in given.items() if key in known}


def is_blocks(value: object) -> TypeGuard[list[TextContent | ImageContent]]:
    """Return whether a value is a list of text and image blocks."""
    return is_list(value) and all(map(_is_block, value))


def _is_block(value: object) -> bool:
    if not is_object(value):
        return False
    match value.get("type"):
        case "text":
            return isinstance(value.get("text"), str)
        case "image":
            return isinstance(value.get("data"), str) and isinstance(value.get("mimeType"), str)
        case _:
            return False
