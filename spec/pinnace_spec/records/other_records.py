"""What agents of other generations write or take, and this program never does: records, a command, a message, fields.

Types only, for the published schemas; when each was part of the protocol stands in `profiles.toml`. Must not be needed
by anything that the agent itself does. Source: the documents and type declarations of those generations.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from pinnace_spec.records.commands import CommandModel
from pinnace_spec.records.compactions import CompactionReason, CompactionResult
from pinnace_spec.records.messages import TextContent
from pinnace_spec.records.output_model import Count, NonEmpty, OutputModel, Positive


class AutoCompactionStart(OutputModel):
    """An automatic compaction begins. Older than `compaction_start`; `compact` had no records."""

    type: Literal["auto_compaction_start"]
    reason: Literal["threshold", "overflow"]


class AutoCompactionEnd(OutputModel):
    """An automatic compaction has ended. Older than `compaction_end`."""

    type: Literal["auto_compaction_end"]
    result: CompactionResult | None
    aborted: bool
    willRetry: bool
    errorMessage: NonEmpty | None = None


class HookError(OutputModel):
    """A hook has failed. Older than `extension_error`."""

    type: Literal["hook_error"]
    hookPath: NonEmpty
    event: NonEmpty
    error: str


class _HookRequest(OutputModel):
    type: Literal["hook_ui_request"]
    id: NonEmpty


class HookSelect(_HookRequest):
    """Choose one of some texts."""

    method: Literal["select"]
    title: str
    options: list[str]


class HookConfirm(_HookRequest):
    """Say yes or no."""

    method: Literal["confirm"]
    title: str
    message: str


class HookInput(_HookRequest):
    """Enter one line."""

    method: Literal["input"]
    title: str
    placeholder: str | None = None


class HookNotify(_HookRequest):
    """Show a message."""

    method: Literal["notify"]
    message: str
    notifyType: Literal["info", "warning", "error"] | None = None


AnyHookRequest: TypeAlias = Annotated[HookSelect | HookConfirm | HookInput | HookNotify, Field(discriminator="method")]


class SummarizationRetryScheduled(OutputModel):
    """The request for a summary has failed and will be tried again."""

    type: Literal["summarization_retry_scheduled"]
    attempt: Positive
    maxAttempts: Positive
    delayMs: Count
    errorMessage: str


class SummarizationRetryAttemptStart(OutputModel):
    """The request for a summary is tried again."""

    type: Literal["summarization_retry_attempt_start"]
    source: Literal["compaction", "branchSummary"]
    reason: CompactionReason | None = None
    """Of the compaction; a branch's summary has none."""


class SummarizationRetryFinished(OutputModel):
    """The summary is there, or was given up."""

    type: Literal["summarization_retry_finished"]


class SystemMessage(TypedDict):
    """The description of the agent and its tools for the model, as part of the conversation."""

    role: Literal["system"]
    content: list[TextContent] | str
    sections: NotRequired[dict[str, str | None]]
    toolsAdded: NotRequired[list[dict[str, object]]]
    toolsRemoved: NotRequired[list[dict[str, object]]]
    replace: NotRequired[bool]
    timestamp: int


class SystemHolder(OutputModel):
    """Gives the message a place, so that it is as closed as the others."""

    message: SystemMessage


class HookUiResponse(CommandModel):
    """Answer a dialog. Never answered itself."""

    type: Literal["hook_ui_response"]
    value: object = None
    confirmed: object = None
    cancelled: object = None


EVENTS: Final[Mapping[str, object]] = {
    "auto_compaction_start": AutoCompactionStart,
    "auto_compaction_end": AutoCompactionEnd,
    "hook_error": HookError,
    "hook_ui_request": AnyHookRequest,
    "summarization_retry_scheduled": SummarizationRetryScheduled,
    "summarization_retry_attempt_start": SummarizationRetryAttemptStart,
    "summarization_retry_finished": SummarizationRetryFinished,
}
"""Record types that this program never writes."""

COMMANDS: Final[Mapping[str, type[CommandModel]]] = {"hook_ui_response": HookUiResponse}
"""Commands that this program does not take."""

# Any: pieces of JSON Schema.
FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "UserMessage": {
        "attachments": {
            "type": "array",
            "items": {"$ref": "#/$defs/Attachment"},
            "description": "Older than images in the content.",
        }
    },
    "AssistantMessage": {
        "deferred": {"type": "object", "description": "How to fetch an answer that comes later."},
        "diagnostics": {"type": "array"},
        "endTurn": {"type": "boolean"},
    },
    "ToolCall": {"namespace": {"type": "string"}},
    "ToolResultMessage": {"nestedCalls": {"type": "object", "description": "What the tool has called itself."}},
}
"""Fields of shared types, by type, that this program does not write."""
