"""A JSON value to a command, or to the answer that says what is wrong with it.

Validated once, on the way in. Unknown fields are ignored; null in an optional field equals absent. An error names the
field and what was expected, in words of the protocol. Must not know what a command does. Source: R-ERR-01 to R-ERR-04,
R-ID-01, R-PRM-06.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Final, get_args

from pinnace_spec.records.flat_commands import COMMAND_NAMES, flat_command
from pinnace_spec.rules import errors
from pinnace_spec.wire.json_text import JsonValue

if TYPE_CHECKING:
    from pydantic import ValidationError

    from pinnace_spec.records.commands import AnyCommand, CommandModel

_NAMES: Final = frozenset(COMMAND_NAMES)
# Long enough for any UUID with a prefix; echoed with every response.
MAX_ID_CHARS: Final = 256


class CommandError(errors.ClientError):
    """A JSON value that is no command. Knows how it is to be answered: as which command, with which id."""

    def __init__(self, text: str, code: errors.ErrorCode, command: str, id: JsonValue = None, *, has_id: bool) -> None:
        """Keep the answer's parts; without `has_id` it is answered without an id."""
        super().__init__(text, code)
        self.command = command
        self.id = id
        self.has_id = has_id


def parse_command(value: JsonValue, unknown: Collection[str] = ()) -> "AnyCommand":
    """Return the command that a JSON value is.

    The first one that is not as the table says (`flat_commands`) loads what reports why, some 50 ms.

    Args:
        value: Whatever a line holds.
        unknown: Names that the client's generation does not have: of commands, refused, and of fields, ignored.

    Raises:
        CommandError: It is none, or a field is missing or not as expected; says how that is answered.
    """
    # DEVIATION D-04, D-05: every value is answered, in words of ours.
    if not isinstance(value, dict):
        text = errors.parse_error(errors.NOT_AN_OBJECT)
        raise CommandError(text, errors.ErrorCode.PARSE_ERROR, errors.PARSE_COMMAND, has_id=False)
    if unknown:
        value = {name: field for name, field in value.items() if name not in unknown}
    has_id = "id" in value and _is_id(value["id"])
    identity = value.get("id") if has_id else None
    name = value.get("type")
    if not isinstance(name, str):
        text, code = errors.TYPE_MUST_BE_A_STRING, errors.ErrorCode.INVALID_COMMAND
        raise CommandError(text, code, errors.UNKNOWN_COMMAND, identity, has_id=has_id)
    if name not in _NAMES or name in unknown:
        from pinnace_spec.nearest import nearest  # only after a mistake

        text, code = errors.unknown_command(name), errors.ErrorCode.UNKNOWN_COMMAND
        error = CommandError(text, code, name, identity, has_id=has_id)
        error.did_you_mean = nearest(name, _NAMES.difference(unknown))
        raise error
    if problem := _id_problem(value, has_id=has_id):
        raise _invalid(name, "id", problem, identity, has_id=has_id)
    if (flat := flat_command(name, value, identity, has_id=has_id)) is not None:
        return flat
    return _validated(name, value, identity, has_id=has_id)


def _validated(name: str, value: Mapping[str, JsonValue], identity: JsonValue, *, has_id: bool) -> "CommandModel":
    from pydantic import ValidationError

    from pinnace_spec.records.commands import MODELS

    nullable = _nullable_fields(name)
    fields = {key: field for key, field in value.items() if field is not None or key == "id" or key in nullable}
    # DEVIATION D-03, D-19: nothing is taken as it comes.
    try:
        command = MODELS[name].model_validate(fields)
    except ValidationError as error:
        field, problem = _first_problem(name, error, nullable)
        raise _invalid(name, field, problem, identity, has_id=has_id) from None
    if field_problem := _meaning_problem(command):
        raise _invalid(name, *field_problem, identity, has_id=has_id)
    return command


def _nullable_fields(name: str) -> Collection[str]:
    """Return the fields of a command that must be there, and may be null."""
    from pinnace_spec.records.commands import MODELS

    fields = MODELS[name].model_fields.items()
    return {key for key, field in fields if field.is_required() and NoneType in get_args(field.annotation)}


def _is_id(value: JsonValue) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARS
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _id_problem(value: Mapping[str, JsonValue], *, has_id: bool) -> str | None:
    return None if has_id or "id" not in value else f"must be a string of at most {MAX_ID_CHARS} characters"


def _invalid(name: str, field: str, problem: str, identity: JsonValue, *, has_id: bool) -> CommandError:
    if (name, field) == ("set_session_name", "name") and problem == "":
        text = errors.SESSION_NAME_EMPTY
    else:
        text = errors.invalid_field(name, field, problem)
    return CommandError(text, errors.ErrorCode.INVALID_FIELD, name, identity, has_id=has_id)


def _first_problem(command: str, error: "ValidationError", nullable: Collection[str]) -> tuple[str, str]:
    """Name the first field that is wrong, as a path, and what was expected of it."""
    from pinnace_spec.records.expected_values import expected, steps_to

    first = error.errors(include_url=False, include_input=False)[0]
    location = steps_to(first["loc"])
    name = str(location[0])
    path = name + "".join(_steps(location[1:]))
    if first["type"] == "value_error":
        return path, str(first.get("ctx", {}).get("error"))
    wanted = f"must be {expected(command, name)}" + (" or null" if name in nullable else "")
    return path, wanted if len(location) == 1 else f"is not as expected: {name} {wanted}"


def _steps(location: Sequence[int | str]) -> Iterator[str]:
    for part in location:
        yield f"[{part}]" if isinstance(part, int) else f".{part}"


def _meaning_problem(command: "CommandModel") -> tuple[str, str] | None:
    """Find what no single field's type can say."""
    from pinnace_spec.records.commands import FollowUp, Prompt, QueueMessage, SetSessionName, Steer

    match command:
        case Prompt() | Steer() | FollowUp() | QueueMessage() if not command.message and not command.content_images:
            return "message", "must not be empty without images"
        case SetSessionName() if not command.name.strip():
            return "name", ""
        case _:
            return None
