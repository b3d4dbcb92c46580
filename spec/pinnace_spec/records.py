"""Commands: what a client may write, field by field.

Decides whether a JSON value is a command, and what is wrong with it if not. Validated once, on the way in; the models
are built on first use, since most processes see few kinds. Unknown fields are ignored; null in an optional field equals
absent. Must not know what a command does. Source: the published protocol and its older generations; R-ERR-01 to
R-ERR-04, R-ID-01, R-PRM-06.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from pinnace_spec import errors
from pinnace_spec.messages import QUEUE_MODES, THINKING_LEVELS, ImageContent, QueueMode, ThinkingLevel
from pinnace_spec.wire import JsonValue

# Long enough for any UUID with a prefix; echoed with every response.
MAX_ID_CHARS: Final = 256

Generation = Literal["0.18", "0.5x", "seed", "0.87", "1.5", "ours"]


class CommandError(errors.ClientError):
    """A JSON value that is no command. Knows how it is to be answered: as which command, with which id."""

    def __init__(self, text: str, code: errors.ErrorCode, command: str, id: JsonValue = None, *, has_id: bool) -> None:
        """Keep the answer's parts; without `has_id` it is answered without an id."""
        super().__init__(text, code)
        self.command = command
        self.id = id
        self.has_id = has_id


class CommandModel(BaseModel):
    """What all commands have. `since` and `until` name the generations that know a command."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")
    since: ClassVar[Generation] = "seed"
    until: ClassVar[Generation | None] = None

    type: str
    id: StrictStr | StrictInt | StrictFloat | None = None

    @property
    def has_id(self) -> bool:
        """Whether the client gave an id; null is one."""
        return "id" in self.model_fields_set


def _valid_image(image: ImageContent) -> ImageContent:
    try:
        base64.b64decode(image["data"], validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("data must be base64") from None
    return image


class _Attachment(BaseModel):
    """What the oldest generation calls an image."""

    model_config = ConfigDict(defer_build=True, extra="ignore")
    type: Literal["image", "document"]
    mimeType: StrictStr
    content: StrictStr


Image: TypeAlias = Annotated[ImageContent, AfterValidator(_valid_image)]


class _Text(CommandModel):
    message: StrictStr
    images: list[Image] = Field(default_factory=list)
    attachments: list[_Attachment] = Field(default_factory=list)

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
    protocol: Literal["pi", "seed", "1.5"] | None = None


class Plain(CommandModel):
    """A command without fields of its own."""

    type: Literal[
        "abort_retry",
        "abort_bash",
        "clone",
        "cycle_model",
        "cycle_thinking_level",
        "get_state",
        "get_messages",
        "get_available_models",
        "get_available_thinking_levels",
        "get_session_stats",
        "get_fork_messages",
        "get_branch_messages",
        "get_last_assistant_text",
        "get_commands",
        "get_tree",
    ]


AnyCommand: TypeAlias = CommandModel

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


def _names(model: type[CommandModel]) -> Sequence[str]:
    return cast(Sequence[str], getattr(model.__annotations__["type"], "__args__", ()))


MODELS: Final[Mapping[str, type[CommandModel]]] = {
    name: model for models in (_WITH_FIELDS, (Plain,)) for model in models for name in _names(model)
}
ALL_COMMANDS: Final = tuple(MODELS)

# What is expected of a field, for the error that names it (R-ERR-03). Every field of every command stands here; a test
# compares.
EXPECTED: Final[Mapping[str, str]] = {
    "id": f"a string of at most {MAX_ID_CHARS} characters",
    "message": "a string",
    "images": 'a list of {"type": "image", "data": base64, "mimeType": string}',
    "attachments": 'a list of {"type": "image", "mimeType": string, "content": base64}',
    "streamingBehavior": "'steer' or 'followUp'",
    "queue": "'hold', 'clear' or 'continue'",
    "parentSession": "a string",
    "sessionPath": "a string",
    "entryId": "a string",
    "entryIndex": "an integer",
    "provider": "a string",
    "modelId": "a string",
    "level": f"one of {', '.join(THINKING_LEVELS)}",
    "mode": " or ".join(f"'{mode}'" for mode in QUEUE_MODES),
    "customInstructions": "a string",
    "enabled": "true or false",
    "command": "a string",
    "excludeFromContext": "true or false",
    "outputPath": "a string",
    "name": "a string",
    "since": "a string",
    "protocol": "'pi', 'seed' or '1.5'",
}


def parse_command(value: JsonValue) -> AnyCommand:
    """Return the command that a JSON value is.

    Raises:
        CommandError: It is none, or a field is missing or not as expected; says how that is answered.
    """
    if not isinstance(value, dict):
        text = errors.parse_error(errors.NOT_AN_OBJECT)
        raise CommandError(text, errors.ErrorCode.PARSE_ERROR, errors.PARSE_COMMAND, has_id=False)
    has_id = "id" in value and _is_id(value["id"])
    identity = value.get("id") if has_id else None
    name = value.get("type")
    if not isinstance(name, str):
        text, code = errors.TYPE_MUST_BE_A_STRING, errors.ErrorCode.INVALID_COMMAND
        raise CommandError(text, code, errors.UNKNOWN_COMMAND, identity, has_id=has_id)
    model = MODELS.get(name)
    if model is None:
        text, code = errors.unknown_command(name), errors.ErrorCode.UNKNOWN_COMMAND
        raise CommandError(text, code, name, identity, has_id=has_id)
    if problem := _id_problem(value, has_id=has_id):
        raise _invalid(name, "id", problem, identity, has_id=has_id)
    fields = {key: field for key, field in value.items() if field is not None or key == "id"}
    try:
        command = model.model_validate(fields)
    except ValidationError as error:
        field, problem = _first_problem(error)
        raise _invalid(name, field, problem, identity, has_id=has_id) from None
    if field_problem := _meaning_problem(command):
        raise _invalid(name, *field_problem, identity, has_id=has_id)
    return command


def _is_id(value: JsonValue) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _id_problem(value: Mapping[str, JsonValue], *, has_id: bool) -> str | None:
    return None if has_id or "id" not in value else f"must be {EXPECTED['id']}"


def _invalid(name: str, field: str, problem: str, identity: JsonValue, *, has_id: bool) -> CommandError:
    if (name, field) == ("set_session_name", "name") and problem == "":
        text = errors.SESSION_NAME_EMPTY
    else:
        text = errors.invalid_field(name, field, problem)
    return CommandError(text, errors.ErrorCode.INVALID_FIELD, name, identity, has_id=has_id)


def _first_problem(error: ValidationError) -> tuple[str, str]:
    """Name the first field that is wrong, as a path, and what was expected of it."""
    first = error.errors(include_url=False, include_input=False)[0]
    location = [part for part in first["loc"] if not (isinstance(part, str) and part.startswith("function-"))]
    name = str(location[0])
    path = name + "".join(_steps(location[1:]))
    if first["type"] == "value_error":
        return path, str(first["ctx"]["error"])
    return path, f"must be {EXPECTED[name]}" if len(
        location
    ) == 1 else f"is not as expected: {name} must be {EXPECTED[name]}"


def _steps(location: Sequence[int | str]) -> Iterator[str]:
    for part in location:
        yield f"[{part}]" if isinstance(part, int) else f".{part}"


def _meaning_problem(command: AnyCommand) -> tuple[str, str] | None:
    """Find what no single field's type can say."""
    match command:
        case Prompt() | Steer() | FollowUp() | QueueMessage() if not command.message and not command.content_images:
            return "message", "must not be empty without images"
        case SetSessionName() if not command.name.strip():
            return "name", ""
        case _:
            return None
