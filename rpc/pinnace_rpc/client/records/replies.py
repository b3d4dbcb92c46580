"""The data of answers as plain dicts, typed for every agent of the family.

Keys are the wire's. A key is required only if every profile guarantees it; a test compares these types with the models
of the specification, key by key. Nothing is checked when an answer comes: fields of later agents are included. Must not
import pydantic (start-up time).
"""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.messages import (
    ApprovalMode,
    McpSource,
    McpState,
    Message,
    Model,
    QueueMode,
    ThinkingLevel,
    Usage,
    WarningKind,
)


class Disposition(TypedDict):
    """The disposition of a message."""

    disposition: Literal["started", "queued", "handled", "duplicate"]
    """`duplicate`: the session knows the message by its `messageId`, and nothing was done with it again."""
    state: NotRequired[Literal["queued", "delivered", "returned"]]
    """Of a duplicate: what became of the message."""
    entryId: NotRequired[str]
    """Of a duplicate that was delivered: its entry."""


class QueuedTexts(TypedDict):
    """The messages that were removed from the queues."""

    steering: list[str]
    followUp: list[str]


class Cleared(TypedDict):
    """The messages that an abort has removed from the queues."""

    cleared: QueuedTexts


class Replaced(TypedDict):
    """Whether an extension kept the session from being replaced."""

    cancelled: bool
    cleared: NotRequired[QueuedTexts]


class Forked(Replaced):
    """With the text of the message that the fork starts before."""

    text: str


class CycledModel(TypedDict):
    """The model that is selected now. `isScoped`: the user has narrowed the choice."""

    model: Model
    thinkingLevel: ThinkingLevel
    isScoped: bool


class Level(TypedDict):
    """The level that is selected now."""

    level: ThinkingLevel


class ShellResult(TypedDict):
    """The result of a `bash`; without an exit code if it was cancelled."""

    output: str
    exitCode: NotRequired[int]
    cancelled: bool
    truncated: bool
    fullOutputPath: NotRequired[str]


class Path(TypedDict):
    """Where a file was written."""

    path: str


class CompactionResult(TypedDict):
    """The summary that replaces the conversation before `firstKeptEntryId`."""

    summary: str
    firstKeptEntryId: str
    tokensBefore: int
    estimatedTokensAfter: int
    details: object
    usage: NotRequired[Usage]


class SessionStatus(TypedDict):
    """Whether the session is saved, and its damage. A missing key means: none."""

    saved: bool
    problem: NotRequired[str]
    unsavedEntries: NotRequired[int]
    foreignEntries: NotRequired[int]
    damagedLines: NotRequired[int]
    orphans: NotRequired[int]
    tornTail: NotRequired[Literal[True]]
    damagedCopy: NotRequired[str]


class CutCall(TypedDict):
    """A call of a tool that has no result."""

    id: str
    name: str


class Interruption(TypedDict):
    """A prompt that a crash has cut."""

    entryId: str
    text: str
    during: Literal["answer", "tools"]
    cutCalls: list[CutCall]


class McpServer(TypedDict):
    """An MCP server of the session, as it is now."""

    name: str
    state: McpState
    source: McpSource
    transport: Literal["stdio", "http"]
    tools: int
    error: NotRequired[str]


class AgentWarning(TypedDict):
    """Something that the user has to know, and that does not end the process."""

    kind: WarningKind
    text: str
    remedy: NotRequired[str]
    source: NotRequired[str]


class LeftOutExtension(TypedDict):
    """An extension that the session would have, and that is not loaded."""

    path: str
    reason: str


class SandboxState(TypedDict):
    """The sandbox of commands."""

    mode: Literal["workspace-write", "read-only"]
    network: Literal["off", "on"]
    mechanism: Literal["bubblewrap", "landlock", "seatbelt"]
    version: str
    writable: list[str]
    limits: NotRequired[list[str]]
    problem: NotRequired[str]


class State(TypedDict):
    """The state of the agent: its work, its settings and its queues."""

    model: Model | None
    thinkingLevel: ThinkingLevel
    isStreaming: bool
    isCompacting: bool
    steeringMode: QueueMode
    followUpMode: QueueMode
    sessionFile: NotRequired[str]
    sessionId: str
    sessionName: NotRequired[str]
    autoCompactionEnabled: bool
    messageCount: int
    pendingMessageCount: int
    isBashRunning: NotRequired[bool]
    sessionStatus: NotRequired[SessionStatus]
    queueMode: NotRequired[QueueMode]
    queuedMessageCount: NotRequired[int]
    queuePaused: NotRequired[bool]
    pid: NotRequired[int]
    cwd: NotRequired[str]
    projectTrusted: NotRequired[bool]
    extensionsAtWork: NotRequired[list[str]]
    mcpServers: NotRequired[list[McpServer]]
    warnings: NotRequired[list[AgentWarning]]
    extensionsLeftOut: NotRequired[list[LeftOutExtension]]
    toolApproval: NotRequired[ApprovalMode]
    sandbox: NotRequired[SandboxState]
    interrupted: NotRequired[Interruption]


class Messages(TypedDict):
    """All messages of the context."""

    messages: list[Message]


class Models(TypedDict):
    """Every model that can be selected."""

    models: list[Model]


class Levels(TypedDict):
    """The levels of the current model."""

    levels: list[ThinkingLevel]


class Tokens(TypedDict):
    """Tokens by kind, and their sum."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    total: int


class ContextUsage(TypedDict):
    """How full the context is; None just after a compaction, when it is unknown."""

    tokens: int | None
    contextWindow: int
    percent: float | None


class Totals(TypedDict):
    """The counts and the usage of the whole session, including compacted messages."""

    userMessages: int
    assistantMessages: int
    toolCalls: int
    toolResults: int
    totalMessages: int
    tokens: Tokens
    cost: float


class Stats(TypedDict):
    """Counts, tokens and cost of the session."""

    sessionFile: NotRequired[str]
    sessionId: str
    userMessages: int
    assistantMessages: int
    toolCalls: int
    toolResults: int
    totalMessages: int
    tokens: Tokens
    cost: float
    contextUsage: NotRequired[ContextUsage]
    session: NotRequired[Totals]


class ForkMessage(TypedDict):
    """A user's message that can be forked from."""

    entryId: str
    text: str


class ForkMessages(TypedDict):
    """All messages from which the session can be forked."""

    messages: list[ForkMessage]


class LastText(TypedDict):
    """The text of the newest answer; None when there is none."""

    text: str | None


class SourceInfo(TypedDict):
    """The source of a command, as later generations report it."""

    path: str
    source: str
    scope: Literal["user", "project", "temporary"]
    origin: Literal["package", "top-level"]
    baseDir: NotRequired[str]


class CommandInfo(TypedDict):
    """A command that a prompt can name after a slash."""

    name: str
    description: NotRequired[str]
    source: Literal["extension", "prompt", "skill"]
    location: NotRequired[Literal["user", "project", "path"]]
    path: NotRequired[str]
    sourceInfo: NotRequired[SourceInfo]
    argumentHint: NotRequired[str]
    """Of a template: what its author says about its arguments."""


class Commands(TypedDict):
    """Extensions' commands, templates, skills."""

    commands: list[CommandInfo]


class ToolInfo(TypedDict):
    """A tool of the agent or of an extension; `active`: the next request declares it."""

    name: str
    description: str
    parameters: dict[str, object]
    sourceInfo: SourceInfo
    active: bool


class Tools(TypedDict):
    """Every tool, active or not."""

    tools: list[ToolInfo]


class QueuedMessage(TypedDict):
    """A message that waits in a queue."""

    messageId: str
    kind: Literal["steer", "followUp"]
    text: str
    imageCount: int


class ReturnedMessage(QueuedMessage):
    """A message that was returned to a client, by the command `by`."""

    reason: Literal["clear_queue", "abort", "session_replaced"]
    by: NotRequired[str]


class Queue(TypedDict):
    """The queued messages in the order of their delivery, and on request those that were returned."""

    messages: list[QueuedMessage]
    paused: bool
    returned: NotRequired[list[ReturnedMessage]]


class SessionInfo(TypedDict):
    """A saved session; `modified` in milliseconds since the epoch."""

    id: str
    path: str
    cwd: str
    name: NotRequired[str]
    created: str
    modified: int
    messageCount: int
    firstMessage: str
    parentSession: NotRequired[str]


class Sessions(TypedDict):
    """A page of saved sessions; without `nextCursor` it is the last one."""

    sessions: list[SessionInfo]
    nextCursor: NotRequired[str]


class SessionEntry(TypedDict):
    """A line of the session file; each type has further keys."""

    type: str
    id: str
    parentId: str | None
    timestamp: str


class Entries(TypedDict):
    """Lines of the session file, and the one that the conversation ends with."""

    entries: list[SessionEntry]
    leafId: str | None


class Navigation(TypedDict):
    """What has become of a move; `editorText`: the message before which it has ended."""

    cancelled: bool
    aborted: NotRequired[bool]
    leafId: NotRequired[str]
    editorText: NotRequired[str]
    summaryEntry: NotRequired[SessionEntry]


class TreeNode(TypedDict):
    """An entry and what follows it."""

    entry: SessionEntry
    children: "list[TreeNode]"
    label: NotRequired[str]
    labelTimestamp: NotRequired[str]


class Tree(TypedDict):
    """The session as a tree."""

    tree: list[TreeNode]
    leafId: str | None


class Limits(TypedDict):
    """The limits of the agent: the size of a record, and of one command or response."""

    recordBytes: int
    nesting: int
    queuedMessages: NotRequired[int]
    contentBlocks: NotRequired[int]
    toolsAtOnce: NotRequired[int]
    editBytes: NotRequired[int]
    sessionBytes: NotRequired[int]
    outputFileBytes: NotRequired[int]
    shells: NotRequired[int]


class McpSupport(TypedDict):
    """Whether MCP servers can be used, and how many the session has."""

    installed: bool
    servers: int


class Hello(TypedDict):
    """The identity of the agent, and the current profile."""

    name: str
    version: str
    protocols: list[ClientProfile]
    protocol: ClientProfile
    commands: list[str]
    events: list[str]
    limits: Limits
    mcp: McpSupport
    sandbox: NotRequired[SandboxState]
    directories: NotRequired[list[str]]
