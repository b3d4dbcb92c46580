"""What an exception of an extension becomes: a record, or nothing because it is not the extension's.

Decides who owns an exception (R15 to R17). Cancellation passes, also out of a group: it is about the work that is
ended, never about the extension. Everything else is the extension's failure, also an attempt to exit the interpreter,
and KeyboardInterrupt: the agent takes SIGINT itself, so within its tasks an extension has raised that by hand. Must not
know events, chains or clients.
"""

import inspect
import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

import trio

from pinnace_agent.extensions.registrations import ErrorRecord, ErrorSink, Function

_log = logging.getLogger("pinnace.extensions")

_EVENT_NAMES: Final = frozenset({"event", "ev", "evt", "e"})
_CONTEXT_NAMES: Final = frozenset({"ctx", "context", "c"})


class Ownership(NamedTuple):
    """One exception in two parts; both may be there when it is a group."""

    passing: BaseException | None
    """To be raised again."""
    failure: BaseException | None
    """The extension's; to be recorded."""


def ownership(error: BaseException) -> Ownership:
    """Split an exception that an extension's function has raised.

    A part of a group that passes is given as its only leaf if it has only one, or only cancellations.
    """
    # A coroutine is closed by nobody while it is the task at work: within one, somebody has raised that by hand.
    is_in_task = trio.lowlevel.in_trio_task()
    passes = (trio.Cancelled,) if is_in_task else (trio.Cancelled, KeyboardInterrupt)
    is_closed = isinstance(error, GeneratorExit) and not is_in_task
    if isinstance(error, passes) or is_closed:
        return Ownership(error, None)
    if not isinstance(error, BaseExceptionGroup):
        return Ownership(None, error)
    # Not even a checker can know what a group is a group of that comes out of another one.
    group = cast("BaseExceptionGroup[BaseException]", error)
    passing, failure = group.split(passes)
    return Ownership(None if passing is None else _flat(passing), failure)


def _flat(group: BaseExceptionGroup[BaseException]) -> BaseException:
    leaves = list(_leaves(group))
    if len(leaves) == 1 or all(isinstance(leaf, trio.Cancelled) for leaf in leaves):
        return leaves[0]
    interrupts = [leaf for leaf in leaves if isinstance(leaf, KeyboardInterrupt)]
    return interrupts[0] if interrupts else group


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)  # as above
    return [leaf for inner in group.exceptions for leaf in _leaves(inner)]


def failure_text(failure: BaseException) -> str:
    """Return the message of a failure: that of the first leaf of a group; the type where there is no message."""
    leaf = _leaves(failure)[0]
    if isinstance(leaf, SystemExit):
        return f"tried to exit the process (SystemExit: {leaf.code}); use ctx.shutdown() instead"
    try:
        text = str(leaf)
    except Exception:  # a message that can't be made is no reason to lose the failure
        text = ""
    return text or type(leaf).__name__


def failure_record(path: str, event: str, failure: BaseException, *, hint: str | None = None) -> ErrorRecord:
    """Make the record of a failure; `hint` follows the message."""
    text = failure_text(failure)
    stack = "".join(traceback.format_exception(failure))
    return ErrorRecord(path, event, f"{text} ({hint})" if hint else text, stack)


def signature_hint(function: Function, failure: BaseException, parameters: Sequence[str]) -> str | None:
    """Say what is wrong with a function's parameters, if that is why it failed.

    Args:
        function: What was called.
        failure: What came of it.
        parameters: The names of what it is called with.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    name = getattr(function, "__qualname__", repr(function))
    shape = f"({', '.join(parameters)})"
    names = list(signature.parameters)
    if len(names) >= 2 and names[0] in _EVENT_NAMES and names[1] in _CONTEXT_NAMES:
        return f"{name}{signature} takes its parameters in the wrong order: it is called as {shape}"
    if not isinstance(failure, TypeError):
        return None
    try:
        signature.bind(*parameters)
    except TypeError:
        return f"it is called as {shape}, but is {name}{signature}"
    return None


class ErrorListeners:
    """Hands each record to all who listen; one that fails itself is logged and does not keep the others from it."""

    def __init__(self, *listeners: ErrorSink) -> None:
        """Begin with these."""
        self._listeners: dict[object, ErrorSink] = {object(): listener for listener in listeners}

    def add(self, listener: ErrorSink) -> Callable[[], None]:
        """Add a listener and return what takes this one away again."""
        key = object()
        self._listeners[key] = listener

        def remove() -> None:
            self._listeners.pop(key, None)

        return remove

    def __call__(self, record: ErrorRecord) -> None:
        """Tell all of them. Never raises."""
        _log.error("extension error (%s, %s): %s", record.extension_path, record.event, record.error)
        if record.stack:
            _log.debug("%s", record.stack)
        for listener in tuple(self._listeners.values()):
            try:
                listener(record)
            except Exception:  # the boundary: a listener's defect is not the extension's
                _log.exception("a listener of extension errors failed")


def wire_record(record: ErrorRecord) -> dict[str, object]:
    """Return the `extension_error` that clients are told; the stack stays here."""
    return {
        "type": "extension_error",
        "extensionPath": record.extension_path,
        "event": record.event,
        "error": record.error,
    }
