"""Repairs stored messages: everything else expects them whole, and of the types that `messages` declares.

Pure. Files come from other programs and other years, and from disks that failed. A message that is well-formed is
returned as it is, the same object; of any other a repaired copy is made: what is missing gets an empty
value, what has another type becomes the nearest that means the same, or is left out. Fields that are unknown here stay.
Source: R-MSG-01, R-MSG-02, R-MSG-03.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, cast

from pinnace_agent.core.json_access import as_amount, as_array, as_count, as_object
from pinnace_agent.session.store.entries import time_ms
from pinnace_spec.records.messages import STOP_REASONS, THINKING_LEVELS, Message, StopReason


class _Kind(NamedTuple):
    """What a field may hold."""

    types: tuple[type, ...]
    """Exactly these."""
    convert: Callable[[object], object]
    """Anything else to what means the same; None if nothing does."""
    make: Callable[[], object] | None
    """The value of a required field that is missing; None: there is none, and the object is dropped."""


class _Shape(NamedTuple):
    """The fields of an object that have a meaning here."""

    required: Mapping[str, _Kind]
    optional: Mapping[str, _Kind]
    needed: tuple[tuple[str, tuple[type, ...]], ...]
    """What required fields may be."""
    possible: frozenset[str]
    """The names of the others."""


class _Role(NamedTuple):
    """What messages of a role are made of."""

    shape: _Shape
    blocks: Mapping[str, _Shape] | None = None
    """Those that the content may have, by type; None: there is no content."""
    is_text_allowed: bool = False
    """The content may be a text instead of blocks."""
    is_answer: bool = False
    """It ended somehow, and was made at some thinking level."""
    has_usage: bool = False


def _nothing(_value: object) -> None:
    return None


def _true_if_meant(value: object) -> bool | None:
    return True if value else None


_TEXT: Final = _Kind((str,), _nothing, str)
_NEEDED_TEXT: Final = _TEXT._replace(make=None)
_COUNT: Final = _Kind((int,), as_count, int)
_AMOUNT: Final = _Kind((int, float), as_amount, int)
_FLAG: Final = _Kind((bool,), _true_if_meant, bool)
_OBJECT: Final = _Kind((dict,), _nothing, dict)
_TEXT_OR_NULL: Final = _Kind((str, type(None)), _nothing, None)


def _shape(required: Mapping[str, _Kind], optional: Mapping[str, _Kind] | None = None) -> _Shape:
    optional = optional or {}
    needed = tuple((name, kind.types) for name, kind in required.items())
    return _Shape(required, optional, needed, frozenset(optional))


_COST: Final = _shape(dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), _AMOUNT))
_USAGE: Final = _shape(
    {**dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), _COUNT), "cost": _OBJECT},
    {"reasoning": _COUNT, "cacheWrite1h": _COUNT},
)
_TEXT_BLOCK: Final = _shape({"text": _NEEDED_TEXT}, {"textSignature": _TEXT})
_FOR_MODELS: Final = {
    "text": _TEXT_BLOCK,
    "image": _shape({"data": _NEEDED_TEXT, "mimeType": _NEEDED_TEXT}),
}
_FROM_MODELS: Final = {
    "text": _TEXT_BLOCK,
    # What is redacted may be nothing but its signature.
    "thinking": _shape({"thinking": _TEXT}, {"thinkingSignature": _TEXT, "redacted": _FLAG}),
    "toolCall": _shape(
        {"id": _TEXT, "name": _NEEDED_TEXT, "arguments": _OBJECT}, {"argumentsError": _TEXT, "thoughtSignature": _TEXT}
    ),
}
_ROLES: Final[Mapping[str, _Role]] = {
    "user": _Role(_shape({"timestamp": _COUNT}), _FOR_MODELS, is_text_allowed=True),
    "assistant": _Role(
        _shape(
            {
                **dict.fromkeys(("api", "provider", "model", "stopReason"), _TEXT),
                "usage": _OBJECT,
                "timestamp": _COUNT,
            },
            {
                **dict.fromkeys(("errorMessage", "errorCode", "responseId", "responseModel", "rawStopReason"), _TEXT),
                **dict.fromkeys(("thinkingLevel", "providerThinkingLevel"), _TEXT),
                **dict.fromkeys(("status", "attempts", "durationMs"), _COUNT),
            },
        ),
        _FROM_MODELS,
        is_answer=True,
        has_usage=True,
    ),
    "toolResult": _Role(
        _shape(
            {"toolCallId": _TEXT, "toolName": _TEXT, "isError": _FLAG, "timestamp": _COUNT},
            {"usage": _OBJECT, "durationMs": _COUNT},
        ),
        _FOR_MODELS,
        has_usage=True,
    ),
    "bashExecution": _Role(
        _shape(
            {"command": _TEXT, "output": _TEXT, "cancelled": _FLAG, "truncated": _FLAG, "timestamp": _COUNT},
            # Whatever `excludeFromContext` holds that is not false: the user meant to keep it from the model.
            {"exitCode": _COUNT, "fullOutputPath": _TEXT_OR_NULL, "excludeFromContext": _FLAG},
        )
    ),
    "custom": _Role(
        _shape({"customType": _TEXT, "display": _FLAG, "timestamp": _COUNT}), _FOR_MODELS, is_text_allowed=True
    ),
    "branchSummary": _Role(_shape({"summary": _TEXT, "fromId": _TEXT, "timestamp": _COUNT})),
    "compactionSummary": _Role(_shape({"summary": _TEXT, "tokensBefore": _COUNT, "timestamp": _COUNT})),
}
_STOP_REASONS: Final = frozenset(STOP_REASONS)
_LEVELS: Final = frozenset(THINKING_LEVELS)
# An answer whose end has a name that is unknown here has ended.
_UNKNOWN_STOP: Final[StopReason] = "stop"


def whole_message(value: object, made_at: object) -> Message | None:
    """Return a stored message, repaired if need be; None if it is none, or of a role that has no meaning here.

    Args:
        value: Not changed.
        made_at: The timestamp of its entry, for a message without one.
    """
    message = as_object(value)
    name = None if message is None else message.get("role")
    role = _ROLES.get(name) if isinstance(name, str) else None
    if message is None or role is None:
        return None
    if not _is_whole(message, role):
        message = _repaired_message(message, role, made_at)
    return cast("Message", message)  # cast: every field that its role declares was compared with what it may hold


def _is_whole(message: dict[str, object], role: _Role) -> bool:
    if not _fits(message, role.shape):
        return False
    if role.blocks is None:
        return True
    if role.has_usage and "usage" in message and not _is_whole_usage(message["usage"]):
        return False
    if role.is_answer and (
        message["stopReason"] not in _STOP_REASONS or message.get("thinkingLevel", "off") not in _LEVELS
    ):
        return False
    content = message.get("content")
    if isinstance(content, str):
        return role.is_text_allowed
    if not isinstance(content, list):
        return False
    shapes = role.blocks
    for block in cast("list[dict[str, object]]", content):  # cast: checked block by block
        if type(block) is not dict:
            return False
        name = block.get("type")
        if not isinstance(name, str) or name not in shapes or not _fits(block, shapes[name]):
            return False
    return True


def _is_whole_usage(value: object) -> bool:
    usage = as_object(value)
    if usage is None or not _fits(usage, _USAGE):
        return False
    cost = as_object(usage["cost"])
    return cost is not None and _fits(cost, _COST)


def _block_shape(block: Mapping[str, object], shapes: Mapping[str, _Shape]) -> _Shape | None:
    name = block.get("type")
    return shapes.get(name) if isinstance(name, str) else None


def _fits(fields: dict[str, object], shape: _Shape) -> bool:
    """Return whether nothing needs to be repaired. Most of what building a context costs is spent here."""
    try:
        for name, types in shape.needed:
            if type(fields[name]) not in types:
                return False
    except KeyError:
        return False
    return shape.possible.isdisjoint(fields) or all(
        type(fields[name]) in kind.types for name, kind in shape.optional.items() if name in fields
    )


def _repaired_message(message: Mapping[str, object], role: _Role, made_at: object) -> dict[str, object]:
    given = {**message}
    if as_count(given.get("timestamp")) is None:
        given["timestamp"] = time_ms(made_at) or 0
    whole = _repaired(given, role.shape)
    assert whole is not None, "every field of a message has an empty value"
    if role.blocks is not None:
        whole["content"] = _repaired_content(whole.get("content"), role.blocks, is_text_allowed=role.is_text_allowed)
    if role.has_usage and "usage" in whole:
        whole["usage"] = whole_usage(whole["usage"])
    if role.is_answer:
        if whole["stopReason"] not in _STOP_REASONS:
            whole["stopReason"] = _UNKNOWN_STOP
        if whole.get("thinkingLevel", "off") not in _LEVELS:
            del whole["thinkingLevel"]
    return whole


def whole_usage(value: object) -> dict[str, object]:
    """Return a usage of which every number is there; zeros for what is missing or no number."""
    usage = _repaired(as_object(value) or {}, _USAGE)
    assert usage is not None
    usage["cost"] = _repaired(as_object(usage["cost"]) or {}, _COST)
    return usage


def _repaired_content(content: object, shapes: Mapping[str, _Shape], *, is_text_allowed: bool) -> object:
    if isinstance(content, str):
        return content if is_text_allowed else [{"type": "text", "text": content}] if content else []
    blocks = (_repaired_block(block, shapes) for block in as_array(content))
    return [block for block in blocks if block is not None]


def _repaired_block(value: object, shapes: Mapping[str, _Shape]) -> Mapping[str, object] | None:
    block = as_object(value)
    shape = None if block is None else _block_shape(block, shapes)
    if block is None or shape is None:
        return None
    return block if _fits(block, shape) else _repaired(block, shape)


def _repaired(fields: Mapping[str, object], shape: _Shape) -> dict[str, object] | None:
    """Return a copy that fits; None if that can't be."""
    whole = {**fields}
    for name, kind in shape.required.items():
        value = fields.get(name)
        if type(value) not in kind.types:
            value = kind.convert(value)
            if value is None and kind.make is None:
                return None
            whole[name] = kind.make() if value is None and kind.make is not None else value
    for name, kind in shape.optional.items():
        if name in fields and type(fields[name]) not in kind.types:
            value = kind.convert(fields[name])
            if value is None:
                del whole[name]
            else:
                whole[name] = value
    return whole
