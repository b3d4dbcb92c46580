"""What a session file of the current version looks like: a judge of whole files, strict where readers are tolerant.

Pure, on bytes. Loads pydantic, so the agent must not import it: it writes plain dicts (`entries`), and this says
whether they were right. Files of other programs are judged by what they must have; ours (`is_closed`) also by what they
must not. Source: R-MSG-01, R-MSG-02, R-MSG-03.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, NotRequired, TypeAlias, TypeGuard

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from pinnace_spec.records.entries import ENTRY_TYPES
from pinnace_spec.records.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from pinnace_spec.wire.json_text import WireError, decode_line

NonEmpty: TypeAlias = Annotated[str, Field(min_length=1)]
Timestamp: TypeAlias = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$")]
SessionId: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]


class Header(TypedDict):
    """The first line."""

    type: Literal["session"]
    version: Literal[3]
    id: SessionId
    timestamp: Timestamp
    cwd: str
    parentSession: NotRequired[NonEmpty]


class EntryBase(TypedDict):
    """What every entry has beside its type."""

    id: NonEmpty
    parentId: NonEmpty | None
    timestamp: Timestamp


class UnknownEntry(EntryBase):
    """An entry of a type that only other programs know."""

    type: NonEmpty


class MessageEntry(EntryBase):
    """A message as it was sent or received. Its role decides what it has."""

    type: Literal["message"]
    message: dict[str, object]
    messageId: NotRequired[NonEmpty]
    """Of a message of the user; pi writes none."""


class ModelChange(EntryBase):
    """From here on another model answers."""

    type: Literal["model_change"]
    provider: NonEmpty
    modelId: NonEmpty


class ThinkingLevelChange(EntryBase):
    """From here on models think more, or less."""

    type: Literal["thinking_level_change"]
    thinkingLevel: NonEmpty


class Compaction(EntryBase):
    """Stands for what was said before, but for what it kept."""

    type: Literal["compaction"]
    summary: str
    firstKeptEntryId: NonEmpty
    tokensBefore: Annotated[int, Field(ge=0)]
    details: NotRequired[object]
    fromHook: NotRequired[bool]
    usage: NotRequired[Usage]
    systemMessage: NotRequired[dict[str, object]]


class BranchSummary(EntryBase):
    """Stands for a branch that was left. `fromId` may name an entry that a copy no longer has."""

    type: Literal["branch_summary"]
    fromId: NonEmpty
    summary: str
    details: NotRequired[object]
    fromHook: NotRequired[bool]
    usage: NotRequired[Usage]


class Custom(EntryBase):
    """What an extension keeps."""

    type: Literal["custom"]
    customType: str
    data: NotRequired[object]


class CustomMessageEntry(EntryBase):
    """What an extension says to the model."""

    type: Literal["custom_message"]
    customType: str
    content: str | list[TextContent | ImageContent]
    display: bool
    details: NotRequired[object]


class LabelEntry(EntryBase):
    """A bookmark; without a label it is taken away."""

    type: Literal["label"]
    targetId: NonEmpty
    label: NotRequired[str]


class SessionInfoEntry(EntryBase):
    """The session's name; an empty one takes it away."""

    type: Literal["session_info"]
    name: NotRequired[str]


class Replacement(TypedDict):
    """What a model reads in the place of a message's content."""

    content: str | list[dict[str, object]]


class ContextEdit(EntryBase):
    """Changes what a model reads of another entry, or hides it."""

    type: Literal["context_edit"]
    targetId: NonEmpty
    replacement: Replacement | None


class UsageEntry(EntryBase):
    """What was spent without a message."""

    type: Literal["usage"]
    kind: NonEmpty
    provider: str
    model: str
    usage: Usage
    note: NotRequired[str]


class SystemMessage(TypedDict):
    """The system prompt as it was in force, or what changed in it. Other programs store it."""

    role: Literal["system"]
    content: str | list[dict[str, object]]
    sections: NotRequired[dict[str, str | None]]
    toolsAdded: NotRequired[list[object]]
    toolsRemoved: NotRequired[list[object]]
    timestamp: int


StoredMessage: TypeAlias = Annotated[
    UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage | CustomMessage | SystemMessage,
    Field(discriminator="role"),
]
STORED_ROLES: Final = ("user", "assistant", "toolResult", "bashExecution", "custom", "system")
KnownEntry: TypeAlias = Annotated[
    MessageEntry
    | ModelChange
    | ThinkingLevelChange
    | Compaction
    | BranchSummary
    | Custom
    | CustomMessageEntry
    | LabelEntry
    | SessionInfoEntry
    | ContextEdit
    | UsageEntry,
    Field(discriminator="type"),
]
# Fields that name another entry of the file.
_REFERENCES: Final = (("label", "targetId"), ("context_edit", "targetId"), ("compaction", "firstKeptEntryId"))
# Known to newer programs only, and stored by them; no answer ends so on the wire.
_STORED_STOP_REASON: Final = "deferred"


def validate_session(data: bytes, *, is_closed: bool = False) -> list[str]:
    """Return what is wrong with a session file of the current version; nothing if all is well.

    Args:
        data: The whole file.
        is_closed: Whether fields, types of entries and roles that are unknown here are faults too.
    """
    return list(_problems(data, _CLOSED if is_closed else _OPEN))


class _Checks:
    """The models, either with or without room for what is unknown."""

    def __init__(self, *, is_closed: bool) -> None:
        self.is_closed = is_closed
        config = ConfigDict(strict=True, extra="forbid" if is_closed else "allow")
        # In a union, since pydantic hands a configuration down to a TypedDict, but takes none for it alone.
        self.header = TypeAdapter[object](Header | None, config=config)
        self.entry = TypeAdapter[object](KnownEntry, config=config)
        self.unknown_entry = TypeAdapter[object](UnknownEntry | None, config=config)
        self.message = TypeAdapter[object](StoredMessage, config=config)


def _problems(data: bytes, checks: _Checks) -> Iterator[str]:
    if not data:
        yield "the file is empty"
        return
    lines = data.split(b"\n")
    if lines.pop() != b"":
        yield "the last line has no end"
        lines = data.split(b"\n")
    ids: set[str] = set()
    for number, line in enumerate(lines, 1):
        if line.endswith(b"\r"):
            yield f"line {number}: ends in CR LF"
        try:
            value = decode_line(line)
        except WireError as error:
            yield f"line {number}: {error.text}"
            continue
        if not _is_object(value):
            yield f"line {number}: not an object"
            continue
        found = _header_problems(value, checks) if number == 1 else _entry_problems(value, ids, checks)
        yield from (f"line {number}: {problem}" for problem in found)


def _header_problems(header: Mapping[str, object], checks: _Checks) -> Iterator[str]:
    if header.get("type") != "session":
        yield "the first line is no header"
        return
    yield from _model_problems(checks.header, header)


def _entry_problems(entry: Mapping[str, object], ids: set[str], checks: _Checks) -> Iterator[str]:
    """Judge an entry, given the ids of those before it, and add its own."""
    entry_type = entry.get("type")
    if entry_type == "session":
        yield "a second header"
        return
    is_known = checks.is_closed or entry_type in ENTRY_TYPES
    yield from _model_problems(checks.entry if is_known else checks.unknown_entry, entry)
    if entry_type == "message" and _is_object(message := entry.get("message")):
        yield from (f"message.{problem}" for problem in _message_problems(message, checks))
    parent_id, entry_id = entry.get("parentId"), entry.get("id")
    if isinstance(parent_id, str) and parent_id not in ids:
        yield f"parentId: no entry before it has the id {parent_id!r}"
    if isinstance(entry_id, str):
        if entry_id in ids:
            yield f"id: {entry_id!r} is taken"
        ids.add(entry_id)
    for type_, field in _REFERENCES:
        target_id = entry.get(field)
        if entry_type == type_ and isinstance(target_id, str) and target_id not in ids:
            yield f"{field}: no entry before it has the id {target_id!r}"


def _message_problems(message: Mapping[str, object], checks: _Checks) -> Iterator[str]:
    role = message.get("role")
    if role not in STORED_ROLES and isinstance(role, str) and role and not checks.is_closed:
        return
    if not checks.is_closed and role == "assistant" and message.get("stopReason") == _STORED_STOP_REASON:
        message = {**message, "stopReason": "stop"}
    yield from _model_problems(checks.message, message)


def _model_problems(model: TypeAdapter[object], value: Mapping[str, object]) -> Iterator[str]:
    try:
        model.validate_python(value)
    except ValidationError as error:
        for found in error.errors(include_url=False, include_context=False, include_input=False):
            place = ".".join(str(part) for part in found["loc"])
            yield f"{place}: {found['msg']}" if place else found["msg"]


def _is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict)


_OPEN: Final = _Checks(is_closed=False)
_CLOSED: Final = _Checks(is_closed=True)
