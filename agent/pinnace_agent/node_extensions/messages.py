"""The messages of the Node process: lines of JSON, which both sides write themselves. Pure."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self, cast

import orjson

from pinnace_agent.core.json_access import as_list, as_object
from pinnace_agent.node_extensions.errors import RefusedRequest


class Origin(NamedTuple):
    """Who asks: the number of an extension, and that of a context."""

    extension: int | None
    context: int | None

    @classmethod
    def of(cls, message: Mapping[str, object]) -> Self:
        """Read it from a message."""
        extension, context = message.get("extension"), message.get("context")
        return cls(extension if isinstance(extension, int) else None, context if isinstance(context, int) else None)


def encoded(message: Mapping[str, object]) -> bytes:
    """Return a message without the end of its line.

    Raises:
        TypeError: It holds a value that is not JSON.
    """
    try:
        return orjson.dumps(message, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # an unpaired surrogate, which JavaScript reads; or no JSON, which raises again
        return json.dumps(message, default=_plain).encode()


def _plain(value: object) -> object:
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))  # cast: paths of extensions are texts
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))  # cast: of JSON
    if isinstance(value, Sequence):
        return list(cast("Sequence[object]", value))  # cast: likewise
    raise TypeError(f"{type(value).__name__} is not JSON")


def decoded(line: bytes) -> Mapping[str, object]:
    """Return the message of a line; an empty one if it is none."""
    try:
        return as_object(orjson.loads(line)) or {}
    except orjson.JSONDecodeError:
        pass
    try:
        return as_object(json.loads(line)) or {}  # with what orjson does not read: unpaired surrogates
    except (ValueError, RecursionError):
        return {}


def number_of(message: Mapping[str, object], field: str) -> int:
    """Return a number of a message; -1: it has none."""
    value = message.get(field)
    return value if isinstance(value, int) else -1


def request_of(message: Mapping[str, object]) -> tuple[str, Origin, Sequence[object]]:
    """Return the name of what is asked, who asks, and the values.

    Raises:
        RefusedRequest: The message is no request.
    """
    name, values = message.get("name"), as_list(message.get("values"))
    if not isinstance(name, str) or values is None:
        raise RefusedRequest("a request needs a name and values")
    return name, Origin.of(message), values
