"""Commands whose fields are scalars, as nearly all are: read by a table, so that reading one loads no library.

The models (`commands`) say what a command is, to schemas, errors and people; a test holds the table to them. What does
not fit the table (a field that is wrong, pictures) is left to the models, which know what was expected. An agent that
nobody has sent such a line never loads pydantic: 7 MiB less, and no pause in the middle of an answer. Must not import
it.
"""

from collections.abc import Mapping
from types import EllipsisType
from typing import ClassVar, Final, NamedTuple, NoReturn

from pinnace_spec.messages import QUEUE_MODES, THINKING_LEVELS, ImageContent
from pinnace_spec.plain_commands import PLAIN_COMMANDS
from pinnace_spec.profiles import CLIENT_PROFILES
from pinnace_spec.wire import JsonValue


class Flat(NamedTuple):
    """A field. Absent and null are the same."""

    kind: type | frozenset[str] | None
    """What a value must be, or one of which texts; None: anything."""
    default: "JsonValue | EllipsisType" = ...
    """What stands for an absent one; `...`: it must be there."""
    attribute: str = ""
    """Its name here, if it is not the wire's."""

    def takes(self, value: JsonValue) -> bool:
        """Say whether a value is surely right."""
        if self.kind is None:
            return True
        if isinstance(self.kind, frozenset):
            return isinstance(value, str) and value in self.kind
        return type(value) is self.kind  # true is no integer


_TEXT: Final = {"message": Flat(str)}
_MODE: Final = {"mode": Flat(frozenset(QUEUE_MODES))}
_ENABLED: Final = {"enabled": Flat(bool)}

FLAT_COMMANDS: Final[Mapping[str, Mapping[str, Flat]]] = {
    "prompt": {**_TEXT, "streamingBehavior": Flat(frozenset({"steer", "followUp"}), None)},
    "steer": _TEXT,
    "follow_up": _TEXT,
    "queue_message": _TEXT,
    "clear_queue": {},
    "abort": {"queue": Flat(frozenset({"hold", "clear", "continue"}), "hold")},
    "new_session": {"parentSession": Flat(str, None)},
    "reset": {},
    "switch_session": {"sessionPath": Flat(str)},
    "fork": {"entryId": Flat(str)},
    "branch": {"entryIndex": Flat(int)},
    "set_model": {"provider": Flat(str), "modelId": Flat(str)},
    "set_thinking_level": {"level": Flat(frozenset(THINKING_LEVELS))},
    "set_steering_mode": _MODE,
    "set_follow_up_mode": _MODE,
    "set_queue_mode": _MODE,
    "compact": {"customInstructions": Flat(str, None)},
    "set_auto_compaction": _ENABLED,
    "set_auto_retry": _ENABLED,
    "bash": {"command": Flat(str), "excludeFromContext": Flat(bool, False)},
    "export_html": {"outputPath": Flat(str, None)},
    "set_session_name": {"name": Flat(str)},
    "get_entries": {"since": Flat(str, None, "since_entry")},
    "extension_ui_response": {"value": Flat(None, None), "confirmed": Flat(None, None), "cancelled": Flat(None, None)},
    "hello": {"protocol": Flat(frozenset(CLIENT_PROFILES), None)},
    **{name: {} for name in PLAIN_COMMANDS},
}

COMMAND_NAMES: Final[tuple[str, ...]] = tuple(FLAT_COMMANDS)
"""All commands of all generations."""

# Fields that hold lists: what stands in them is for the models.
_LISTS: Final = ("images", "attachments")


class FlatCommand:
    """A command with the attributes of its model. `id` counts only with `has_id`; null is one."""

    content_images: ClassVar[tuple[ImageContent, ...]] = ()

    command_name: str
    id: JsonValue
    has_id: bool

    def __init__(self, command_name: str, id: JsonValue, has_id: bool, fields: Mapping[str, JsonValue]) -> None:
        """Keep the fields as attributes, for good."""
        vars(self).update(fields, command_name=command_name, id=id, has_id=has_id)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse."""
        raise AttributeError(f"{name} of a {self.command_name} command can't be changed")

    def __eq__(self, other: object) -> bool:
        """Compare commands field by field."""
        return isinstance(other, FlatCommand) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # fields may be lists


def flat_command(name: str, value: Mapping[str, JsonValue], identity: JsonValue, *, has_id: bool) -> FlatCommand | None:
    """Return the command that a record of this name is, if every field of it is surely right.

    None says nothing of the record but that its model has to look at it.
    """
    given: dict[str, JsonValue] = {}
    for key, field in FLAT_COMMANDS[name].items():
        item = value.get(key)
        if item is None:
            if isinstance(field.default, EllipsisType):
                return None
            item = field.default
        elif not field.takes(item):
            return None
        given[field.attribute or key] = item
    if "message" in given and (given["message"] == "" or any(value.get(key) is not None for key in _LISTS)):
        return None
    if "name" in given and not str(given["name"]).strip():
        return None
    return FlatCommand(name, identity, has_id, given)
