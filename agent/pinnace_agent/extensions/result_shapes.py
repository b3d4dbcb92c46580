"""Which fields the results of handlers have, and of which types: one table for classes and plain dicts alike.

Data and the checks in it. Must not know how a result is read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeGuard, cast

from pinnace_agent.extensions import results
from pinnace_agent.extensions.results import UNSET
from pinnace_spec.messages import ImageContent, TextContent

Check = Callable[[object], bool]


@dataclass(slots=True, frozen=True)
class ResultField:
    """One field of a result."""

    check: Check
    expected: str
    name: str = ""
    """In Python, if that is not the wire's name written in snake_case."""
    is_required: bool = False
    is_content: bool = False
    """Whether it is the content of a message: of its blocks only keys that are known are kept."""
    keys: frozenset[str] = frozenset()
    """The only keys that an object may have; empty: any."""
    is_data: bool = True
    """Whether it is JSON, which is copied; else an object with methods."""


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Tell whether a value is a dict with names as keys."""
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in cast("Mapping[object, object]", value))


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Tell whether a value is a list or a tuple."""
    return isinstance(value, list | tuple)


_BLOCK_KEYS: Final[Mapping[object, frozenset[object]]] = {
    "text": frozenset({"type", "text", "textSignature"}),
    "image": frozenset({"type", "data", "mimeType"}),
}


def known_blocks(content: object, unknown: Callable[[str, str], None]) -> object:
    """Return a content without the keys of blocks that are not known.

    Args:
        content: A list of blocks, or anything.
        unknown: Takes each such key, and a sentence about it.
    """
    if not is_list(content):
        return content
    return [_known_block(block, unknown) for block in content]


def _known_block(block: object, unknown: Callable[[str, str], None]) -> object:
    if not isinstance(block, Mapping):
        return block
    given = cast("Mapping[object, object]", block)  # cast: its keys may be anything
    kind = given.get("type")
    known = _BLOCK_KEYS.get(kind) if isinstance(kind, str) else None
    if known is None or given.keys() <= known:
        return given
    for key in given.keys() - known:
        unknown(f"content.{key}", f"a block of type {kind!r} has no field {key!r}, which is left out")
    return {key: item for key, item in given.items() if key in known}


def is_blocks(value: object) -> TypeGuard[list[TextContent | ImageContent]]:
    """Tell whether a value is a list of blocks of text and images."""
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


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_message(value: object) -> bool:
    return is_object(value) and isinstance(value.get("role"), str)


def _is_output(value: object) -> bool:
    """Tell whether a value is what a command has printed, see `BashOutput`."""
    if not is_object(value):
        return False
    code, path = value.get("exitCode"), value.get("fullOutputPath")
    return (
        _is_text(value.get("output"))
        and _is_bool(value.get("cancelled"))
        and _is_bool(value.get("truncated"))
        and (code is None or (isinstance(code, int) and not isinstance(code, bool)))
        and (path is None or _is_text(path))
    )


def _is_custom(value: object) -> bool:
    if not is_object(value):
        return False
    content = value.get("content")
    is_content = _is_text(content) or is_blocks(content)
    return _is_text(value.get("customType")) and is_content and _is_bool(value.get("display"))


def _list_of(check: Check) -> Check:
    return lambda value: is_list(value) and all(map(check, value))


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _one_of(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


def _anything(value: object) -> bool:
    return True


_TEXT: Final = ResultField(_or_none(_is_text), "a text")
_BOOL: Final = ResultField(_is_bool, "true or false")
_MAYBE_BOOL: Final = ResultField(_or_none(_is_bool), "true or false")
_ANY: Final = ResultField(_anything, "anything")
_USAGE: Final = ResultField(_or_none(is_object), "an object of token counts")
_SUMMARY: Final = ResultField(_is_text, "a text", is_required=True)
_CUSTOM_KEYS: Final = frozenset({"customType", "content", "display", "details"})
_OUTPUT_KEYS: Final = frozenset({"output", "exitCode", "cancelled", "truncated", "fullOutputPath"})
_PATHS: Final = ResultField(_list_of(_is_text), "a list of paths")


class ResultShape(NamedTuple):
    """One kind of result, as fields on the wire."""

    result: type
    fields: Mapping[str, ResultField]


def _shape(result: type, /, **wire_fields: ResultField) -> ResultShape:
    return ResultShape(result, wire_fields)


COMPACTION: Final = _shape(
    results.Compaction,
    summary=_SUMMARY,
    firstKeptEntryId=_SUMMARY,
    tokensBefore=ResultField(_is_count, "a number of tokens", is_required=True),
    details=_ANY,
    usage=_USAGE,
)
TREE_SUMMARY: Final = _shape(results.TreeSummary, summary=_SUMMARY, details=_ANY, usage=_USAGE)


def _is_tree_summary(value: object) -> bool:
    return value is None or isinstance(value, results.TreeSummary)


MESSAGES: Final = _shape(
    results.Messages, messages=ResultField(_list_of(_is_message), "a list of messages", is_required=True)
)
BOUNDARY: Final = _shape(
    results.Boundary,
    entries=ResultField(_list_of(is_object), "a list of entries"),
    **{"continue": ResultField(_is_bool, "true or false", "continue_")},
)

SHAPES: Final[Mapping[str, ResultShape]] = {
    "project_trust": _shape(
        results.Trust,
        trusted=ResultField(_one_of("yes", "no", "undecided"), '"yes", "no" or "undecided"', is_required=True),
        remember=_BOOL,
    ),
    "resources_discover": _shape(
        results.Resources,
        skillPaths=ResultField(_list_of(_is_text), "a list of paths", "skills"),
        promptPaths=ResultField(_list_of(_is_text), "a list of paths", "prompts"),
        themePaths=ResultField(_list_of(_is_text), "a list of paths", "themes"),
    ),
    "session_before_switch": _shape(results.Cancel),
    "session_before_fork": _shape(results.ForkOptions, skipConversationRestore=_BOOL),
    "session_before_compact": COMPACTION,
    "session_before_tree": _shape(
        results.TreeOptions,
        summary=ResultField(_is_tree_summary, "an object with a summary", is_data=False),
        customInstructions=_TEXT,
        replaceInstructions=_MAYBE_BOOL,
        label=_TEXT,
    ),
    "input": _shape(
        results.Transform,
        text=_SUMMARY,
        images=ResultField(lambda value: value is None or value is UNSET or is_blocks(value), "a list of images"),
    ),
    "before_agent_start": _shape(
        results.BeforeStart,
        message=ResultField(_or_none(_is_custom), "an object with customType, content and display", keys=_CUSTOM_KEYS),
        systemPrompt=_TEXT,
    ),
    "agent_before_settle": BOUNDARY,
    "turn_end": BOUNDARY,
    "message_end": _shape(results.ReplaceMessage, message=ResultField(_is_message, "a message", is_required=True)),
    "context": MESSAGES,
    "context_with_system": MESSAGES,
    "cache_warming_decision": _shape(
        results.CacheDecision, action=ResultField(_one_of("warm", "stop"), '"warm" or "stop"', is_required=True)
    ),
    "tool_call": _shape(results.Block, reason=_TEXT, terminate=_BOOL),
    "tool_result": _shape(
        results.ResultPatch,
        content=ResultField(is_blocks, "a list of text and image blocks", is_content=True),
        details=_ANY,
        isError=_BOOL,
        structuredContent=ResultField(_anything, "anything", "structured"),
        usage=_USAGE,
    ),
    "user_bash": _shape(
        results.UserBash,
        operations=ResultField(
            lambda value: value is None or callable(getattr(value, "exec", None)), "operations", is_data=False
        ),
        result=ResultField(
            _or_none(_is_output), "an object with output, exitCode, cancelled and truncated", keys=_OUTPUT_KEYS
        ),
    ),
}
RESULT_EVENTS: Final = frozenset({*SHAPES, "before_provider_request"})
"""The events whose handlers may answer; what others return is passed over."""
CANCELLABLE: Final = frozenset(
    {"session_before_switch", "session_before_fork", "session_before_compact", "session_before_tree"}
)
