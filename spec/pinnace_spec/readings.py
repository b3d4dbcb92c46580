"""The data of the commands that read: state, messages, models, totals, entries, and `hello`.

Types, and what fields of one answer must not contradict. Must not know what a command does. Source: the published
protocol, its older and later generations, R-ORD-02, R-HEL-01.
"""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from pinnace_spec.commands import ALL_COMMANDS
from pinnace_spec.events import EVENTS, SessionEntry
from pinnace_spec.messages import Model, QueueMode, ThinkingLevel
from pinnace_spec.output_model import AnyMessage, Count, NonEmpty, OutputModel, Positive, SeedMessage
from pinnace_spec.profiles import ClientProfile

# Of the generations that `hello` may choose beside those with models.
_OLDER_EVENTS = ("auto_compaction_start", "auto_compaction_end")

Amount: TypeAlias = Annotated[float, Field(ge=0)]


class SessionStatus(OutputModel):
    """How safe the session is (R-SES-07, R-SES-08). What is not there is none."""

    saved: bool
    """Everything that was appended is in the file, or nothing is to be: a session in memory is always saved."""
    problem: NonEmpty | None = None
    """Why not, and what can be done."""
    unsavedEntries: Positive | None = None
    foreignEntries: Positive | None = None
    """Lines that another program has written while the session was open here."""
    damagedLines: Positive | None = None
    orphans: Positive | None = None
    """Entries whose parent is gone; they hang from what stood before them."""
    tornTail: Literal[True] | None = None
    damagedCopy: NonEmpty | None = None
    """The file with the damaged bytes."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.saved and (self.problem is not None or self.unsavedEntries is not None):
            raise ValueError("what is saved has no problem")
        return self


class CutCall(OutputModel):
    """A call of a tool that has no result."""

    id: str
    name: str


class Interruption(OutputModel):
    """A prompt that a crash has cut: no orderly end of a run leaves a session so (R-SES-07)."""

    entryId: str
    """Of the user's message."""
    text: str
    """Its first 200 characters."""
    during: Literal["answer", "tools"]
    """What was being waited for: the model's answer, or results of tools."""
    cutCalls: list[CutCall]
    """Calls without a result. The tools may have begun, and may have had effects."""


class _State(OutputModel):
    model: Model | None
    thinkingLevel: ThinkingLevel
    isStreaming: bool
    isCompacting: bool
    steeringMode: QueueMode
    followUpMode: QueueMode
    sessionFile: NonEmpty | None = None
    sessionId: NonEmpty
    sessionName: NonEmpty | None = None
    autoCompactionEnabled: bool
    messageCount: Count
    pendingMessageCount: Count


class SeedState(_State):
    """As published."""


class State(_State):
    """With the fields of ours, and of the oldest generation."""

    isBashRunning: bool
    sessionStatus: SessionStatus
    queueMode: QueueMode
    queuedMessageCount: Count
    pid: Count
    cwd: NonEmpty
    projectTrusted: bool
    interrupted: Interruption | None = None
    """What a crash has cut, until the next run begins."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.queueMode, self.queuedMessageCount) != (self.steeringMode, self.pendingMessageCount):
            raise ValueError("queueMode and queuedMessageCount must say what their newer names say")
        return self


class Messages(OutputModel):
    """All messages of the context."""

    messages: list[AnyMessage]


class SeedMessages(OutputModel):
    """As published: no role that a client of that generation does not know."""

    messages: list[SeedMessage]


class Models(OutputModel):
    """Every model that can be selected."""

    models: list[Model]


class Levels(OutputModel):
    """The levels of the current model."""

    levels: Annotated[list[ThinkingLevel], Field(min_length=1)]


class Tokens(OutputModel):
    """Tokens by kind, and their sum."""

    input: Count
    output: Count
    cacheRead: Count
    cacheWrite: Count
    total: Count

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.total != self.input + self.output + self.cacheRead + self.cacheWrite:
            raise ValueError("total must be the sum of the four")
        return self


class ContextUsage(OutputModel):
    """How full the context is; null just after a compaction, when nobody can know."""

    tokens: Count | None
    contextWindow: Positive
    percent: Amount | None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.tokens is None) != (self.percent is None):
            raise ValueError("tokens and percent are known together")
        return self


class Totals(OutputModel):
    """What the whole session has used, whatever was compacted."""

    tokens: Tokens
    cost: Amount


class _Stats(OutputModel):
    sessionFile: NonEmpty | None = None
    sessionId: NonEmpty
    userMessages: Count
    assistantMessages: Count
    toolCalls: Count
    toolResults: Count
    totalMessages: Count
    tokens: Tokens
    cost: Amount
    contextUsage: ContextUsage | None = None


class SeedStats(_Stats):
    """As published."""


class Stats(_Stats):
    """With the totals of the whole session."""

    session: Totals


class ForkMessage(OutputModel):
    """A user's message that can be forked from."""

    entryId: NonEmpty
    text: NonEmpty


class ForkMessages(OutputModel):
    """All that can be forked from."""

    messages: list[ForkMessage]


class BranchMessage(OutputModel):
    """`ForkMessage` in the oldest generation."""

    entryIndex: Count
    text: NonEmpty


class BranchMessages(OutputModel):
    """`ForkMessages` in the oldest generation."""

    messages: list[BranchMessage]


class LastText(OutputModel):
    """The text of the newest answer; null when there is none."""

    text: NonEmpty | None


class SeedCommandInfo(OutputModel):
    """Something that a prompt can name after a slash."""

    name: NonEmpty
    description: str | None = None
    source: Literal["extension", "prompt", "skill"]
    location: Literal["user", "project", "path"] | None = None
    path: NonEmpty | None = None


class SourceInfo(OutputModel):
    """Where a command comes from, as later generations say it."""

    path: NonEmpty
    source: str
    scope: Literal["user", "project", "temporary"]
    origin: Literal["package", "top-level"]
    baseDir: str | None = None


class CommandInfo(SeedCommandInfo):
    """With where it comes from, in both forms."""

    sourceInfo: SourceInfo


class SeedCommands(OutputModel):
    """Extensions' commands, templates, skills."""

    commands: list[SeedCommandInfo]


class Commands(OutputModel):
    """Extensions' commands, templates, skills."""

    commands: list[CommandInfo]


class Entries(OutputModel):
    """Lines of the session file, and the one that the conversation ends with."""

    entries: list[SessionEntry]
    leafId: str | None


class TreeNode(OutputModel):
    """An entry and what follows it."""

    entry: SessionEntry
    children: "list[TreeNode]"
    label: NonEmpty | None = None
    labelTimestamp: NonEmpty | None = None


class Tree(OutputModel):
    """The session as a tree."""

    tree: list[TreeNode]
    leafId: str | None


class Limits(OutputModel):
    """What a client can run into: of a record coming in, and what one command or answer may cost (R-LIM-04)."""

    recordBytes: Positive
    nesting: Positive
    queuedMessages: Positive | None = None
    """Messages in both queues together (R-QUE-11)."""
    contentBlocks: Positive | None = None
    """Texts, thoughts and calls in one answer of a model."""
    toolsAtOnce: Positive | None = None
    """Calls that are executed at the same time."""
    editBytes: Positive | None = None
    """A file that the tool `edit` changes."""
    sessionBytes: Positive | None = None
    """A session file."""
    outputFileBytes: Positive | None = None
    """The file that keeps a long output."""
    shells: Positive | None = None
    """So many commands of `bash` run at once; further ones wait for their turn."""


class Hello(OutputModel):
    """What the agent is, and which profile is in force. Commands and events are those that this specification has."""

    name: NonEmpty
    version: NonEmpty
    protocols: list[ClientProfile]
    protocol: ClientProfile
    commands: list[NonEmpty]
    events: list[NonEmpty]
    limits: Limits

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.protocol not in self.protocols:
            raise ValueError("protocol must be one of protocols")
        if unheard := {*self.commands, *self.events} - {*ALL_COMMANDS, *EVENTS["pi"], *_OLDER_EVENTS}:
            raise ValueError(f"not in the specification: {', '.join(sorted(unheard))}")
        return self
