"""What handlers and tools may return: for each kind of result its class, its fields and their checks.

Handlers may return a plain dict in the wire's spelling instead of an instance; `result_reader` checks both against the
same fields. A field's annotation carries its `Wire`: the check, what is expected, and its name on the wire. A field
without a default is required. Data and checks only.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypeAlias, get_args

from typing_extensions import TypedDict

from pinnace_agent.core.json_values import is_list, is_object
from pinnace_agent.extensions.events.base import camel_case
from pinnace_agent.extensions.events.blocks import is_blocks
from pinnace_agent.extensions.events.uncompiled import FrozenFields, frozen
from pinnace_spec.records.messages import ImageContent, Message, TextContent, Usage

if TYPE_CHECKING:
    from pinnace_agent.tools.operations import BashOperations


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        """Return the name that it is imported by."""
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        """Return False, as None does."""
        return False


UNSET: Final = Unset.UNSET
"""Leave a field as it is, where None would mean: set it to nothing."""

Blocks: TypeAlias = list[TextContent | ImageContent]
Check = Callable[[object], bool]


@frozen
class Wire(FrozenFields):
    """How one field of a result is read."""

    check: Check
    expected: str
    """What passes the check, for error texts."""
    name: str = ""
    """The field's name on the wire, if it is not the Python name in camelCase."""
    is_content: bool = False
    """Whether it is the content of a message: unknown keys of its blocks are left out."""
    keys: frozenset[str] = frozenset()
    """The only keys that an object may have; empty: any."""
    is_data: bool = True
    """Whether it is JSON, which is copied; else an object with methods."""


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_message(value: object) -> bool:
    return is_object(value) and isinstance(value.get("role"), str)


def _is_images(value: object) -> bool:
    return value is None or value is UNSET or is_blocks(value)


def _is_operations(value: object) -> bool:
    return value is None or callable(getattr(value, "exec", None))


def _is_output(value: object) -> bool:
    """Return whether a value has the fields of `BashOutput`."""
    if not is_object(value):
        return False
    code, path = value.get("exitCode"), value.get("fullOutputPath")
    return (
        _is_string(value.get("output"))
        and _is_bool(value.get("cancelled"))
        and _is_bool(value.get("truncated"))
        and (code is None or (isinstance(code, int) and not isinstance(code, bool)))
        and (path is None or _is_string(path))
    )


def _is_custom(value: object) -> bool:
    """Return whether a value has the fields of `CustomContent`."""
    if not is_object(value):
        return False
    content = value.get("content")
    is_content = _is_string(content) or is_blocks(content)
    return _is_string(value.get("customType")) and is_content and _is_bool(value.get("display"))


def _is_tree_summary(value: object) -> bool:
    return value is None or isinstance(value, TreeSummary)


def _list_of(check: Check) -> Check:
    return lambda value: is_list(value) and all(map(check, value))


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _one_of(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


_STRING: Final = Wire(_is_string, "a string")
_STRING_OR_NONE: Final = Wire(_or_none(_is_string), "a string")
_BOOL: Final = Wire(_is_bool, "true or false")
_BOOL_OR_NONE: Final = Wire(_or_none(_is_bool), "true or false")
_ANY: Final = Wire(lambda _value: True, "anything")
_USAGE: Final = Wire(_or_none(is_object), "an object of token counts")
_PATHS: Final = "a list of paths"
_OPERATIONS: Final = Wire(_is_operations, "operations", is_data=False)


class BashOutput(TypedDict):
    """What a command of the user's shell printed, and how it ended."""

    output: str
    exitCode: NotRequired[int | None]
    cancelled: bool
    truncated: bool
    fullOutputPath: NotRequired[str | None]


class CustomContent(TypedDict):
    """A message of an extension for the conversation."""

    customType: str
    content: str | Blocks
    display: bool
    details: NotRequired[object]


def _keys(of: Any) -> frozenset[str]:
    return frozenset(of.__annotations__)


@frozen
class Trust(FrozenFields):
    """Whether the project may configure the agent."""

    trusted: Annotated[
        Literal["yes", "no", "undecided"], Wire(_one_of("yes", "no", "undecided"), '"yes", "no" or "undecided"')
    ]
    remember: Annotated[bool, _BOOL] = False


@frozen
class Resources(FrozenFields):
    """Further files and folders; relative ones are relative to the extension's folder."""

    skills: Annotated[Sequence[str], Wire(_list_of(_is_string), _PATHS, "skillPaths")] = ()
    prompts: Annotated[Sequence[str], Wire(_list_of(_is_string), _PATHS, "promptPaths")] = ()
    themes: Annotated[Sequence[str], Wire(_list_of(_is_string), _PATHS, "themePaths")] = ()


@frozen
class Cancel(FrozenFields):
    """Prevent what the event announces."""


@frozen
class ForkOptions(FrozenFields):
    """How to fork."""

    skip_conversation_restore: Annotated[bool, _BOOL] = False
    """Accepted without effect."""


@frozen
class Compaction(FrozenFields):
    """A finished compaction, in place of the agent's own."""

    summary: Annotated[str, _STRING]
    first_kept_entry_id: Annotated[str, _STRING]
    tokens_before: Annotated[int, Wire(_is_count, "a number of tokens")]
    details: Annotated[object, _ANY] = None
    usage: Annotated[Usage | None, _USAGE] = None


@frozen
class TreeSummary(FrozenFields):
    """The finished summary of the abandoned branch. Used only if the user asked for one."""

    summary: Annotated[str, _STRING]
    details: Annotated[object, _ANY] = None
    usage: Annotated[Usage | None, _USAGE] = None


@frozen
class TreeOptions(FrozenFields):
    """How to move to the other entry; a field that is None stays as it is."""

    summary: Annotated[TreeSummary | None, Wire(_is_tree_summary, "an object with a summary", is_data=False)] = None
    custom_instructions: Annotated[str | None, _STRING_OR_NONE] = None
    replace_instructions: Annotated[bool | None, _BOOL_OR_NONE] = None
    label: Annotated[str | None, _STRING_OR_NONE] = None


@frozen
class Continue(FrozenFields):
    """The message stays as it is; the same as returning None."""


@frozen
class Transform(FrozenFields):
    """Replace the message's text, and its images if they are set."""

    text: Annotated[str, _STRING]
    images: Annotated[Sequence[ImageContent] | Unset | None, Wire(_is_images, "a list of images")] = UNSET


@frozen
class Handled(FrozenFields):
    """The extension has handled the message; no run starts."""


@frozen
class BeforeStart(FrozenFields):
    """A message to store before the run, and another system prompt for the run."""

    message: Annotated[
        CustomContent | None,
        Wire(_or_none(_is_custom), "an object with customType, content and display", keys=_keys(CustomContent)),
    ] = None
    system_prompt: Annotated[str | None, _STRING_OR_NONE] = None


@frozen
class Boundary(FrozenFields):
    """Entries to append, and whether to continue; an unset field keeps what was proposed so far."""

    entries: Annotated[Sequence[Mapping[str, object]] | Unset, Wire(_list_of(is_object), "a list of entries")] = UNSET
    continue_: Annotated[bool | Unset, _BOOL] = UNSET


@frozen
class ReplaceMessage(FrozenFields):
    """Another message of the same role in its place."""

    message: Annotated[Message, Wire(_is_message, "a message")]


@frozen
class Messages(FrozenFields):
    """The messages that are sent to the model."""

    messages: Annotated[Sequence[Message], Wire(_list_of(_is_message), "a list of messages")]


@frozen
class Payload(FrozenFields):
    """Another request body. Made by `result_reader`: a handler returns the body itself."""

    payload: object


@frozen
class CacheDecision(FrozenFields):
    """Whether to keep the cache warm."""

    action: Annotated[Literal["warm", "stop"], Wire(_one_of("warm", "stop"), '"warm" or "stop"')]


@frozen
class Block(FrozenFields):
    """Deny the call; the model reads the reason."""

    reason: Annotated[str | None, _STRING_OR_NONE] = None
    terminate: Annotated[bool, _BOOL] = False
    """Whether the run ends as well."""


@frozen
class ResultPatch(FrozenFields):
    """Changes of a tool's result; an unset field stays as it is."""

    content: Annotated[Blocks | Unset, Wire(is_blocks, "a list of text and image blocks", is_content=True)] = UNSET
    details: Annotated[object, _ANY] = UNSET
    is_error: Annotated[bool | Unset, _BOOL] = UNSET
    structured: Annotated[object, Wire(lambda _value: True, "anything", "structuredContent")] = UNSET
    usage: Annotated[Usage | Unset | None, _USAGE] = UNSET


@frozen
class UserBash(FrozenFields):
    """Operations that run the command, or its finished output: exactly one of the two."""

    operations: Annotated["BashOperations | None", _OPERATIONS] = None
    result: Annotated[
        BashOutput | None,
        Wire(_or_none(_is_output), "an object with output, exitCode, cancelled and truncated", keys=_keys(BashOutput)),
    ] = None


Result: TypeAlias = (
    Trust
    | Resources
    | Cancel
    | ForkOptions
    | Compaction
    | TreeOptions
    | Continue
    | Transform
    | Handled
    | BeforeStart
    | Boundary
    | ReplaceMessage
    | Messages
    | Payload
    | CacheDecision
    | Block
    | ResultPatch
    | UserBash
)
"""What `result_reader` makes of the value that a handler returned. A `TreeSummary` becomes `TreeOptions`."""


class ResultField(NamedTuple):
    """One field of a result, in Python and on the wire."""

    name: str
    wire_name: str
    is_required: bool
    wire: Wire


def result_fields(result: type) -> Mapping[str, ResultField]:
    """Return the fields of a kind of result by their names on the wire."""
    if (known := _fields.get(result)) is None:
        known = _fields[result] = {each.wire_name: each for each in map(_field, dataclasses.fields(result))}
    return known


def _field(each: "dataclasses.Field[Any]") -> ResultField:
    wire = next(note for note in get_args(each.type) if isinstance(note, Wire))
    return ResultField(each.name, wire.name or camel_case(each.name), each.default is dataclasses.MISSING, wire)


_fields: Final[dict[type, Mapping[str, ResultField]]] = {}


@dataclass(slots=True)
class ToolResult:
    """What a tool of an extension may return when text is not enough."""

    content: str | Blocks = ""
    details: object = None
    """For clients and the tool itself, never sent to models. Keep here what the branch's next call has to know."""
    structured: object = None
    usage: Usage | None = None
    """Tokens of model requests that the tool made."""
    terminate: bool = False
    """Whether the run ends after this call."""
    is_error: bool = field(default=False, kw_only=True)

    @property
    def blocks(self) -> Blocks:
        """The content as blocks."""
        if isinstance(self.content, str):
            return [{"type": "text", "text": self.content}]
        return self.content
