"""Commands whose fields are scalars, as nearly all are: read by a table, so that reading one loads no library.

The models (`commands`) say what a command is, and the table (`command_table`) is generated from them. What does not fit
the table (a field that is wrong, pictures) is left to the models, which know what was expected. An agent that gets no
such line never loads pydantic: 7 MiB less, and no pause in the middle of an answer. Must not import it.
"""

from collections.abc import Mapping
from types import EllipsisType
from typing import ClassVar, Final, NoReturn

from pinnace_spec.records.command_table import COMMAND_TABLE
from pinnace_spec.records.messages import FILE_METHODS, ImageContent, TextContent
from pinnace_spec.rules.limits import MAX_SESSIONS_LISTED
from pinnace_spec.wire.json_text import JsonValue

COMMAND_NAMES: Final[tuple[str, ...]] = tuple(COMMAND_TABLE)
"""All commands of all generations."""

MAX_MESSAGE_ID_CHARS: Final = 128
"""Of the id that a client gives a message. Long enough for any UUID with a prefix; each session file keeps it."""

LISTS: Final = ("images", "attachments", "context")
"""Fields that hold lists of objects: what stands in them is for the models."""


class FlatCommand:
    """A command with the attributes of its model. `id` counts only with `has_id`; null is one."""

    content_blocks: ClassVar[tuple[TextContent | ImageContent, ...]] = ()

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
    for key, (kind, default, attribute) in COMMAND_TABLE[name].items():
        item = value.get(key)
        if item is None:
            if isinstance(default, EllipsisType):
                return None
            item = default
        elif not _is_right(item, kind):
            return None
        given[attribute] = item
    if "message" in given and (given["message"] == "" or any(value.get(key) is not None for key in LISTS)):
        return None
    for key in ("messageId", "by"):
        # A lone surrogate is left out here, and no string of the models.
        if isinstance(identity_given := given.get(key), str) and not (
            0 < len(identity_given) <= MAX_MESSAGE_ID_CHARS
            and identity_given.encode(errors="ignore").decode() == identity_given
        ):
            return None
    if "name" in given and not str(given["name"]).strip():
        return None
    # One comparison for every other command: each is read here.
    if name == "hello" and not _is_offer(given["delegate"]):
        return None
    if name == "ui_surface_input" and (surface_item := given["item"]) is not None:
        from pinnace_spec.records.surface_items import is_item  # with the first one

        if not is_item(surface_item):
            return None
    limit = given.get("limit")
    if isinstance(limit, int) and not 1 <= limit <= MAX_SESSIONS_LISTED:
        return None
    for key in ("maxTurns", "timeout"):
        number = given.get(key)
        if isinstance(number, int | float) and not number > 0:
            return None
    return FlatCommand(name, identity, has_id, given)


def _is_offer(offered: JsonValue) -> bool:
    return not isinstance(offered, list) or all(each in FILE_METHODS for each in offered)


def _is_right(item: JsonValue, kind: type | frozenset[str] | None) -> bool:
    if isinstance(kind, frozenset):
        return isinstance(item, str) and item in kind
    if kind is list:
        return isinstance(item, list) and all(isinstance(each, str) for each in item)
    return kind is None or type(item) is kind  # true is no integer
