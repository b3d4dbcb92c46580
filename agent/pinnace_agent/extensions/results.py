"""What handlers may return, and what tools may.

A plain dict in wire spelling does as well as any of these; `result_reader` holds both to the same shapes. Data only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from pinnace_agent.tools.operations import BashOperations
from pinnace_spec.messages import ImageContent, Message, TextContent, Usage


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"

    def __repr__(self) -> str:
        """Return the name that it is imported by."""
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        """Count as nothing."""
        return False


UNSET: Final = Unset.UNSET
"""Left as it is, where None would mean: set to nothing."""

Blocks: TypeAlias = list[TextContent | ImageContent]


class BashOutput(TypedDict):
    """What a command of the user's has printed, and how it ended."""

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


@dataclass(slots=True, frozen=True)
class Trust:
    """E1: whether the project may configure the agent."""

    trusted: Literal["yes", "no", "undecided"]
    remember: bool = False


@dataclass(slots=True, frozen=True)
class Resources:
    """E2: further files and folders; relative ones are relative to the extension's folder."""

    skills: Sequence[str] = ()
    prompts: Sequence[str] = ()
    themes: Sequence[str] = ()


@dataclass(slots=True, frozen=True)
class Cancel:
    """E7, E8, E9, E12: it shall not happen."""


@dataclass(slots=True, frozen=True)
class ForkOptions:
    """E8: how to fork."""

    skip_conversation_restore: bool = False
    """Taken, and of no effect."""


@dataclass(slots=True, frozen=True)
class Compaction:
    """E9: the compaction, already done."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: object = None
    usage: Usage | None = None


@dataclass(slots=True, frozen=True)
class TreeSummary:
    """E12: the summary of the branch that is left, already written. Counts only if the user wanted one."""

    summary: str
    details: object = None
    usage: Usage | None = None


@dataclass(slots=True, frozen=True)
class TreeOptions:
    """E12: how to go to the other entry; what is None stays as it is."""

    summary: TreeSummary | None = None
    custom_instructions: str | None = None
    replace_instructions: bool | None = None
    label: str | None = None


@dataclass(slots=True, frozen=True)
class Continue:
    """E16: the text stays as it is; the same as to return nothing."""


@dataclass(slots=True, frozen=True)
class Transform:
    """E16: another text in its place; images stay unless there are others."""

    text: str
    images: Sequence[ImageContent] | Unset | None = UNSET


@dataclass(slots=True, frozen=True)
class Handled:
    """E16: the text has been dealt with; no model is asked."""


@dataclass(slots=True, frozen=True)
class BeforeStart:
    """E17: a message to store before the run, and another system prompt for the run."""

    message: CustomContent | None = None
    system_prompt: str | None = None


@dataclass(slots=True, frozen=True)
class Boundary:
    """E20, E23: entries to append, and whether to go on; what is unset stays as proposed so far."""

    entries: Sequence[Mapping[str, object]] | Unset = UNSET
    continue_: bool | Unset = UNSET


@dataclass(slots=True, frozen=True)
class ReplaceMessage:
    """E26: another message of the same role in its place."""

    message: Message


@dataclass(slots=True, frozen=True)
class Messages:
    """E31, E32: what the model is shown."""

    messages: Sequence[Message]


@dataclass(slots=True, frozen=True)
class Payload:
    """E34: the body in place of the other. Made by the reader: a handler returns the body itself."""

    payload: object


@dataclass(slots=True, frozen=True)
class CacheDecision:
    """E37: whether to keep the cache warm."""

    action: Literal["warm", "stop"]


@dataclass(slots=True, frozen=True)
class Block:
    """E40: the tool must not run; the reason is what the model reads."""

    reason: str | None = None
    terminate: bool = False
    """Whether the run ends as well."""


@dataclass(slots=True, frozen=True)
class ResultPatch:
    """E41: what is to be different in a result."""

    content: Blocks | Unset = UNSET
    details: object = UNSET
    is_error: bool | Unset = UNSET
    structured: object = UNSET
    usage: Usage | Unset | None = UNSET


@dataclass(slots=True, frozen=True)
class UserBash:
    """E42: who runs the command, or what has become of it: one of the two."""

    operations: BashOperations | None = None
    result: BashOutput | None = None


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
"""What the reader makes of the value that a handler has returned. A `TreeSummary` has become `TreeOptions`."""


@dataclass(slots=True)
class ToolResult:
    """What a tool of an extension may return when text is not enough (T2)."""

    content: str | Blocks = ""
    details: object = None
    """For clients and the tool itself, never for models. What the branch's next call has to know belongs here."""
    structured: object = None
    usage: Usage | None = None
    """What it has cost to ask a model on the way."""
    terminate: bool = False
    """Whether the run ends after this call."""
    is_error: bool = field(default=False, kw_only=True)

    @property
    def blocks(self) -> Blocks:
        """The content as blocks."""
        if isinstance(self.content, str):
            return [{"type": "text", "text": self.content}]
        return self.content
