"""The data of the commands that read: state, messages, models, totals, entries, and `hello`.

Types, and what fields of one answer must not contradict. Must not know what a command does. Source: the published
protocol, its older and later generations, R-ORD-02, R-HEL-01.
"""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.events import EVENTS, AgentInfo, AgentWarning, McpServer, SessionEntry
from pinnace_spec.records.flat_commands import COMMAND_NAMES
from pinnace_spec.records.messages import ApprovalMode, KeySource, LoginKind, Model, QueueMode, ThinkingLevel
from pinnace_spec.records.output_model import AnyMessage, Count, NonEmpty, OutputModel, Positive, SeedMessage
from pinnace_spec.records.surface_items import ItemKind

# Of the generations that `hello` may choose beside those with models.
_OLDER_EVENTS = ("auto_compaction_start", "auto_compaction_end")

Amount: TypeAlias = Annotated[float, Field(ge=0)]


class SessionStatus(OutputModel):
    """The state of the session file (R-SES-07, R-SES-08). An absent field means that there is nothing to report."""

    saved: bool
    """Whether every entry is in the file; always true for a session in memory."""
    problem: NonEmpty | None = None
    """The reason if it is false, and a remedy."""
    unsavedEntries: Positive | None = None
    foreignEntries: Positive | None = None
    """Lines that another program has written while the session was open here."""
    damagedLines: Positive | None = None
    orphans: Positive | None = None
    """Entries without their parent; they follow the entry before them."""
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
    """A prompt that a crash interrupted: no orderly end of a run leaves this state (R-SES-07)."""

    entryId: str
    """The id of the user's message."""
    text: str
    """Its first 200 characters."""
    during: Literal["answer", "tools"]
    """The interrupted phase: the model's answer, or the tools."""
    cutCalls: list[CutCall]
    """Calls without a result. The tools may have begun, and may have had effects."""


class SandboxState(OutputModel):
    """The sandbox of commands (R-SBX-01)."""

    mode: Literal["workspace-write", "read-only"]
    network: Literal["off", "on"]
    mechanism: Literal["bubblewrap", "landlock", "seatbelt"]
    version: NonEmpty
    writable: list[NonEmpty]
    """The folders that commands can write, beside temporary files of their own; none in the mode read-only."""
    limits: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    """What this mechanism does not enforce, or what does not work inside."""
    problem: NonEmpty | None = None
    """Something protected that changed while a command ran."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.mode == "read-only" and self.writable:
            raise ValueError("nothing is writable in the mode read-only")
        return self


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


class LeftOutExtension(OutputModel):
    """An extension that the session would have, and that is not loaded."""

    path: NonEmpty
    """Its file or folder, or the name by which it was asked for."""
    reason: NonEmpty


class ItemRenderer(OutputModel):
    """What an extension draws of the conversation: the items of one kind and one name."""

    kind: ItemKind
    name: NonEmpty
    """The name of the tool, or `*` for all without a renderer of this kind; the custom type; whose Markdown it is."""
    framed: bool
    """Whether the client puts it into the frame that its own items of this kind have."""


class SeedState(_State):
    """As published."""


class State(_State):
    """The state of the agent, with the fields that pinnace adds and those of the oldest generation."""

    isBashRunning: bool
    sessionStatus: SessionStatus
    queueMode: QueueMode
    queuedMessageCount: Count
    queuePaused: bool
    """Whether messages are queued that wait for the next accepted message: after an `abort`, and after a restart."""
    pid: Count
    cwd: NonEmpty
    projectTrusted: bool
    extensionsAtWork: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    """The paths of the extensions with a background task that runs; a host lets such an agent not sleep."""
    mcpServers: Annotated[list[McpServer], Field(min_length=1)] | None = None
    """The MCP servers of the session, each as its last `mcp_status` has it; absent without servers."""
    warnings: Annotated[list[AgentWarning], Field(min_length=1)] | None = None
    """The warnings that hold now, the oldest first; absent without any."""
    extensionsLeftOut: Annotated[list[LeftOutExtension], Field(min_length=1)] | None = None
    """The extensions that were found or named and are not loaded: one of them may be a gate. Absent without any."""
    itemRenderers: Annotated[list[ItemRenderer], Field(min_length=1)] | None = None
    """The items of the conversation that extensions draw, for a client that draws surfaces; absent without any."""
    toolApproval: ApprovalMode
    """Which tool calls need the user's approval."""
    sandbox: SandboxState | None = None
    """Present while commands run in one."""
    interrupted: Interruption | None = None
    """The prompt that a crash interrupted, until the next run begins."""

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
    """How full the context is; null just after a compaction, when it is unknown."""

    tokens: Count | None
    contextWindow: Positive
    percent: Amount | None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.tokens is None) != (self.percent is None):
            raise ValueError("tokens and percent are known together")
        return self


class Totals(OutputModel):
    """Messages and usage of the whole session: of all branches, compacted parts included."""

    userMessages: Count
    assistantMessages: Count
    toolCalls: Count
    toolResults: Count
    totalMessages: Count
    tokens: Tokens
    cost: Amount


MissReason: TypeAlias = Literal["model", "expired", "thinking", "tools", "context", "unknown"]


class _Missed(OutputModel):
    missCount: Annotated[int, Field(ge=0, description="How many requests missed something.")]
    missedTokens: Annotated[int, Field(ge=0, description="Tokens that they paid for again.")]
    missedCost: Annotated[float, Field(ge=0, description="USD more than reading them from the cache.")]


class MissedFor(_Missed):
    """What a cache missed for one reason."""

    reason: MissReason
    """Another model, a pause longer than a cache keeps, another thinking level, an edited context, or not known."""


class CacheMisses(_Missed):
    """What requests paid for again although a cache had it, and why."""

    reasons: list[MissedFor]
    """What adds up to it."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.missCount != sum(each.missCount for each in self.reasons):
            raise ValueError("missCount must be the sum of the reasons")
        if self.missedTokens != sum(each.missedTokens for each in self.reasons):
            raise ValueError("missedTokens must be the sum of the reasons")
        return self


class CacheWarming(OutputModel):
    """What requests have used that only kept a provider's cache alive. It is a part of the totals."""

    requests: Count
    """How many were sent."""
    tokens: Tokens
    cost: Amount
    """US dollars."""


class _OfSession(OutputModel):
    sessionFile: NonEmpty | None = None
    sessionId: NonEmpty


class _Stats(Totals, _OfSession):
    contextUsage: ContextUsage | None = None


class SeedStats(_Stats):
    """As published."""


class Stats(_Stats):
    """With the totals of the whole session, and what its requests missed of a cache."""

    session: Totals
    cacheMisses: CacheMisses
    """Of the whole session (R-STA-11). What was read from a cache is in `session.tokens.cacheRead`."""
    cacheWarming: CacheWarming
    """Of the whole session (R-STA-12), and in its totals, too."""


class ForkMessage(OutputModel):
    """A user's message that can be forked from."""

    entryId: NonEmpty
    text: NonEmpty


class ForkMessages(OutputModel):
    """The messages that can be forked from."""

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
    """A command, template or skill that a prompt can name after a slash."""

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
    argumentHint: str | None = None
    """Of a template: what its author says about its arguments."""


class SeedCommands(OutputModel):
    """Extensions' commands, templates, skills."""

    commands: list[SeedCommandInfo]


class Commands(OutputModel):
    """Extensions' commands, templates, skills."""

    commands: list[CommandInfo]


class ShortcutInfo(OutputModel):
    """A key that an extension has registered."""

    key: NonEmpty
    """In lower case, modifiers first: `ctrl+shift+p`, `f5`, `pageup`."""
    description: str | None = None
    """What it does, in the words of the extension."""
    path: NonEmpty
    """The extension."""


class Shortcuts(OutputModel):
    """Of several with one key, the last one is run."""

    shortcuts: list[ShortcutInfo]


class ShortcutRun(OutputModel):
    """Whether the function of a key was started."""

    started: bool
    """False: no extension has this key now."""


class CompletionInfo(OutputModel):
    """A completion of the arguments of a command."""

    value: str
    """What takes the place of the prefix."""
    label: str | None = None
    """What a list shows in its place."""
    description: str | None = None
    """What it is, in the words of the extension."""


class Completions(OutputModel):
    """What an extension offers for the arguments of its command, or for the text of the editor."""

    completions: list[CompletionInfo]
    """In the order of the extension; none if nothing completes them."""
    prefix: str | None = None
    """The end of the text before the cursor that the completions take the place of; absent: the whole prefix."""


class ToolInfo(OutputModel):
    """A tool of the agent or of an extension."""

    name: NonEmpty
    description: str
    parameters: dict[str, object]
    """The JSON schema of its arguments, as models receive it."""
    sourceInfo: SourceInfo
    """Where it comes from; `source` of a built-in tool is `builtin`."""
    active: bool
    """Whether the next request declares it."""


class Tools(OutputModel):
    """Every tool, active or not, in the order in which models receive them."""

    tools: list[ToolInfo]


class QueuedMessage(OutputModel):
    """A message that waits in a queue."""

    messageId: NonEmpty
    kind: Literal["steer", "followUp"]
    """The queue that it waits in."""
    text: str
    """The message as it is delivered: extensions have read it, and templates are expanded."""
    imageCount: Count
    """The number of its images."""


class ReturnedMessage(QueuedMessage):
    """A message that was returned to a client."""

    reason: Literal["clear_queue", "abort", "session_replaced", "agent_ended"]
    """What has returned it; `agent_ended`: to the agent that had started this one as a sub-agent, when that ended."""
    by: NonEmpty | None = None
    """The command that has returned it: its `by`, or its id; absent if it had none. A host gives ids of its own."""


class Queue(OutputModel):
    """The queued messages, steering messages first, in the order in which they are delivered."""

    messages: list[QueuedMessage]
    """The queued messages."""
    paused: bool
    """Whether they wait for the next accepted message."""
    returned: list[ReturnedMessage] | None = None
    """With `returned: true`: every message of the session file that was returned, in the order in which they were."""


class Agents(OutputModel):
    """The sub-agents of a session."""

    agents: list[AgentInfo]
    """In the order in which they began."""


class ProviderSetting(OutputModel):
    """A setting of a provider, such as its account or region."""

    name: NonEmpty
    """The variable."""
    about: NonEmpty
    """What its value is."""
    isSet: bool
    """Whether the entry of auth.json or the environment has it."""
    isAsked: bool
    """Whether a client asks its user for it at a login; not what is set, nor what few need."""


class ProviderAuth(OutputModel):
    """The credentials of a provider, as this process uses them; never a secret."""

    provider: NonEmpty
    source: KeySource | None
    """The first source that has some; null: there are none. `auth.json`, `models.json` and `variable` have a key,
    `login` is one of auth.json, `header` one of models.json that carries a key, `google` application default
    credentials, and `option` the key of `--api-key`."""
    isUsable: bool
    """Whether a request would have credentials, as far as is known without running a command or asking a server."""
    needsCommand: bool
    """Whether the key is what a command prints; it was not run."""
    variables: list[NonEmpty]
    """The variables that may hold a key."""
    methods: list[LoginKind]
    """How `login` logs in to it."""
    variable: NonEmpty | None = None
    """The variable that is the source, or that the entry of auth.json has in place of a key."""
    settings: list[ProviderSetting] | None = None
    """What `login` stores beside a key, by its field `settings`; absent: the provider has none."""
    needsKey: Literal[False] | None = None
    """False: a `login` with `settings` may leave the key out, since a cloud has other credentials."""
    expiresAt: Count | None = None
    """Of a login: when its token expires, in milliseconds since the epoch. One that can be refreshed is."""
    problem: NonEmpty | None = None
    """Why the source can't be used."""


class AuthStatuses(OutputModel):
    """The credentials of providers."""

    providers: list[ProviderAuth]
    """In the order of the catalog; then those of which auth.json alone knows."""


class SessionInfo(OutputModel):
    """A saved session."""

    id: NonEmpty
    path: NonEmpty
    """The path of its file, for `switch_session`."""
    cwd: str
    """Its working folder; empty if an old header has none."""
    name: NonEmpty | None = None
    created: str
    """When it was created, as its header says."""
    modified: Count
    """The time of the last message of the user or a model, in milliseconds since the epoch."""
    messageCount: Count
    """The number of its messages, on all branches."""
    firstMessage: str
    """The first text of the user that is not empty, cut after 1,000 characters."""
    parentSession: NonEmpty | None = None
    """The path of the session that it was forked from."""


class Sessions(OutputModel):
    """A page of saved sessions, those that were written to last first."""

    sessions: list[SessionInfo]
    """The sessions; a page may have fewer than `limit` and still not be the last one."""
    nextCursor: NonEmpty | None = None
    """What the next page is requested with; absent on the last page."""


class Navigation(OutputModel):
    """What has become of a move to another entry."""

    cancelled: bool
    """Whether the session has stayed where it was: an extension has refused the move, or it was aborted."""
    aborted: bool | None = None
    """Whether an `abort`, another command or the end of the process has cancelled it; absent if nothing has."""
    leafId: NonEmpty | None = None
    """The entry that the conversation ends with now, as in `get_entries`; absent if it was cancelled, or there is
    none."""
    editorText: str | None = None
    """The text of the user's message, or of an extension's, that was moved to, to be sent anew: the conversation ends
    before it. Absent for other entries."""
    summaryEntry: SessionEntry | None = None
    """The entry with the summary of the branch that was left; absent without one."""


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
    """The bounds of incoming records, and of single commands and answers (R-LIM-04)."""

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
    """The number of `bash` commands that run at once; further ones wait."""


class McpSupport(OutputModel):
    """Whether MCP servers can be used, and how many the session has."""

    installed: bool
    """Whether the package that speaks the protocol is there."""
    servers: Count


class SeedHello(OutputModel):
    """The identity of the agent, and the current profile. Commands and events are those of this specification."""

    name: NonEmpty
    version: NonEmpty
    protocols: list[ClientProfile]
    protocol: ClientProfile
    commands: list[NonEmpty]
    events: list[NonEmpty]
    limits: Limits
    mcp: McpSupport

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.protocol not in self.protocols:
            raise ValueError("protocol must be one of protocols")
        if unheard := {*self.commands, *self.events} - {*COMMAND_NAMES, *EVENTS["pi"], *_OLDER_EVENTS}:
            raise ValueError(f"not in the specification: {', '.join(sorted(unheard))}")
        return self


class Hello(SeedHello):
    """The same, with the sandbox and the additional folders."""

    sandbox: SandboxState | None = None
    """Present while commands run in one."""
    directories: list[str] | None = None
    """Present if the command has named some."""
