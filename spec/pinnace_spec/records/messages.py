"""Messages, content blocks, usage and models: the shapes that memory, session files and the wire share.

Plain dicts typed by TypedDict, so that a message is never converted between the provider, the session and the
client. Absent means absent: a key that is `NotRequired` is left out, never null, unless its type says so.
Wire names, since these dicts are the wire's. Must not import pydantic (start-up time) nor know who produces
or stores a message.

Source: R-MSG-01 (roles), R-MSG-02 (blocks), R-MSG-03 (usage), R-MSG-04 (model).
"""

from typing import Final, Literal, NotRequired, TypeAlias, get_args

from typing_extensions import TypedDict

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]
QueueMode = Literal["all", "one-at-a-time"]
ApprovalMode = Literal["never", "ask", "read-only"]
LoginKind = Literal["key", "device-code", "browser", "extension"]
KeySource = Literal["option", "auth.json", "models.json", "header", "variable", "login", "google"]
"""Where the credentials of a provider come from; `option`: `--api-key`. `header`: one of models.json that carries a
key. `login`: one of auth.json. `google`: application default credentials."""
ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
InputKind = Literal["text", "image"]
McpState = Literal["disabled", "starting", "connecting", "connected", "disconnected", "failed", "needs-auth", "closed"]
"""The state of an MCP server; `closed`: the session has it no more."""
McpSource = Literal["client", "project", "user", "extension"]
"""What has configured it."""
WarningKind = Literal[
    "extension",
    "project_trust",
    "settings",
    "models",
    "credentials",
    "resources",
    "mcp",
    "sandbox",
    "session",
    "tools",
    "telemetry",
]
"""What a warning is about; `resources`: skills, templates and context files."""
SessionChange = Literal["new", "resume", "fork", "navigate", "takeover"]
"""Why reads show another conversation; `fork`: also by `clone`; `takeover`: it continues what another process wrote."""
ChangeOrigin = Literal["client", "extension"]
"""What has asked for that."""
DialogMethod = Literal["select", "confirm", "input", "editor"]
"""A question of an extension to the user, which waits for an answer."""
ASKED_BY: Final = "\n\nAsked by the sub-agent "
"""Before the id of a sub-agent at the end of its question, which the user of the agent above it is asked."""
DIALOG_METHODS: Final[frozenset[str]] = frozenset(get_args(DialogMethod))
ResolvedReason = Literal["answered", "timeout", "cancelled"]
"""Why a dialog is over; `answered`: by another client of a durable agent."""
FileMethod = Literal["read_text_file", "write_text_file"]
"""What a client may offer to do with files on behalf of the agent."""
SurfacePlace = Literal["editor", "input", "overlay", "header", "footer", "aboveEditor", "belowEditor", "keys"]
"""Where a client draws a surface of an extension; `keys` is not drawn: an extension sees the keys first."""
OWN_EDITOR: Final = "editor"
"""The surface that is the client's own editor."""
SurfaceAnchor = Literal[
    "center",
    "top-left",
    "top-right",
    "bottom-left",
    "bottom-right",
    "top-center",
    "bottom-center",
    "left-center",
    "right-center",
]
"""To which part of the screen an overlay is attached."""

STOP_REASONS: Final[tuple[StopReason, ...]] = get_args(StopReason)
QUEUE_MODES: Final[tuple[QueueMode, ...]] = get_args(QueueMode)
FILE_METHODS: Final[tuple[FileMethod, ...]] = get_args(FileMethod)
APPROVAL_MODES: Final[tuple[ApprovalMode, ...]] = get_args(ApprovalMode)
# From least to most: clamping looks upwards first, then downwards, in this order.
THINKING_LEVELS: Final[tuple[ThinkingLevel, ...]] = get_args(ThinkingLevel)


class TextContent(TypedDict):
    """Text for a model, or from a model."""

    type: Literal["text"]
    text: str
    textSignature: NotRequired[str]


class ContextItem(TypedDict):
    """A text that goes with a message of the user, such as a file that an editor has open."""

    uri: str
    text: str
    mimeType: NotRequired[str | None]


class ThinkingContent(TypedDict):
    """The thoughts of a model before its answer; the signature belongs to the provider and is kept unchanged."""

    type: Literal["thinking"]
    thinking: str
    thinkingSignature: NotRequired[str]
    redacted: NotRequired[bool]


class ImageContent(TypedDict):
    """An image for a model."""

    type: Literal["image"]
    data: str
    """Base64, standard alphabet, padded."""
    mimeType: str


class ToolCall(TypedDict):
    """A call of a tool by a model."""

    type: Literal["toolCall"]
    id: str
    name: str
    arguments: dict[str, object]
    argumentsError: NotRequired[str]
    """Why `arguments` is empty although the model sent some: they were no JSON object."""
    thoughtSignature: NotRequired[str]


UserContent: TypeAlias = TextContent | ImageContent
AssistantContent: TypeAlias = TextContent | ThinkingContent | ToolCall


class Cost(TypedDict):
    """US dollars."""

    input: float
    output: float
    cacheRead: float
    cacheWrite: float
    total: float
    totalFromProvider: NotRequired[bool]
    """Whether the provider reported `total`; in sessions of the newest generation."""


class Usage(TypedDict):
    """Tokens of one request to a model. `input` excludes what was read from or written to a cache."""

    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    totalTokens: int
    cost: Cost
    reasoning: NotRequired[int]
    """The part of `output` spent on thinking, where the provider reports."""
    cacheWrite1h: NotRequired[int]


class UserMessage(TypedDict):
    """A message of the user: a prompt, a steering message or a follow-up."""

    role: Literal["user"]
    content: list[TextContent | ImageContent] | str
    """Written as a list; a string is read from old sessions."""
    timestamp: int
    """Milliseconds since the epoch, as in every message."""


FailureCode = Literal[
    "unreachable",
    "connection_lost",
    "timeout",
    "bad_address",
    "bad_answer",
    "authentication",
    "not_found",
    "rate_limited",
    "quota",
    "server_error",
    "rejected",
    "context_overflow",
    "provider_error",
    "no_model",
    "no_credentials",
    "unsupported_api",
    "not_saved",
]
"""Why a request to a model has failed. `provider_error`: what the provider says fits none of the others."""


class AssistantMessage(TypedDict):
    """One answer of a model, complete or partial."""

    role: Literal["assistant"]
    content: list[TextContent | ThinkingContent | ToolCall]
    api: str
    provider: str
    model: str
    usage: Usage
    stopReason: StopReason
    """Only meaningful once the message has ended; `stop` until then."""
    timestamp: int
    errorMessage: NotRequired[str]
    errorCode: NotRequired[FailureCode]
    """With stopReason `error`: why, for programs."""
    status: NotRequired[int]
    """Likewise: what HTTP said, where it did."""
    attempts: NotRequired[int]
    """Likewise: how often the request was sent, this failure included."""
    responseId: NotRequired[str]
    responseModel: NotRequired[str]
    rawStopReason: NotRequired[str]
    thinkingLevel: NotRequired[ThinkingLevel]
    providerThinkingLevel: NotRequired[str]
    durationMs: NotRequired[int]


class ToolResultMessage(TypedDict):
    """The result of one call of a tool."""

    role: Literal["toolResult"]
    toolCallId: str
    toolName: str
    content: list[TextContent | ImageContent]
    details: NotRequired[object]
    """For clients and extensions, never sent to a model."""
    structuredContent: NotRequired[object]
    """What `content` says, for programs; of tools of extensions."""
    isError: bool
    timestamp: int
    usage: NotRequired[Usage]
    durationMs: NotRequired[int]


class BashExecutionMessage(TypedDict):
    """A shell command that the client ran with `bash`."""

    role: Literal["bashExecution"]
    command: str
    output: str
    exitCode: NotRequired[int]
    """Absent when the command was cancelled."""
    cancelled: bool
    truncated: bool
    fullOutputPath: NotRequired[str | None]
    timestamp: int
    excludeFromContext: NotRequired[bool]


class CustomMessage(TypedDict):
    """A message of an extension; a model reads it as a message of the user."""

    role: Literal["custom"]
    customType: str
    content: list[TextContent | ImageContent] | str
    display: bool
    details: NotRequired[object]
    timestamp: int


class BranchSummaryMessage(TypedDict):
    """The summary of a branch that was left."""

    role: Literal["branchSummary"]
    summary: str
    fromId: str
    timestamp: int


class CompactionSummaryMessage(TypedDict):
    """The summary of everything that a compaction removed from the context."""

    role: Literal["compactionSummary"]
    summary: str
    tokensBefore: int
    timestamp: int


Message: TypeAlias = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
)


class PriceTier(TypedDict):
    """Prices of a whole request whose input is larger than `inputTokensAbove`."""

    inputTokensAbove: int
    input: float
    output: float
    cacheRead: float
    cacheWrite: float


class ModelCost(TypedDict):
    """US dollars per million tokens."""

    input: float
    output: float
    cacheRead: float
    cacheWrite: float
    tiers: NotRequired[list[PriceTier]]


class Model(TypedDict):
    """A model as clients see it. Never holds keys or headers."""

    id: str
    name: str
    api: str
    provider: str
    baseUrl: str
    reasoning: bool
    input: list[InputKind]
    cost: ModelCost
    contextWindow: int
    maxTokens: int
    compat: NotRequired[dict[str, object]]
    thinkingLevelMap: NotRequired[dict[str, object]]
    """Level to what the provider calls it; null: not supported."""
    inputLimits: NotRequired[dict[str, object]]
    promptCache: NotRequired[dict[str, object]]
    samplingParams: NotRequired[dict[str, object]]
    samplingParamsByThinkingLevel: NotRequired[dict[str, object]]


def zero_usage() -> Usage:
    """Make the usage of a message that cost nothing (yet); every caller gets its own."""
    cost: Cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    return {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": cost}
