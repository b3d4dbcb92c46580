"""The commands of all generations as models, field by field.

The one source of what a command is: the schemas, and the table by which most commands are read (`command_table`), are
generated from it. Types only; the models are built on first use, since most processes see few kinds. Has no access to
the wording of errors (`parsing`) nor to what a command does. Source: the published protocol and its older generations.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from pinnace_spec.profiles.profiles import ClientProfile
from pinnace_spec.records.flat_commands import MAX_MESSAGE_ID_CHARS, FlatCommand
from pinnace_spec.records.messages import (
    ApprovalMode,
    ContextItem,
    FileMethod,
    ImageContent,
    QueueMode,
    TextContent,
    ThinkingLevel,
)
from pinnace_spec.rules.limits import MAX_SESSIONS_LISTED
from pinnace_spec.wire.file_texts import file_text

PlainName = Literal[
    "abort_retry",
    "abort_bash",
    "clone",
    "cycle_model",
    "cycle_thinking_level",
    "get_state",
    "get_messages",
    "get_available_models",
    "get_session_stats",
    "get_fork_messages",
    "get_last_assistant_text",
    "get_commands",
]
OldestPlainName = Literal["get_branch_messages"]
LaterPlainName = Literal["get_available_thinking_levels", "get_tree"]
OwnPlainName = Literal["get_tools"]

Generation = Literal["0.18", "0.5x", "seed", "0.87", "1.5", "ours"]


class CommandModel(BaseModel):
    """What all commands have. `since` and `until` name the generations that know a command."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")
    since: ClassVar[Generation] = "seed"
    until: ClassVar[Generation | None] = None

    id: StrictStr | StrictInt | StrictFloat | None = None

    @property
    def command_name(self) -> str:
        """The value of `type`, which every model narrows to its own names."""
        return str(vars(self)["type"])

    @property
    def has_id(self) -> bool:
        """Whether the client gave an id; null is one."""
        return "id" in self.model_fields_set


def _valid_base64(text: str) -> str:
    # Decoded here only to be checked: it stays text in the session, on the wire and in requests.
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None
    return text


def _valid_image(image: ImageContent) -> ImageContent:
    try:
        _valid_base64(image["data"])
    except ValueError:
        raise ValueError("data must be base64") from None
    return image


class _Attachment(BaseModel):
    """An attachment of a message in the oldest generation: an image, or a document of text."""

    model_config = ConfigDict(defer_build=True, extra="ignore")
    type: Literal["image", "document"]
    mimeType: StrictStr
    content: Annotated[StrictStr, AfterValidator(_valid_base64)]
    fileName: StrictStr | None = None
    extractedText: StrictStr | None = None
    """The text of a document, if the client has found it."""

    @model_validator(mode="after")
    def _document_is_text(self) -> Self:
        # Refused if not: dropping it in silence would lose it.
        if self.type == "document" and self.document is None:
            raise ValueError("must have extractedText: the content of this document is not text in UTF-8")
        return self

    @property
    def document(self) -> str | None:
        """What a model reads of a document; None: there is no text in it."""
        text = self.extractedText
        if not text:
            try:
                text = base64.b64decode(self.content).decode()
            except UnicodeDecodeError:
                return None
        return f"[Document: {self.fileName or 'unnamed'}]\n{text}"


def _named_item(item: ContextItem) -> ContextItem:
    if not item["uri"]:
        raise ValueError("uri must not be empty")
    return item


Image: TypeAlias = Annotated[ImageContent, AfterValidator(_valid_image)]


class _Text(CommandModel):
    message: StrictStr
    images: list[Image] = Field(default_factory=list[Image])
    attachments: list[_Attachment] = Field(default_factory=list[_Attachment])

    @model_validator(mode="after")
    def _read_documents(self) -> Self:
        """Put the text of documents behind the message, as the oldest generation does."""
        documents = [each.document for each in self.attachments if each.type == "document"]
        texts = [self.message, *(each for each in documents if each is not None)]
        vars(self)["message"] = "\n\n".join(text for text in texts if text)  # frozen, but not yet handed out
        return self

    @property
    def content_images(self) -> tuple[ImageContent, ...]:
        """The pictures of the message, whatever the client's generation calls them."""
        attached = (
            ImageContent(type="image", data=attachment.content, mimeType=attachment.mimeType)
            for attachment in self.attachments
            if attachment.type == "image"
        )
        return (*self.images, *attached)

    @property
    def content_blocks(self) -> tuple[TextContent | ImageContent, ...]:
        """The content behind the text: what goes with it as context, then the pictures."""
        return self.content_images


class _Message(_Text):
    """A message that its sender can name, and that texts may go with."""

    context: list[Annotated[ContextItem, AfterValidator(_named_item)]] = Field(default_factory=list[ContextItem])
    messageId: Annotated[StrictStr, Field(min_length=1, max_length=MAX_MESSAGE_ID_CHARS)] | None = None

    @property
    def content_blocks(self) -> tuple[TextContent | ImageContent, ...]:
        """As of every text, with a block for each item of `context`."""
        context = (TextContent(type="text", text=file_text(each["uri"], each["text"])) for each in self.context)
        return (*context, *self.content_images)


class Prompt(_Message):
    """Send a prompt. During a run, `streamingBehavior` determines how the message is queued."""

    type: Literal["prompt"]
    streamingBehavior: Literal["steer", "followUp"] | None = None


class Steer(_Message):
    """Queue a message that is delivered before the model's next answer."""

    type: Literal["steer"]


class FollowUp(_Message):
    """Queue a message that is delivered when the agent would otherwise stop."""

    type: Literal["follow_up"]


class QueueMessage(_Text):
    """The name of `steer` in the oldest generation."""

    since, until = "0.18", "0.18"
    type: Literal["queue_message"]


class ClearQueue(CommandModel):
    """Empty the queues and return their messages."""

    since = "0.87"
    type: Literal["clear_queue"]
    by: Annotated[StrictStr, Field(min_length=1, max_length=MAX_MESSAGE_ID_CHARS)] | None = None


class Abort(CommandModel):
    """Abort the run or the compaction; `queue` determines what happens to queued messages."""

    type: Literal["abort"]
    queue: Literal["hold", "clear", "continue"] = "hold"


class NewSession(CommandModel):
    """Start a new session."""

    type: Literal["new_session"]
    parentSession: StrictStr | None = None


class Reset(CommandModel):
    """The name of `new_session` in the oldest generation."""

    since, until = "0.18", "0.18"
    type: Literal["reset"]


class SwitchSession(CommandModel):
    """Open another session file."""

    type: Literal["switch_session"]
    sessionPath: StrictStr


class Fork(CommandModel):
    """Start a session that ends before a user's message."""

    type: Literal["fork"]
    entryId: StrictStr


class Branch(CommandModel):
    """The name of `fork` in the oldest generation."""

    since, until = "0.18", "0.18"
    type: Literal["branch"]
    entryIndex: StrictInt


class SetModel(CommandModel):
    """Select a model."""

    type: Literal["set_model"]
    provider: StrictStr
    modelId: StrictStr


class SetThinkingLevel(CommandModel):
    """Select a thinking level."""

    type: Literal["set_thinking_level"]
    level: ThinkingLevel


class SetSteeringMode(CommandModel):
    """Set how many steering messages are delivered at once."""

    type: Literal["set_steering_mode"]
    mode: QueueMode


class SetFollowUpMode(CommandModel):
    """Set how many follow-ups are delivered at once."""

    type: Literal["set_follow_up_mode"]
    mode: QueueMode


class SetQueueMode(CommandModel):
    """Set both modes, as in the oldest generation."""

    since, until = "0.18", "0.18"
    type: Literal["set_queue_mode"]
    mode: QueueMode


class Compact(CommandModel):
    """Compact the context: summarise its older part."""

    type: Literal["compact"]
    customInstructions: StrictStr | None = None


class SetAutoCompaction(CommandModel):
    """Turn automatic compaction on or off."""

    type: Literal["set_auto_compaction"]
    enabled: StrictBool


class SetAutoRetry(CommandModel):
    """Turn automatic retry on or off."""

    type: Literal["set_auto_retry"]
    enabled: StrictBool


class Bash(CommandModel):
    """Run a shell command of the client."""

    type: Literal["bash"]
    command: StrictStr
    excludeFromContext: StrictBool = False


class ExportHtml(CommandModel):
    """Write the session as an HTML page."""

    type: Literal["export_html"]
    outputPath: StrictStr | None = None


class SetSessionName(CommandModel):
    """Name the session."""

    type: Literal["set_session_name"]
    name: StrictStr


class GetEntries(CommandModel):
    """Read the session's entries, or those after one of them."""

    since = "0.87"
    type: Literal["get_entries"]
    # `since` is the wire's name; the class variable of that name says which generation knows the command.
    since_entry: StrictStr | None = Field(default=None, alias="since")


class ExtensionUiResponse(CommandModel):
    """Answer a dialog. This command has no response, whatever its content."""

    type: Literal["extension_ui_response"]
    value: object = None
    confirmed: object = None
    cancelled: object = None


class ClientResponse(CommandModel):
    """Answer a request for a file. This command has no response, whatever its content."""

    since = "ours"
    type: Literal["client_response"]
    success: object = None
    content: object = None
    error: object = None
    errorCode: object = None


class SetActiveTools(CommandModel):
    """Select the tools that the next request declares, and no others."""

    since = "ours"
    type: Literal["set_active_tools"]
    names: list[StrictStr]


class SetToolApproval(CommandModel):
    """Choose which tool calls need the user's approval."""

    since = "ours"
    type: Literal["set_tool_approval"]
    mode: ApprovalMode


class SetLabel(CommandModel):
    """Label an entry of the session, or remove its label."""

    since = "ours"
    type: Literal["set_label"]
    entryId: StrictStr
    label: StrictStr | None = None


class NavigateTree(CommandModel):
    """Move the session to another entry: the conversation continues from there, and the branch that is left stays."""

    since = "ours"
    type: Literal["navigate_tree"]
    entryId: StrictStr | None
    summarize: StrictBool = False
    instructions: StrictStr | None = None


class Reload(CommandModel):
    """Read the user's files again: settings, models, keys, resources and extensions. The session stays."""

    since = "ours"
    type: Literal["reload"]


class ListSessions(CommandModel):
    """List saved sessions, those that were written to last first, a page at a time."""

    since = "ours"
    type: Literal["list_sessions"]
    cwd: StrictStr | None = None
    all: StrictBool = False
    cursor: StrictStr | None = None
    limit: Annotated[StrictInt, Field(ge=1, le=MAX_SESSIONS_LISTED)] | None = None


class GetQueue(CommandModel):
    """List the queued messages and, on request, those that were returned to clients."""

    since = "ours"
    type: Literal["get_queue"]
    returned: StrictBool = False


class Hello(CommandModel):
    """Identify the agent; as the first command, select the profile."""

    since = "ours"
    type: Literal["hello"]
    protocol: ClientProfile | None = None
    delegate: list[FileMethod] | None = None
    directories: list[StrictStr] | None = None


class Plain(CommandModel):
    """A command without fields of its own. For the schema; reading one needs no model (`flat_commands`)."""

    type: PlainName


class OldestPlain(CommandModel):
    """The same, of the oldest generation alone."""

    since, until = "0.18", "0.18"
    type: OldestPlainName


class LaterPlain(CommandModel):
    """The same, of later generations."""

    since = "0.87"
    type: LaterPlainName


class OwnPlain(CommandModel):
    """The same, of pinnace alone."""

    since = "ours"
    type: OwnPlainName


AnyCommand: TypeAlias = CommandModel | FlatCommand

_WITH_FIELDS: Final[tuple[type[CommandModel], ...]] = (
    Prompt,
    Steer,
    FollowUp,
    QueueMessage,
    ClearQueue,
    Abort,
    NewSession,
    Reset,
    SwitchSession,
    Fork,
    Branch,
    SetModel,
    SetThinkingLevel,
    SetSteeringMode,
    SetFollowUpMode,
    SetQueueMode,
    Compact,
    SetAutoCompaction,
    SetAutoRetry,
    Bash,
    ExportHtml,
    SetSessionName,
    GetEntries,
    ExtensionUiResponse,
    ClientResponse,
    Hello,
    SetActiveTools,
    SetToolApproval,
    SetLabel,
    NavigateTree,
    Reload,
    ListSessions,
    GetQueue,
)
_WITHOUT_FIELDS: Final[tuple[type[CommandModel], ...]] = (Plain, OldestPlain, LaterPlain, OwnPlain)


def _names(model: type[CommandModel]) -> Sequence[str]:
    return cast(Sequence[str], getattr(model.__annotations__["type"], "__args__", ()))


MODELS: Final[Mapping[str, type[CommandModel]]] = {
    name: model for models in (_WITH_FIELDS, _WITHOUT_FIELDS) for model in models for name in _names(model)
}
ALL_COMMANDS: Final = tuple(MODELS)
