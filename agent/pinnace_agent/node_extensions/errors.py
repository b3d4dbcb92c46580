"""Errors that pass between extensions in Node and the agent."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pinnace_agent.core.json_access import as_object, as_text

_LONGEST_NAME: Final = 60


class ScriptError(Exception):
    """What an extension in Node has thrown. Its class has the name that the error has there."""

    __whole_text__ = True
    """Clients get the message alone, as from pi."""

    stack: str | None = None
    """The stack in the extension."""


class ProcessLost(Exception):
    """The Node process has ended, or was ended, before it had answered."""


class RefusedRequest(Exception):
    """A request of an extension that is not carried out: it is unknown, wrong, or comes too late."""


@lru_cache(maxsize=64)
def _class_of(name: str) -> type[ScriptError]:
    return type(name, (ScriptError,), {"__module__": __name__, "__doc__": "An error that an extension has thrown."})


def script_error(value: object) -> ScriptError:
    """Return the error of a message."""
    record: Mapping[str, object] = as_object(value) or {}
    name = as_text(record.get("name")) or "Error"
    error = _class_of(name[:_LONGEST_NAME])(as_text(record.get("message")) or "an error without a message")
    error.stack = as_text(record.get("stack"))
    if error.stack is not None:
        error.add_note(error.stack)
    return error


def error_record(error: Exception) -> Mapping[str, object]:
    """Return an exception of the agent as the extension catches it."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return {"name": "Error", "message": text or type(error).__name__}
