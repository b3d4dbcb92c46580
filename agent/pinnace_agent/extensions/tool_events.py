"""Events about calls of tools, and commands of the user's shell (E27 to E29, E40 to E42).

Calls and results of the built-in tools have classes of their own, with their arguments and details typed. A checker
then knows what an `isinstance` found; at run time these are plain dicts, spelled as on the wire.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeAlias, TypeVar

from pinnace_agent.extensions.event_base import Event, read_record
from pinnace_agent.extensions.tool_inputs import (
    BashInput,
    EditInput,
    FindInput,
    GrepInput,
    LsInput,
    ReadInput,
    WriteInput,
)
from pinnace_spec.messages import ImageContent, TextContent, Usage

if TYPE_CHECKING:
    from pydantic import BaseModel

_ModelT = TypeVar("_ModelT", bound="BaseModel")
# Named out here: in the body of an event `type` is its name.
_ModelClass: TypeAlias = "type[_ModelT]"


@dataclass(slots=True, kw_only=True)
class ToolExecutionStart(Event):
    """E27: a call is about to be checked and executed."""

    type: ClassVar[str] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, object]
    parent_tool_call_id: str | None = None


@dataclass(slots=True, kw_only=True)
class ToolExecutionUpdate(Event):
    """E28: what a call has produced so far."""

    type: ClassVar[str] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, object]
    partial_result: Mapping[str, object]
    parent_tool_call_id: str | None = None


@dataclass(slots=True, kw_only=True)
class ToolExecutionEnd(Event):
    """E29: a call is over, also one that was never executed."""

    type: ClassVar[str] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    args: Mapping[str, object]
    result: Mapping[str, object]
    is_error: bool
    duration_ms: int | None = None
    """None: it did not run."""
    parent_tool_call_id: str | None = None


@dataclass(slots=True, kw_only=True)
class ToolCall(Event):
    """E40: a tool is about to run. Takes `Block`. A handler that raises blocks the call, too."""

    type: ClassVar[str] = "tool_call"
    for_tool: ClassVar[str] = ""
    """The tool that a class is for; empty: any."""
    tool_name: str
    tool_call_id: str
    input: dict[str, object]
    """The very dict that will be executed: changes count, and are not validated again."""
    parent_tool_call_id: str | None = None
    bound_path: str | None = None
    """To be set by a handler that has looked where the path of a `write` or `edit` leads, or the folder in which `bash`
    would run: the real path. That file alone is changed then, through no link; where the path leads elsewhere by then,
    the handlers are asked again."""

    @property
    def tool(self) -> str:
        """The name of the tool, in short."""
        return self.tool_name

    def parse(self, model: "_ModelClass[_ModelT]") -> "_ModelT":
        """Return the input as a pydantic model of yours; raises as pydantic does."""
        return model.model_validate(self.input)

    @classmethod
    def from_wire(cls, record: Mapping[str, object]) -> Self:
        """Make an event of the class that belongs to the tool; see `Event.from_wire`."""
        return _of_tool(cls, CALLS, record)


# In the seven below, `input` is the same dict, better known: a TypedDict is a dict, which a checker may not assume.
@dataclass(slots=True, kw_only=True)
class BashCall(ToolCall):
    """A call of `bash`."""

    for_tool: ClassVar[str] = "bash"
    input: BashInput  # type: ignore[assignment]


@dataclass(slots=True, kw_only=True)
class ReadCall(ToolCall):
    """A call of `read`."""

    for_tool: ClassVar[str] = "read"
    input: ReadInput  # type: ignore[assignment]


@dataclass(slots=True, kw_only=True)
class EditCall(ToolCall):
    """A call of `edit`."""

    for_tool: ClassVar[str] = "edit"
    input: EditInput  # type: ignore[assignment]


@dataclass(slots=True, kw_only=True)
class WriteCall(ToolCall):
    """A call of `write`."""

    for_tool: ClassVar[str] = "write"
    input: WriteInput  # type: ignore[assignment]


@dataclass(slots=True, kw_only=True)
class GrepCall(ToolCall):
    """A call of `grep`."""

    for_tool: ClassVar[str] = "grep"
    input: GrepInput  # type: ignore[assignment]


@dataclass(slots=True, kw_only=True)
class FindCall(ToolCall):
    """A call of `find`."""

    for_tool: ClassVar[str] = "find"
    input: FindInput  # type: ignore[assignment]


@dataclass(slots=True, kw_only=True)
class LsCall(ToolCall):
    """A call of `ls`."""

    for_tool: ClassVar[str] = "ls"
    input: LsInput  # type: ignore[assignment]


@dataclass(slots=True, kw_only=True)
class ToolResult(Event):
    """E41: a tool has run; not fired for calls that were blocked or aborted. Takes `ResultPatch`."""

    type: ClassVar[str] = "tool_result"
    for_tool: ClassVar[str] = ""
    """The tool that a class is for; empty: any."""
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
        """The name of the tool, in short."""
        return self.tool_name

    @classmethod
    def from_wire(cls, record: Mapping[str, object]) -> Self:
        """Make an event of the class that belongs to the tool; see `Event.from_wire`."""
        return _of_tool(cls, RESULTS, record)


@dataclass(slots=True, kw_only=True)
class BashResult(ToolResult):
    """A result of `bash`."""

    for_tool: ClassVar[str] = "bash"
    input: BashInput  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(slots=True, kw_only=True)
class ReadResult(ToolResult):
    """A result of `read`."""

    for_tool: ClassVar[str] = "read"
    input: ReadInput  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(slots=True, kw_only=True)
class EditResult(ToolResult):
    """A result of `edit`."""

    for_tool: ClassVar[str] = "edit"
    input: EditInput  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(slots=True, kw_only=True)
class WriteResult(ToolResult):
    """A result of `write`."""

    for_tool: ClassVar[str] = "write"
    input: WriteInput  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(slots=True, kw_only=True)
class GrepResult(ToolResult):
    """A result of `grep`."""

    for_tool: ClassVar[str] = "grep"
    input: GrepInput  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(slots=True, kw_only=True)
class FindResult(ToolResult):
    """A result of `find`."""

    for_tool: ClassVar[str] = "find"
    input: FindInput  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(slots=True, kw_only=True)
class LsResult(ToolResult):
    """A result of `ls`."""

    for_tool: ClassVar[str] = "ls"
    input: LsInput  # pyright: ignore[reportIncompatibleVariableOverride]


@dataclass(slots=True, kw_only=True)
class UserBash(Event):
    """E42: the user runs a command. Takes `UserBash`. A handler that raises refuses the command."""

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
    # A class that is asked for a call of another tool makes one of its own.
    return read_record(narrower if narrower is not None and issubclass(narrower, base) else base, record)
