"""Looking into JSON that others wrote: each function takes anything and gives a type or None.

Pure. The edge at which untyped data becomes typed; must not know what the data means.
"""

import sys
from collections.abc import Callable, Mapping
from typing import TypeGuard, cast

import orjson

from pinnace_agent.core.pieces import without_halves
from pinnace_spec.wire.json_text import JsonValue, encode_record


def as_object(value: object) -> dict[str, object] | None:
    """Return a JSON object as it is, else None."""
    # cast: a JSON object has string keys
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[object] | None:
    """Return a JSON array as it is, else None."""
    return cast("list[object]", value) if isinstance(value, list) else None  # cast: as above


def as_array(value: object) -> list[object]:
    """Return a JSON array as it is, else an empty one."""
    return as_list(value) or []


def as_text(value: object) -> str | None:
    """Return a string that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def as_count(value: object) -> int | None:
    """Return a number of things: not negative, whole; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    return int(value)


def as_amount(value: object) -> float | None:
    """Return a number that is not negative, and finite, else None."""
    return value if is_finite(value) and value >= 0 else None


def is_finite(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number that a float can hold: JSON has longer ones."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def compact_json(value: object) -> str:
    """Write a value as JSON.stringify does, but for unpaired surrogates, which are left out."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        wrapped = encode_record({"": map_strings(value, without_halves)})
        return wrapped.decode().removeprefix('{"":').removesuffix("}\n")


def compact_body(body: Mapping[str, object]) -> bytes:
    """Encode a request's body; unpaired surrogates are left out, wherever they are."""
    try:
        return orjson.dumps(body)
    except TypeError:
        return encode_record({key: map_strings(value, without_halves) for key, value in body.items()})


def map_strings(value: object, change: Callable[[str], str]) -> object:
    """Apply `change` to every string inside a JSON value, keys included. Not recursive: it may be deep."""
    left: list[list[object] | dict[str, object]] = []  # copies whose items are still the old ones

    def changed(item: object) -> object:
        if isinstance(item, str):
            return change(item)
        if (members := as_object(item)) is not None:
            left.append({change(key): member for key, member in members.items()})
            return left[-1]
        if isinstance(item, list | tuple):
            left.append(list(cast("list[object]", item)))  # cast: only the JSON edge makes such lists
            return left[-1]
        return item

    result = changed(value)
    while left:
        container = left.pop()
        if isinstance(container, dict):
            for key, item in container.items():
                container[key] = changed(item)
        else:
            container[:] = map(changed, container)
    return result


def kind_of(value: JsonValue) -> str:
    """Name the JSON type of a value, with its article, for error texts."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "a number"
