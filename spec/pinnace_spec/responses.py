"""The data of every successful response, command by command, for each profile.

Types, and what fields of one answer must not contradict. A command that stands here with None is answered without data,
one that does not stand here at all is never answered with success. Must not know what a command does nor how an answer is
judged (`outputs`). Source: the published protocol, its older and later generations, R-RSP-01, R-HEL-01, R-PRO-01.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from pinnace_spec.compactions import CompactionResult, SeedCompactionResult
from pinnace_spec.events import SessionEntry
from pinnace_spec.messages import Model, QueueMode, ThinkingLevel
from pinnace_spec.output_model import ABSENT, AnyMessage, Count, NonEmpty, OutputModel, SeedMessage
from pinnace_spec.profiles import Profile

Price: TypeAlias = Annotated[float, Field(ge=0)]


class Disposition(OutputModel):
    """What became of a text."""

    disposition: Literal["started", "queued", "handled"]


class QueuedTexts(OutputModel):
    """What was queued and is withdrawn."""

    steering: list[str]
    followUp: list[str]


class Cleared(OutputModel):
    """An abort that was asked to clear the queue says what was in it."""

    cleared: QueuedTexts


class Replaced(OutputModel):
    """Whether an extension kept the session from being replaced; and what was queued in the one that is gone."""

    cancelled: bool
    cleared: QueuedTexts = QueuedTexts.model_construct(steering=[], followUp=[])


class Forked(Replaced):
    """With the text of the message that the fork starts before."""

    text: str


class Branched(OutputModel):
    """`Forked` in the oldest generation."""

    text: str


class SeedState(OutputModel):
    """What the agent is doing, with what, and what waits. What has a default is additive."""

    model: Model | None
    thinkingLevel: ThinkingLevel
    isStreaming: bool
    isCompacting: bool
    steeringMode: QueueMode
    followUpMode: QueueMode
    sessionFile: NonEmpty = ABSENT
    sessionId: NonEmpty
    sessionName: NonEmpty = ABSENT
    autoCompactionEnabled: bool
    messageCount: Count
    pendingMessageCount: Count
    isBashRunning: bool = False
    queueMode: QueueMode = "all"
    queuedMessageCount: Count = 0
    pid: Count = 0
    cwd: NonEmpty = ABSENT
    projectTrusted: bool = False


class State(SeedState):
    """With the fields of ours, and of the oldest generation."""

    isBashRunning: bool
    queueMode: QueueMode
    queuedMessageCount: Count
    pid: Count
    cwd: NonEmpty
    projectTrusted: bool

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


class CycledModel(OutputModel):
    """The model that is selected now. `isScoped`: the user has narrowed the choice."""

    model: Model
    thinkingLevel: ThinkingLevel
    isScoped: bool


class Models(OutputModel):
    """Every model that can be selected."""

    models: list[Model]


class Level(OutputModel):
    """The level that is selected now."""

    level: ThinkingLevel


class Levels(OutputModel):
    """The levels of the current model."""

    levels: Annotated[list[ThinkingLevel], Field(min_length=1)]


class ShellResult(OutputModel):
    """What a client's `bash` has done. Cancelled exactly if there is no exit code."""

    output: str
    exitCode: int = 0
    cancelled: bool
    truncated: bool
    fullOutputPath: NonEmpty = ABSENT

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.cancelled == ("exitCode" in self.model_fields_set):
            raise ValueError("exitCode exactly if not cancelled")
        return self


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
    contextWindow: Annotated[int, Field(ge=1)]
    percent: Price | None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.tokens is None) != (self.percent is None):
            raise ValueError("tokens and percent are known together")
        return self


class Totals(OutputModel):
    """What the whole session has used, whatever was compacted."""

    tokens: Tokens
    cost: Price


class SeedStats(OutputModel):
    """Counts, tokens and cost. What has a default is absent when unknown."""

    sessionFile: NonEmpty = ABSENT
    sessionId: NonEmpty
    userMessages: Count
    assistantMessages: Count
    toolCalls: Count
    toolResults: Count
    totalMessages: Count
    tokens: Tokens
    cost: Price
    contextUsage: ContextUsage = ContextUsage.model_construct(tokens=None, contextWindow=1, percent=None)
    session: Totals = Totals.model_construct()


class Stats(SeedStats):
    """With the totals of the whole session."""

    session: Totals


class Path(OutputModel):
    """Where a file was written."""

    path: NonEmpty


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
    description: str = ABSENT
    source: Literal["extension", "prompt", "skill"]
    location: Literal["user", "project", "path"] = "path"
    path: NonEmpty = ABSENT


class SourceInfo(OutputModel):
    """Where a command comes from, as later generations say it."""

    path: NonEmpty
    source: str
    scope: Literal["user", "project", "temporary"]
    origin: Literal["package", "top-level"]
    baseDir: str = ABSENT


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
    label: NonEmpty = ABSENT
    labelTimestamp: NonEmpty = ABSENT


class Tree(OutputModel):
    """The session as a tree."""

    tree: list[TreeNode]
    leafId: str | None


class Limits(OutputModel):
    """Of a record coming in."""

    recordBytes: Annotated[int, Field(ge=1)]
    nesting: Annotated[int, Field(ge=1)]


class Hello(OutputModel):
    """What the agent is, and which profile is in force."""

    name: NonEmpty
    version: NonEmpty
    protocols: list[Profile]
    protocol: Profile
    commands: list[NonEmpty]
    events: list[NonEmpty]
    limits: Limits
