"""The records that are no responses, field by field, for each profile: the conversation, queues, compaction, retries.

Types, and what fields of one record must not contradict. Must not know when a record is written (the chart does) nor
how one is judged (`outputs`). Requests to a client's user are in `ui_requests`. Source: the published protocol, its
later generations, R-PRO-01 to R-PRO-03.
"""

from collections.abc import Mapping
from typing import Final, Literal, Self

from pydantic import ConfigDict, model_validator

from pinnace_spec.compactions import CompactionEnd, CompactionStart, SeedCompactionEnd
from pinnace_spec.limits import LimitName
from pinnace_spec.messages import (
    AssistantMessage,
    FailureCode,
    ImageContent,
    TextContent,
    ThinkingLevel,
    ToolResultMessage,
)
from pinnace_spec.output_model import AnyMessage, Count, NonEmpty, OutputModel, Positive, SeedMessage
from pinnace_spec.profiles import Profile
from pinnace_spec.ui_requests import AnyUiRequest
from pinnace_spec.updates import DeltaUpdate, SeedUpdate, WholeUpdate


class AgentStart(OutputModel):
    """A run begins."""

    type: Literal["agent_start"]


class AgentEnd(OutputModel):
    """A run has ended; with every message that it created."""

    type: Literal["agent_end"]
    messages: list[AnyMessage]
    willRetry: bool


class SeedAgentEnd(OutputModel):
    """A run has ended; with every message that it created.

    Release 0.80.2 writes `willRetry`, its published protocol does not list it: clients of that time have met it.
    """

    type: Literal["agent_end"]
    messages: list[SeedMessage]
    willRetry: bool | None = None


class AgentSettled(OutputModel):
    """Nothing more will happen by itself."""

    type: Literal["agent_settled"]
    aborted: bool
    reason: Literal["limit"] | None = None
    """Why the last run was cut short, if it was not asked for (R-LIM-01)."""
    limit: LimitName | None = None
    """Which limit it was."""

    @model_validator(mode="after")
    def _limit_cuts_short(self) -> Self:
        if (self.reason is None) != (self.limit is None):
            raise ValueError("reason and limit come together")
        if self.limit is not None and not self.aborted:
            raise ValueError("what a limit has ended was aborted")
        return self


class TurnStart(OutputModel):
    """A turn begins: one answer, and the results of its calls."""

    type: Literal["turn_start"]


class TurnEnd(OutputModel):
    """A turn has ended. Results stand in the order of the calls."""

    type: Literal["turn_end"]
    message: AssistantMessage
    toolResults: list[ToolResultMessage]


class MessageBracket(OutputModel):
    """A message begins, or is complete."""

    type: Literal["message_start", "message_end"]
    message: AnyMessage


class SeedMessageBracket(OutputModel):
    """As published: no role that a client of that generation does not know."""

    type: Literal["message_start", "message_end"]
    message: SeedMessage


class ToolOutput(OutputModel):
    """What a tool has produced: for the model, and for the client."""

    content: list[TextContent | ImageContent]
    details: object = None
    structuredContent: object = None


class _ToolRecord(OutputModel):
    toolCallId: str
    toolName: NonEmpty


class ToolExecutionStart(_ToolRecord):
    """A call is looked at. `args` is what the model wrote, before any repair."""

    type: Literal["tool_execution_start"]
    args: dict[str, object]


class ToolExecutionUpdate(_ToolRecord):
    """Everything that a tool has produced so far."""

    type: Literal["tool_execution_update"]
    args: dict[str, object]
    partialResult: ToolOutput


class SeedToolExecutionEnd(_ToolRecord):
    """A call has its result."""

    type: Literal["tool_execution_end"]
    result: ToolOutput
    isError: bool


class ToolExecutionEnd(SeedToolExecutionEnd):
    """With the time it took; without, if it never ran."""

    durationMs: Count | None = None


class QueueUpdate(OutputModel):
    """Both queues, whole."""

    type: Literal["queue_update"]
    steering: list[str]
    followUp: list[str]


class BashExecutionUpdate(OutputModel):
    """More output of a client's `bash`, with its id if it gave one."""

    type: Literal["bash_execution_update"]
    id: str | int | float | None = None
    delta: NonEmpty


class ThinkingLevelChanged(OutputModel):
    """The session's level is another one now."""

    type: Literal["thinking_level_changed"]
    level: ThinkingLevel


class SessionInfoChanged(OutputModel):
    """The session has a name, or none any more."""

    type: Literal["session_info_changed"]
    name: NonEmpty | None = None


class SessionEntry(OutputModel):
    """A line of a session file. Open: entries of other programs and generations are passed on as they are."""

    model_config = ConfigDict(extra="allow")
    type: NonEmpty
    id: NonEmpty
    parentId: str | None
    timestamp: NonEmpty


class EntryAppended(OutputModel):
    """An extension has added to the session file."""

    type: Literal["entry_appended"]
    entry: SessionEntry


class SeedAutoRetryStart(OutputModel):
    """As the published protocol has it: the failure is a text alone."""

    type: Literal["auto_retry_start"]
    attempt: Positive
    maxAttempts: Positive
    delayMs: Count
    errorMessage: NonEmpty

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.attempt > self.maxAttempts:
            raise ValueError("attempt is more than maxAttempts")
        return self


class AutoRetryStart(SeedAutoRetryStart):
    """A failed request will be tried again."""

    errorCode: FailureCode | None = None
    status: Count | None = None
    """Of HTTP."""
    attempts: Positive | None = None
    """How often the request was sent."""


class SeedAutoRetryEnd(OutputModel):
    """As the published protocol has it: the failure is a text alone."""

    type: Literal["auto_retry_end"]
    success: bool
    attempt: Positive
    finalError: NonEmpty | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.success == (self.finalError is not None):
            raise ValueError("finalError exactly if there was no success")
        return self


class AutoRetryEnd(SeedAutoRetryEnd):
    """Trying again has worked, was given up, or was cancelled."""

    errorCode: FailureCode | None = None
    status: Count | None = None
    attempts: Positive | None = None


class ExtensionError(OutputModel):
    """A handler of an extension has failed."""

    type: Literal["extension_error"]
    extensionPath: NonEmpty
    event: NonEmpty
    error: str


_SAME_IN_ALL: Final[Mapping[str, object]] = {
    "agent_start": AgentStart,
    "turn_start": TurnStart,
    "turn_end": TurnEnd,
    "tool_execution_start": ToolExecutionStart,
    "tool_execution_update": ToolExecutionUpdate,
    "queue_update": QueueUpdate,
    "compaction_start": CompactionStart,
    "extension_error": ExtensionError,
    "extension_ui_request": AnyUiRequest,
}
_PI: Final[Mapping[str, object]] = {
    **_SAME_IN_ALL,
    "agent_end": AgentEnd,
    "message_start": MessageBracket,
    "message_update": WholeUpdate,
    "message_end": MessageBracket,
    "tool_execution_end": ToolExecutionEnd,
    "compaction_end": CompactionEnd,
    "auto_retry_start": AutoRetryStart,
    "auto_retry_end": AutoRetryEnd,
    "agent_settled": AgentSettled,
    "bash_execution_update": BashExecutionUpdate,
    "thinking_level_changed": ThinkingLevelChanged,
    "session_info_changed": SessionInfoChanged,
    "entry_appended": EntryAppended,
}
EVENTS: Final[Mapping[Profile, Mapping[str, object]]] = {
    "pi": _PI,
    "1.5": {**_PI, "message_update": DeltaUpdate},
    "seed": {
        **_SAME_IN_ALL,
        "agent_end": SeedAgentEnd,
        "message_start": SeedMessageBracket,
        "message_update": SeedUpdate,
        "message_end": SeedMessageBracket,
        "tool_execution_end": SeedToolExecutionEnd,
        "compaction_end": SeedCompactionEnd,
        "auto_retry_start": SeedAutoRetryStart,
        "auto_retry_end": SeedAutoRetryEnd,
    },
}
"""Every record type that a profile may write beside responses: to a model, or a union of models."""
