"""The commands of all generations as models, field by field.

Types only; the models are built on first use, since most processes see few kinds, and most commands of those are read
without (`flat_commands`). Must not know how a violation is worded (`records`) nor what a command does. Source: the
published protocol and its older generations.
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

from pinnace_spec.flat_commands import FlatCommand
from pinnace_spec.messages import ImageContent, QueueMode, ThinkingLevel
from pinnace_spec.plain_commands import LaterPlainName, OldestPlainName, PlainName
from pinnace_spec.profiles import ClientProfile

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
    """What the oldest generation attaches to a text: an image, or a document that is text."""

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


class Prompt(_Text):
    """Ask the agent. While it works, `streamingBehavior` says how the text is queued."""

    type: Literal["prompt"]
    streamingBehavior: Literal["steer", "followUp"] | None = None


class Steer(_Text):
    """Queue a text for the next request."""

    type: Literal["steer"]


class FollowUp(_Text):
    """Queue a text for when the agent would stop."""

    type: Literal["follow_up"]


class QueueMessage(_Text):
    """`steer` as the oldest generation names it."""

    since, until = "0.18", "0.18"
    type: Literal["queue_message"]


class ClearQueue(CommandModel):
    """Withdraw what is queued."""

    since = "0.87"
    type: Literal["clear_queue"]


class Abort(CommandModel):
    """End what works; `queue` says what becomes of queued texts."""

    type: Literal["abort"]
    queue: Literal["hold", "clear", "continue"] = "hold"


class NewSession(CommandModel):
    """Start a new session."""

    type: Literal["new_session"]
    parentSession: StrictStr | None = None


class Reset(CommandModel):
    """`new_session` as the oldest generation names it."""

    since, until = "0.18", "0.18"
    type: Literal["reset"]


class SwitchSession(CommandModel):
    """Open another session file."""

    type: Literal["switch_session"]
    sessionPath: StrictStr


class Fork(CommandModel):
    """Start a session from before a user's message."""

    type: Literal["fork"]
    entryId: StrictStr


class Branch(CommandModel):
    """`fork` as the oldest generation names it."""

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
    """Set how many steering texts a delivery takes."""

    type: Literal["set_steering_mode"]
    mode: QueueMode


class SetFollowUpMode(CommandModel):
    """Set how many follow-ups a delivery takes."""

    type: Literal["set_follow_up_mode"]
    mode: QueueMode


class SetQueueMode(CommandModel):
    """Set both modes, as in the oldest generation."""

    since, until = "0.18", "0.18"
    type: Literal["set_queue_mode"]
    mode: QueueMode


class Compact(CommandModel):
    """Summarise the conversation."""

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
    """Write the session as a page."""

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
    """Answer a dialog. Never answered itself, whatever stands in it."""

    type: Literal["extension_ui_response"]
    value: object = None
    confirmed: object = None
    cancelled: object = None


class Hello(CommandModel):
    """Ask what the agent is; as the first command, choose the profile."""

    since = "ours"
    type: Literal["hello"]
    protocol: ClientProfile | None = None


class Plain(CommandModel):
    """A command without fields of its own. For the schema; reading one needs no model (`plain_commands`)."""

    type: PlainName


class OldestPlain(CommandModel):
    """The same, of the oldest generation alone."""

    since, until = "0.18", "0.18"
    type: OldestPlainName


class LaterPlain(CommandModel):
    """The same, of later generations."""

    since = "0.87"
    type: LaterPlainName


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
    Hello,
)
_WITHOUT_FIELDS: Final[tuple[type[CommandModel], ...]] = (Plain, OldestPlain, LaterPlain)


def _names(model: type[CommandModel]) -> Sequence[str]:
    return cast(Sequence[str], getattr(model.__annotations__["type"], "__args__", ()))


MODELS: Final[Mapping[str, type[CommandModel]]] = {
    name: model for models in (_WITH_FIELDS, _WITHOUT_FIELDS) for model in models for name in _names(model)
}
ALL_COMMANDS: Final = tuple(MODELS)
