"""The records that are no responses, field by field, for each profile: the conversation, queues, compaction, retries.

Types, and what fields of one record must not contradict. Must not know when a record is written (the chart does) nor
how one is judged (`outputs`). Requests to a client's user are in `ui_requests`. Source: the published protocol, its
later generations, R-PRO-01 to R-PRO-03.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from pinnace_spec.profiles.profiles import Profile
from pinnace_spec.records.compactions import (
    CompactionEnd,
    CompactionStart,
    SeedCompactionEnd,
    SeedCompactionStart,
)
from pinnace_spec.records.messages import (
    AssistantMessage,
    ChangeOrigin,
    FailureCode,
    FileMethod,
    ImageContent,
    McpSource,
    McpState,
    ResolvedReason,
    SessionChange,
    SurfaceAnchor,
    SurfacePlace,
    TextContent,
    ThinkingLevel,
    ToolResultMessage,
    Usage,
    WarningKind,
)
from pinnace_spec.records.output_model import AnyMessage, Count, NonEmpty, OutputModel, Positive, SeedMessage
from pinnace_spec.records.ui_requests import AnyUiRequest, SeedUiRequest
from pinnace_spec.records.updates import DeltaUpdate, SeedUpdate, WholeUpdate
from pinnace_spec.rules.limits import MAX_SURFACE_LINES, MAX_WORKING_FRAMES, LimitName


class AgentStart(OutputModel):
    """A run begins."""

    type: Literal["agent_start"]


class AgentEnd(OutputModel):
    """A run has ended. It holds every message that the run created."""

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
    """The agent has settled: nothing more happens without a new command."""

    type: Literal["agent_settled"]
    aborted: bool
    reason: Literal["limit"] | None = None
    """Why the agent ended the last run early by itself (R-LIM-01)."""
    limit: LimitName | None = None
    """The limit that was reached."""

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
    """A turn has ended. Results are in the order of the calls."""

    type: Literal["turn_end"]
    message: AssistantMessage
    toolResults: list[ToolResultMessage]


class MessageBracket(OutputModel):
    """A message begins, or is complete."""

    type: Literal["message_start", "message_end"]
    entryId: NonEmpty | None = None
    """The entry of the session that the message is, or will be."""
    messageId: NonEmpty | None = None
    """Of a message of the user."""
    message: AnyMessage


class SeedMessageBracket(OutputModel):
    """As published: no role that a client of that generation does not know."""

    type: Literal["message_start", "message_end"]
    message: SeedMessage


class ToolOutput(OutputModel):
    """The output of a tool: for the model, and for the client."""

    content: list[TextContent | ImageContent]
    details: object = None
    structuredContent: object = None


class _ToolRecord(OutputModel):
    toolCallId: str
    toolName: NonEmpty


class SeedToolExecutionStart(_ToolRecord):
    """A call begins. `args` holds the model's arguments, before any repair."""

    type: Literal["tool_execution_start"]
    args: dict[str, object]


class ToolExecutionStart(SeedToolExecutionStart):
    """With the entries of the answer and the result, and whether the call may still be refused."""

    entryId: NonEmpty | None = None
    """The entry of the session that the result of the call will be."""
    assistantEntryId: NonEmpty | None = None
    """The entry of the session that the answer with the call is."""
    callIndex: Count | None = None
    """The place of the call among those of its answer, from 0: ids of calls may occur twice."""
    gated: Literal[True] | None = None
    """The call may still be refused. If it is not, an empty update reports that its execution begins."""


class SeedToolExecutionUpdate(_ToolRecord):
    """The complete output of a tool so far."""

    type: Literal["tool_execution_update"]
    args: dict[str, object]
    partialResult: ToolOutput


class ToolExecutionUpdate(SeedToolExecutionUpdate):
    """With the entries of the answer and the result."""

    entryId: NonEmpty | None = None
    """The entry of the session that the result of the call will be."""
    assistantEntryId: NonEmpty | None = None
    """The entry of the session that the answer with the call is."""
    callIndex: Count | None = None
    """The place of the call among those of its answer, from 0: ids of calls may occur twice."""


class SeedToolExecutionEnd(_ToolRecord):
    """A call has ended."""

    type: Literal["tool_execution_end"]
    result: ToolOutput
    isError: bool


class ToolExecutionEnd(SeedToolExecutionEnd):
    """With the entries of the answer and the result, and the duration of the call, if it ran."""

    entryId: NonEmpty | None = None
    """The entry of the session that the result of the call will be."""
    assistantEntryId: NonEmpty | None = None
    """The entry of the session that the answer with the call is."""
    callIndex: Count | None = None
    """The place of the call among those of its answer, from 0: ids of calls may occur twice."""
    durationMs: Count | None = None


class QueueUpdate(OutputModel):
    """The queues have changed. It holds both queues completely."""

    type: Literal["queue_update"]
    steering: list[str]
    followUp: list[str]


class BashExecutionUpdate(OutputModel):
    """More output of a client's `bash`, with its id if it gave one."""

    type: Literal["bash_execution_update"]
    id: str | int | float | None = None
    delta: NonEmpty


class ThinkingLevelChanged(OutputModel):
    """The thinking level of the session has changed."""

    type: Literal["thinking_level_changed"]
    level: ThinkingLevel


class SessionInfoChanged(OutputModel):
    """The name of the session was set or removed."""

    type: Literal["session_info_changed"]
    name: NonEmpty | None = None


class SessionChanged(OutputModel):
    """Reads show another conversation from now on: another session, or another branch of it.

    A client that shows the conversation loads it again (`get_entries` or `get_messages`). The record follows all runs
    and messages of the former conversation and precedes those of the new one.
    """

    type: Literal["session_changed"]
    reason: SessionChange
    by: ChangeOrigin | None = None
    """What asked for it; absent where another process has appended."""
    sessionId: NonEmpty
    sessionFile: NonEmpty | None = None
    leafId: NonEmpty | None

    @model_validator(mode="after")
    def _has_an_origin(self) -> Self:
        if (self.by is None) != (self.reason == "takeover"):
            raise ValueError("by exactly if a command has changed the session")
        return self


class SessionEntry(OutputModel):
    """A line of a session file. Open: entries of other programs and generations are passed on as they are."""

    model_config = ConfigDict(extra="allow")
    type: NonEmpty
    id: NonEmpty
    parentId: str | None
    timestamp: NonEmpty


class EntryAppended(OutputModel):
    """An extension has appended an entry to the session."""

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
    """A failed request will be retried."""

    errorCode: FailureCode | None = None
    status: Count | None = None
    """The HTTP status."""
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
    """A retry has succeeded, was given up, or was cancelled."""

    errorCode: FailureCode | None = None
    status: Count | None = None
    attempts: Positive | None = None


class ExtensionError(OutputModel):
    """A handler of an extension has failed."""

    type: Literal["extension_error"]
    extensionPath: NonEmpty
    event: NonEmpty
    error: str


class UiResolved(OutputModel):
    """A dialog is over: the client takes it back, and its answer would be ignored.

    The agent writes it for a dialog that ends without an answer, a durable host also for one that a client has
    answered.
    """

    type: Literal["extension_ui_resolved"]
    id: NonEmpty
    reason: ResolvedReason


class ClientRequest(OutputModel):
    """A call of a tool asks the client for a file that the client has offered to serve.

    It waits for a `client_response` with its id, until its time is over or its call ends.
    """

    type: Literal["client_request"]
    id: NonEmpty
    method: FileMethod
    toolCallId: NonEmpty
    """The call that asks."""
    path: NonEmpty
    """Absolute."""
    content: str | None = None
    timeout: Positive

    @model_validator(mode="after")
    def _has_content_to_write(self) -> Self:
        if (self.method == "write_text_file") != (self.content is not None):
            raise ValueError("content exactly in write_text_file")
        return self


Extent = Annotated[str, Field(pattern=r"^\d{1,4}%?$")]
"""Cells of the terminal, as `60`, or a share of its screen, as `50%`."""


class SurfaceLayout(OutputModel):
    """Where a surface over the screen is."""

    anchor: SurfaceAnchor = "center"
    width: Extent | None = None
    minWidth: Extent | None = None
    maxHeight: Extent | None = None
    row: Extent | None = None
    column: Extent | None = None
    offsetX: int = 0
    offsetY: int = 0
    margin: Count = 0


class UiSurfaceOpen(OutputModel):
    """An extension opens a surface, on which it draws lines.

    The client answers with `ui_surface_input` and the size; nothing is drawn before.
    """

    type: Literal["ui_surface_open"]
    surface: NonEmpty
    """Names it in later records; no other surface of the process has the name."""
    place: SurfacePlace
    """`editor`: in the place of the editor, with all keys. `input`: it is the editor. `overlay`: over the screen,
    with all keys. `header`: above the conversation. `footer`: in the place of the lines at the bottom.
    `aboveEditor`, `belowEditor`: a widget."""
    key: NonEmpty | None = None
    """Of a widget: one with the same key replaces it."""
    layout: SurfaceLayout | None = None
    """Where it is; only of an `overlay`."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.layout is not None and self.place != "overlay":
            raise ValueError("layout only of an overlay")
        return self


class UiSurfaceDraw(OutputModel):
    """A surface shows other lines."""

    type: Literal["ui_surface_draw"]
    surface: NonEmpty
    lines: Annotated[list[str], Field(max_length=MAX_SURFACE_LINES)]
    """All of its lines, from the top, with the sequences of a terminal for colours and styles (SGR) and no others."""


class UiInput(OutputModel):
    """An extension has taken what a client has sent to an `input`, its editor, or to `keys`, and may ask for something.

    One of an editor that reports a text alone may replace an unwritten one for the same surface and client.
    """

    type: Literal["ui_input"]
    surface: NonEmpty
    """The editor."""
    by: NonEmpty
    """The client, as it has named itself. Others do nothing of what is asked for."""
    taken: int
    """The number of the newest input that was taken: all earlier ones were, too."""
    text: str
    """What the editor holds now; of `keys`, what is left of the input: the same, another one, or none."""
    submitted: NonEmpty | None = None
    """A message that the user sends."""
    followUp: bool = False
    """Whether the message is for when the agent would stop; only with `submitted`."""
    action: NonEmpty | None = None
    """What a key means, by its name in `keybindings.json`, such as `app.interrupt`."""
    declined: bool = False
    """Whether the key with this number is left to the client."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.followUp and self.submitted is None:
            raise ValueError("followUp only with submitted")
        return self


class UiSurfaceClose(OutputModel):
    """A surface is gone."""

    type: Literal["ui_surface_close"]
    surface: NonEmpty


class UiTheme(OutputModel):
    """An extension has chosen a theme of the client. One that the client does not have changes nothing."""

    type: Literal["ui_theme"]
    theme: NonEmpty
    """Its name."""


class UiDisplay(OutputModel):
    """What extensions have set of the client's own displays; each replaces the one before.

    What is absent is as the client has it by itself. Texts are in one line, with the sequences of a terminal for
    colours and styles (SGR) and no others.
    """

    type: Literal["ui_display"]
    workingMessage: str | None = None
    """What is shown while a run works, in the place of the client's own words."""
    workingVisible: bool | None = None
    """False: a run's work is not shown."""
    workingFrames: Annotated[list[str], Field(max_length=MAX_WORKING_FRAMES)] | None = None
    """The sign of the work: one after the other, again and again; a single one stands still, none is no sign."""
    workingIntervalMs: Positive | None = None
    """For how long each frame is shown, in milliseconds."""
    hiddenThinkingLabel: str | None = None
    """Stands for thoughts that are folded."""
    completes: Literal[True] | None = None
    """Extensions complete the text of the editor: `get_completions` without a name asks them."""


class UiToolsExpanded(OutputModel):
    """An extension unfolds, or folds, all outputs of tools."""

    type: Literal["ui_tools_expanded"]
    expanded: bool
    """Whether they are unfolded from now on."""


class McpServer(OutputModel):
    """An MCP server of the session, as it is now."""

    name: NonEmpty
    state: McpState
    source: McpSource
    transport: Literal["stdio", "http"]
    tools: Count
    error: NonEmpty | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.state == "connected" and self.error is not None:
            raise ValueError("a connected server has no error")
        return self


class AgentMessage(OutputModel):
    """A message to a sub-agent (`message_agent`)."""

    messageId: NonEmpty
    text: str
    state: Literal["accepted", "delivered", "returned"]
    """`delivered`: the sub-agent's session has it. `returned`: the sub-agent ended without it, or has refused it."""


class AgentInfo(OutputModel):
    """A sub-agent of the session."""

    agentId: NonEmpty
    """The id of its session."""
    toolCallId: str | None = None
    """The call of `subagent` that has started it, and ends with it; absent where a client has (`start_agent`)."""
    messageId: NonEmpty | None = None
    """The name of its task, where a client has given one."""
    task: str
    """The beginning of its task."""
    state: Literal["running", "completed", "failed", "cancelled", "interrupted"]
    """`failed`: its run or its process has failed. `interrupted`: the process that had started it has ended."""
    provider: str
    model: str
    cwd: NonEmpty | None = None
    """Where it works; absent for one that an older release has started."""
    sessionFile: NonEmpty | None = None
    """Absent for a session in memory."""
    usage: Usage | None = None
    """All of it, with that of sub-agents of its own; absent while it works (`tool_execution_update` has it then)."""
    error: NonEmpty | None = None
    """Why it has not completed its task, where that is known."""
    messages: list[AgentMessage] | None = None
    """Those that it was given while it worked, in their order; absent without any."""


class SubagentEvent(OutputModel):
    """What a sub-agent does, for a client that has asked by `subagents` of `hello`.

    With `agent` where it has begun and where it has ended, and between them with `event` for each record of its
    conversation.
    """

    type: Literal["subagent_event"]
    agentId: NonEmpty
    agent: AgentInfo | None = None
    event: dict[str, object] | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.agent is None) == (self.event is None):
            raise ValueError("either agent or event")
        if self.agent is not None and self.agent.agentId != self.agentId:
            raise ValueError("agent.agentId: another one than agentId")
        return self


class McpStatus(McpServer):
    """The state of an MCP server, or the number of its tools, has changed."""

    type: Literal["mcp_status"]


class AgentWarning(OutputModel):
    """Something that the user has to know, and that does not end the process."""

    kind: WarningKind
    text: NonEmpty
    remedy: NonEmpty | None = None
    source: NonEmpty | None = None


class WarningEvent(AgentWarning):
    """A warning is new."""

    type: Literal["warning"]


class LoginStart(OutputModel):
    """A login waits for its user, who uses a browser. `login_end` follows, whatever becomes of it."""

    type: Literal["login_start"]
    provider: NonEmpty
    url: NonEmpty
    userCode: NonEmpty | None = None
    expiresAt: Positive | None = None


class LoginEnd(OutputModel):
    """A login that a `login_start` has announced has ended; the response of its command follows."""

    type: Literal["login_end"]
    provider: NonEmpty
    success: bool
    error: NonEmpty | None = None

    @model_validator(mode="after")
    def _failure_has_a_reason(self) -> Self:
        if self.success != (self.error is None):
            raise ValueError("an error is there unless it was a success")
        return self


_SAME_IN_ALL: Final[Mapping[str, object]] = {
    "agent_start": AgentStart,
    "turn_start": TurnStart,
    "turn_end": TurnEnd,
    "queue_update": QueueUpdate,
    "extension_error": ExtensionError,
}
_PI: Final[Mapping[str, object]] = {
    **_SAME_IN_ALL,
    "extension_ui_request": AnyUiRequest,
    "extension_ui_resolved": UiResolved,
    "client_request": ClientRequest,
    "ui_surface_open": UiSurfaceOpen,
    "ui_surface_draw": UiSurfaceDraw,
    "ui_input": UiInput,
    "ui_surface_close": UiSurfaceClose,
    "ui_theme": UiTheme,
    "ui_display": UiDisplay,
    "ui_tools_expanded": UiToolsExpanded,
    "mcp_status": McpStatus,
    "subagent_event": SubagentEvent,
    "warning": WarningEvent,
    "login_start": LoginStart,
    "login_end": LoginEnd,
    "agent_end": AgentEnd,
    "message_start": MessageBracket,
    "message_update": WholeUpdate,
    "message_end": MessageBracket,
    "tool_execution_start": ToolExecutionStart,
    "tool_execution_update": ToolExecutionUpdate,
    "tool_execution_end": ToolExecutionEnd,
    "compaction_start": CompactionStart,
    "compaction_end": CompactionEnd,
    "auto_retry_start": AutoRetryStart,
    "auto_retry_end": AutoRetryEnd,
    "agent_settled": AgentSettled,
    "bash_execution_update": BashExecutionUpdate,
    "thinking_level_changed": ThinkingLevelChanged,
    "session_info_changed": SessionInfoChanged,
    "session_changed": SessionChanged,
    "entry_appended": EntryAppended,
}
EVENTS: Final[Mapping[Profile, Mapping[str, object]]] = {
    "pi": _PI,
    "1.5": {**_PI, "message_update": DeltaUpdate},
    "seed": {
        **_SAME_IN_ALL,
        "extension_ui_request": SeedUiRequest,
        "agent_end": SeedAgentEnd,
        "message_start": SeedMessageBracket,
        "message_update": SeedUpdate,
        "message_end": SeedMessageBracket,
        "tool_execution_start": SeedToolExecutionStart,
        "tool_execution_update": SeedToolExecutionUpdate,
        "tool_execution_end": SeedToolExecutionEnd,
        "compaction_start": SeedCompactionStart,
        "compaction_end": SeedCompactionEnd,
        "auto_retry_start": SeedAutoRetryStart,
        "auto_retry_end": SeedAutoRetryEnd,
    },
}
"""Every record type that a profile may write beside responses: to a model, or a union of models."""
