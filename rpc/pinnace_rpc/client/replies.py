"""The data of answers as plain dicts, typed for every agent of the family.

Keys are the wire's. A key is required only if every profile promises it; a test holds these types to the models of the
specification, key by key. Nothing is checked when an answer comes: what a later agent adds is there as well. Must not
import pydantic (start-up time).
"""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from pinnace_spec.messages import Message, Model, QueueMode, ThinkingLevel, Usage
from pinnace_spec.profiles import ClientProfile


class Disposition(TypedDict):
    """What became of a text."""

    disposition: Literal["started", "queued", "handled"]


class QueuedTexts(TypedDict):
    """What was queued and is withdrawn."""

    steering: list[str]
    followUp: list[str]


class Cleared(TypedDict):
    """What an abort has taken out of the queue."""

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
    """What a command of `bash` has done; without an exit code if it was cancelled."""

    output: str
    exitCode: NotRequired[int]
    cancelled: bool
    truncated: bool
    fullOutputPath: NotRequired[str]


class Path(TypedDict):
    """Where a file was written."""

    path: str


class CompactionResult(TypedDict):
    """What stands for the conversation before `firstKeptEntryId`."""

    summary: str
    firstKeptEntryId: str
    tokensBefore: int
    estimatedTokensAfter: int
    details: object
    usage: NotRequired[Usage]


class SessionStatus(TypedDict):
    """How safe the session is. What is not there is none."""

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


class State(TypedDict):
    """What the agent is doing, with what, and what waits."""

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
    pid: NotRequired[int]
    cwd: NotRequired[str]
    projectTrusted: NotRequired[bool]
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
    """How full the context is; None just after a compaction, when nobody can know."""

    tokens: int | None
    contextWindow: int
    percent: float | None


class Totals(TypedDict):
    """What the whole session has used, whatever was compacted."""

    tokens: Tokens
    cost: float


class Stats(TypedDict):
    """What the session has used."""

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
    """All that can be forked from."""

    messages: list[ForkMessage]


class LastText(TypedDict):
    """The text of the newest answer; None when there is none."""

    text: str | None


class SourceInfo(TypedDict):
    """Where a command comes from, as later generations say it."""

    path: str
    source: str
    scope: Literal["user", "project", "temporary"]
    origin: Literal["package", "top-level"]
    baseDir: NotRequired[str]


class CommandInfo(TypedDict):
    """Something that a prompt can name after a slash."""

    name: str
    description: NotRequired[str]
    source: Literal["extension", "prompt", "skill"]
    location: NotRequired[Literal["user", "project", "path"]]
    path: NotRequired[str]
    sourceInfo: NotRequired[SourceInfo]


class Commands(TypedDict):
    """Extensions' commands, templates, skills."""

    commands: list[CommandInfo]


class SessionEntry(TypedDict):
    """A line of the session file, with what its type has beside these."""

    type: str
    id: str
    parentId: str | None
    timestamp: str


class Entries(TypedDict):
    """Lines of the session file, and the one that the conversation ends with."""

    entries: list[SessionEntry]
    leafId: str | None


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
    """What a client can run into: of a record that the agent takes, and what one command or answer may cost."""

    recordBytes: int
    nesting: int
    queuedMessages: NotRequired[int]
    contentBlocks: NotRequired[int]
    toolsAtOnce: NotRequired[int]
    editBytes: NotRequired[int]
    sessionBytes: NotRequired[int]
    outputFileBytes: NotRequired[int]
    shells: NotRequired[int]


class Hello(TypedDict):
    """What the agent is, and which profile is in force."""

    name: str
    version: str
    protocols: list[ClientProfile]
    protocol: ClientProfile
    commands: list[str]
    events: list[str]
    limits: Limits
