"""Events of tool calls and of the user's shell commands.

Calls and results of the built-in tools have their own classes with typed arguments, so that a type checker knows the
fields after an `isinstance`. At run time the arguments are plain dicts in wire spelling.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NotRequired, Self, TypeAlias, TypeVar

from typing_extensions import TypedDict

from pinnace_agent.extensions.events.base import Event, read_record
from pinnace_agent.extensions.events.uncompiled import mutable
from pinnace_spec.records.messages import ImageContent, TextContent, Usage

if TYPE_CHECKING:
    from pydantic import BaseModel


class BashInput(TypedDict):
    """The arguments of `bash`."""

    command: str
    timeout: NotRequired[float]


class ReadInput(TypedDict):
    """The arguments of `read`."""

    path: str
    offset: NotRequired[float]
    limit: NotRequired[float]


class EditReplacement(TypedDict):
    """One replacement of `edit`."""

    oldText: str
    newText: str


class EditInput(TypedDict):
    """The arguments of `edit`."""

    path: str
    edits: list[EditReplacement]


class WriteInput(TypedDict):
    """The arguments of `write`."""

    path: str
    content: str


class GrepInput(TypedDict):
    """The arguments of `grep`."""

    pattern: str
    path: NotRequired[str]
    glob: NotRequired[str]
    ignoreCase: NotRequired[bool]
    literal: NotRequired[bool]
    context: NotRequired[float]
    limit: NotRequired[float]


class FindInput(TypedDict):
    """The arguments of `find`."""

    pattern: str
    path: NotRequired[str]
    limit: NotRequired[float]


class LsInput(TypedDict):
    """The arguments of `ls`."""

    path: NotRequired[str]
    limit: NotRequired[float]


_ModelT = TypeVar("_ModelT", bound="BaseModel")
# Defined here, because in the body of an event `type` is its name.
_ModelClass: TypeAlias = "type[_ModelT]"


@mutable
class ToolExecutionStart(Event):
    """A call is about to be validated and executed."""

    type: ClassVar[str] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, object]
    parent_tool_call_id: str | None = None


@dataclass(slots=True, kw_only=True)  # one is made for each piece of output
class ToolExecutionUpdate(Event, compiled=True):
    """The partial result of a call."""

    type: ClassVar[str] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, object]
    partial_result: Mapping[str, object]
    parent_tool_call_id: str | None = None


@mutable
class ToolExecutionEnd(Event):
    """A call ended, possibly without being executed."""

    type: ClassVar[str] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, object]
    result: Mapping[str, object]
    is_error: bool
    duration_ms: int | None = None
    """None: the call did not run."""
    parent_tool_call_id: str | None = None


@mutable
class ToolCall(Event):
    """A tool is about to run. Takes `Block`. A handler that raises denies the call."""

    type: ClassVar[str] = "tool_call"
    for_tool: ClassVar[str] = ""
    """The tool of a class; empty: any."""
    tool_name: str
    tool_call_id: str
    input: dict[str, object]
    """The arguments that will be executed. Changes take effect, and are validated after the last handler: an invalid
    one denies the call."""
    parent_tool_call_id: str | None = None
    bound_path: str | None = None
    """The real path that a handler resolved: of the file that `write` or `edit` changes, or the folder that `bash` runs
    in. Only that file is changed, through no link; if the path leads elsewhere by then, the handlers are called
    again."""

    @property
    def tool(self) -> str:
        """The same as `tool_name`."""
        return self.tool_name

    def parse(self, model: "_ModelClass[_ModelT]") -> "_ModelT":
        """Validate the input as a pydantic model; raises as pydantic does."""
        return model.model_validate(self.input)

    @classmethod
    def from_wire(cls, record: Mapping[str, object]) -> Self:
        """Make an event of the tool's class; see `Event.from_wire`."""
        return _of_tool(cls, CALLS, record)


# In the seven classes below, `input` is the same dict with a narrower type: checkers don't accept a TypedDict as dict.
@mutable
class BashCall(ToolCall):
    """A call of `bash`."""

    for_tool: ClassVar[str] = "bash"
    input: BashInput  # type: ignore[assignment]


@mutable
class ReadCall(ToolCall):
    """A call of `read`."""

    for_tool: ClassVar[str] = "read"
    input: ReadInput  # type: ignore[assignment]


@mutable
class EditCall(ToolCall):
    """A call of `edit`."""

    for_tool: ClassVar[str] = "edit"
    input: EditInput  # type: ignore[assignment]


@mutable
class WriteCall(ToolCall):
    """A call of `write`."""

    for_tool: ClassVar[str] = "write"
    input: WriteInput  # type: ignore[assignment]


@mutable
class GrepCall(ToolCall):
    """A call of `grep`."""

    for_tool: ClassVar[str] = "grep"
    input: GrepInput  # type: ignore[assignment]


@mutable
class FindCall(ToolCall):
    """A call of `find`."""

    for_tool: ClassVar[str] = "find"
    input: FindInput  # type: ignore[assignment]


@mutable
class LsCall(ToolCall):
    """A call of `ls`."""

    for_tool: ClassVar[str] = "ls"
    input: LsInput  # type: ignore[assignment]


@mutable
class ToolResult(Event):
    """A tool ran; not fired for denied or aborted calls. Takes `ResultPatch`."""

    type: ClassVar[str] = "tool_result"
    for_tool: ClassVar[str] = ""
    """The tool of a class; empty: any."""
    tool_name: str
    tool_call_id: str
    input: Mapping[str, object]
    content: list[TextContent | ImageContent]
    details: object = None
    is_error: bool
    structured_content: object = None
    usage: Usage | None = None
    parent_tool_call_id: str | None = None

    @property
    def tool(self) -> str:
        """The same as `tool_name`."""
        return self.tool_name

    @classmethod
    def from_wire(cls, record: Mapping[str, object]) -> Self:
        """Make an event of the tool's class; see `Event.from_wire`."""
        return _of_tool(cls, RESULTS, record)


@mutable
class BashResult(ToolResult):
    """A result of `bash`."""

    for_tool: ClassVar[str] = "bash"
    input: BashInput  # pyright: ignore[reportIncompatibleVariableOverride]


@mutable
class ReadResult(ToolResult):
    """A result of `read`."""

    for_tool: ClassVar[str] = "read"
    input: ReadInput  # pyright: ignore[reportIncompatibleVariableOverride]


@mutable
class EditResult(ToolResult):
    """A result of `edit`."""

    for_tool: ClassVar[str] = "edit"
    input: EditInput  # pyright: ignore[reportIncompatibleVariableOverride]


@mutable
class WriteResult(ToolResult):
    """A result of `write`."""

    for_tool: ClassVar[str] = "write"
    input: WriteInput  # pyright: ignore[reportIncompatibleVariableOverride]


@mutable
class GrepResult(ToolResult):
    """A result of `grep`."""

    for_tool: ClassVar[str] = "grep"
    input: GrepInput  # pyright: ignore[reportIncompatibleVariableOverride]


@mutable
class FindResult(ToolResult):
    """A result of `find`."""

    for_tool: ClassVar[str] = "find"
    input: FindInput  # pyright: ignore[reportIncompatibleVariableOverride]


@mutable
class LsResult(ToolResult):
    """A result of `ls`."""

    for_tool: ClassVar[str] = "ls"
    input: LsInput  # pyright: ignore[reportIncompatibleVariableOverride]


@mutable
class UserBash(Event):
    """The user runs a command. Takes `UserBash`. A handler that raises denies the command."""

    type: ClassVar[str] = "user_bash"
    command: str
    exclude_from_context: bool
    cwd: str


CALLS: Final[Mapping[str, type[ToolCall]]] = {
    each.for_tool: each for each in (BashCall, ReadCall, EditCall, WriteCall, GrepCall, FindCall, LsCall)
}
"""The class of a call by its tool; others are a plain `ToolCall`."""

RESULTS: Final[Mapping[str, type[ToolResult]]] = {
    each.for_tool: each for each in (BashResult, ReadResult, EditResult, WriteResult, GrepResult, FindResult, LsResult)
}
"""The class of a result by its tool; others are a plain `ToolResult`."""

_EventT = TypeVar("_EventT", bound=Event)


def _of_tool(base: type[_EventT], classes: Mapping[str, type[Event]], record: Mapping[str, object]) -> _EventT:
    name = record.get("toolName")
    narrower = classes.get(name) if isinstance(name, str) else None
    # The class of another tool makes an event of its own class.
    return read_record(narrower if narrower is not None and issubclass(narrower, base) else base, record)
