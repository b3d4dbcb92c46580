"""Events as plain dicts, typed for every agent of the family and every profile.

Keys are the wire's. A key is required only if every profile guarantees it; a test compares these types with the models
of the specification, key by key. Records of types that are not here come as they are, so a `match` needs a last case.
Must not import pydantic (start-up time).
"""

from collections.abc import Mapping
from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from pinnace_rpc.client.records.replies import AgentWarning, CompactionResult, McpServer, SessionEntry
from pinnace_rpc.client.records.ui_requests import UiRequest
from pinnace_spec.records.messages import (
    AssistantMessage,
    FailureCode,
    ImageContent,
    Message,
    TextContent,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from pinnace_spec.rules.limits import LimitName

Record: TypeAlias = Mapping[str, object]
"""A JSON object. All readers get the same one, so it must not be changed."""


class AgentStart(TypedDict):
    """A run begins."""

    type: Literal["agent_start"]


class AgentEnd(TypedDict):
    """A run has ended; with every message that it created. Another one may follow."""

    type: Literal["agent_end"]
    messages: list[Message]
    willRetry: NotRequired[bool]


class AgentSettled(TypedDict):
    """The agent has settled: nothing more happens without a new command."""

    type: Literal["agent_settled"]
    aborted: bool
    reason: NotRequired[Literal["limit"]]
    limit: NotRequired[LimitName]
    """Which limit has ended the last run, if one has."""


class TurnStart(TypedDict):
    """A turn begins: one answer, and the results of its calls."""

    type: Literal["turn_start"]


class TurnEnd(TypedDict):
    """A turn has ended. Results are in the order of the calls."""

    type: Literal["turn_end"]
    message: AssistantMessage
    toolResults: list[ToolResultMessage]


class MessageBracket(TypedDict):
    """A message begins, or is complete."""

    type: Literal["message_start", "message_end"]
    message: Message
    entryId: NotRequired[str]
    """The entry of the session that the message is, or will be."""
    messageId: NotRequired[str]
    """Of a message of the user: the client's, or one that the agent has made."""


class BlockStart(TypedDict):
    """A text or a thought begins."""

    type: Literal["text_start", "thinking_start"]
    contentIndex: int
    partial: NotRequired[AssistantMessage]


class BlockDelta(TypedDict):
    """A block grows."""

    type: Literal["text_delta", "thinking_delta", "toolcall_delta"]
    contentIndex: int
    delta: str
    partial: NotRequired[AssistantMessage]


class BlockEnd(TypedDict):
    """A text or a thought is complete."""

    type: Literal["text_end", "thinking_end"]
    contentIndex: int
    content: str
    partial: NotRequired[AssistantMessage]


class CallStart(TypedDict):
    """A tool call begins."""

    type: Literal["toolcall_start"]
    contentIndex: int
    id: NotRequired[str]
    toolName: NotRequired[str]
    partial: NotRequired[AssistantMessage]


class CallEnd(TypedDict):
    """A tool call is complete."""

    type: Literal["toolcall_end"]
    contentIndex: int
    toolCall: ToolCall
    partial: NotRequired[AssistantMessage]


class MessageUpdate(TypedDict):
    """One step of a growing message; in some profiles with the message as it is after it."""

    type: Literal["message_update"]
    assistantMessageEvent: BlockStart | BlockDelta | BlockEnd | CallStart | CallEnd
    message: NotRequired[AssistantMessage]
    usage: NotRequired[Usage]
    entryId: NotRequired[str]


class ToolOutput(TypedDict):
    """The output of a tool: for the model, and for the client."""

    content: list[TextContent | ImageContent]
    details: NotRequired[object]
    structuredContent: NotRequired[object]


class ToolExecutionStart(TypedDict):
    """A call begins: it is validated, approved and executed."""

    type: Literal["tool_execution_start"]
    toolCallId: str
    toolName: str
    entryId: NotRequired[str]
    """The entry of the session that the result will be."""
    assistantEntryId: NotRequired[str]
    """The entry of the session that the answer with the call is."""
    callIndex: NotRequired[int]
    """The place of the call among those of its answer."""
    gated: NotRequired[Literal[True]]
    """It may still be refused; if it is not, an empty update follows when its execution begins."""
    args: dict[str, object]


class ToolExecutionUpdate(TypedDict):
    """Everything that a tool has produced so far."""

    type: Literal["tool_execution_update"]
    toolCallId: str
    toolName: str
    entryId: NotRequired[str]
    assistantEntryId: NotRequired[str]
    callIndex: NotRequired[int]
    args: dict[str, object]
    partialResult: ToolOutput


class ToolExecutionEnd(TypedDict):
    """A call has its result."""

    type: Literal["tool_execution_end"]
    toolCallId: str
    toolName: str
    entryId: NotRequired[str]
    assistantEntryId: NotRequired[str]
    callIndex: NotRequired[int]
    result: ToolOutput
    isError: bool
    durationMs: NotRequired[int]


class QueueUpdate(TypedDict):
    """Both queues, whole."""

    type: Literal["queue_update"]
    steering: list[str]
    followUp: list[str]


class BashExecutionUpdate(TypedDict):
    """More output of a `bash`, with its command's id."""

    type: Literal["bash_execution_update"]
    id: NotRequired[str | int | float | None]
    delta: str


class ThinkingLevelChanged(TypedDict):
    """The session's level is another one now."""

    type: Literal["thinking_level_changed"]
    level: ThinkingLevel


class SessionInfoChanged(TypedDict):
    """The session has a name, or none any more."""

    type: Literal["session_info_changed"]
    name: NotRequired[str]


class EntryAppended(TypedDict):
    """An extension has added to the session file."""

    type: Literal["entry_appended"]
    entry: SessionEntry


class CompactionStart(TypedDict):
    """A compaction begins."""

    type: Literal["compaction_start"]
    reason: Literal["manual", "threshold", "overflow"]
    entryId: NotRequired[str]


class CompactionEnd(TypedDict):
    """A compaction has ended: with a result, aborted, or with an error."""

    type: Literal["compaction_end"]
    reason: Literal["manual", "threshold", "overflow"]
    result: CompactionResult | None
    aborted: bool
    willRetry: bool
    errorMessage: NotRequired[str]
    entryId: NotRequired[str]


class AutoRetryStart(TypedDict):
    """A failed request will be tried again."""

    type: Literal["auto_retry_start"]
    attempt: int
    maxAttempts: int
    delayMs: int
    errorMessage: str
    errorCode: NotRequired[FailureCode]
    status: NotRequired[int]
    attempts: NotRequired[int]


class AutoRetryEnd(TypedDict):
    """Trying again has worked, was given up, or was cancelled."""

    type: Literal["auto_retry_end"]
    success: bool
    attempt: int
    finalError: NotRequired[str]
    errorCode: NotRequired[FailureCode]
    status: NotRequired[int]
    attempts: NotRequired[int]


class ExtensionError(TypedDict):
    """A handler of an extension has failed."""

    type: Literal["extension_error"]
    extensionPath: str
    event: str
    error: str


class ClientRequest(TypedDict):
    """A call of a tool asks a client that has offered to serve files for one. Answered by `client_response`."""

    type: Literal["client_request"]
    id: str
    method: Literal["read_text_file", "write_text_file"]
    toolCallId: str
    path: str
    content: NotRequired[str]
    timeout: int


class McpStatus(McpServer):
    """The state of an MCP server, or the number of its tools, has changed."""

    type: Literal["mcp_status"]


class WarningEvent(AgentWarning):
    """A warning is new."""

    type: Literal["warning"]


Event: TypeAlias = (
    AgentStart
    | AgentEnd
    | AgentSettled
    | TurnStart
    | TurnEnd
    | MessageBracket
    | MessageUpdate
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | QueueUpdate
    | BashExecutionUpdate
    | ThinkingLevelChanged
    | SessionInfoChanged
    | EntryAppended
    | CompactionStart
    | CompactionEnd
    | AutoRetryStart
    | AutoRetryEnd
    | ClientRequest
    | McpStatus
    | WarningEvent
    | ExtensionError
    | UiRequest
)
