"""Options and commands of a session as version 2 writes them."""

from collections.abc import Sequence
from typing import Final

from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.shown import Command, Json

_TYPES: Final = {"id": "a text", "boolean": "true or false"}


def options(reported: Sequence[Json]) -> list[Json]:
    """Return the options of a session."""
    return [{("configId" if name == "id" else name): value for name, value in each.items()} for each in reported]


def commands(reported: Sequence[Command]) -> list[Json]:
    """Return the commands of a session: of several with one name the first, which is the one that runs."""
    found: dict[str, Json] = {}
    for each in reported:
        command: dict[str, object] = {"type": "command", "name": each.name, "description": each.description}
        if each.hint:
            command["input"] = {"type": "text", "hint": each.hint}
        if each.name and not any(character.isspace() for character in each.name):
            found.setdefault(each.name, command)
    return list(found.values())


def check_option_value(params: Params) -> None:
    """Check that the value of a request to set an option is of the type that it names.

    Raises:
        InvalidParams: It is not, or the type is unknown.
    """
    kind = params.text("type")
    if kind not in _TYPES:
        raise params.invalid("type", f"must be one of {', '.join(_TYPES)}")
    value = params.fields.get("value")
    if isinstance(value, bool) != (kind == "boolean") or not isinstance(value, bool | str):
        raise params.invalid("value", f"must be {_TYPES[kind]} for the type {kind}")
