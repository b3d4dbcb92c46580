"""Exceptions of extensions: whether an exception is the extension's failure, and the error record of a failure.

Cancellation is re-raised, also out of a group: it concerns the cancelled work, never the extension. Everything else is
the extension's failure, including SystemExit and KeyboardInterrupt: the agent handles SIGINT itself, so within its
tasks only the extension can have raised that.
"""

import inspect
import os
import traceback
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import trio

from pinnace_agent.extensions.registration.registrations import ErrorRecord, Function

_EVENT_NAMES: Final = frozenset({"event", "ev", "evt", "e"})
_CONTEXT_NAMES: Final = frozenset({"ctx", "context", "c"})
_ENTRY_NAMES: Final = frozenset({"extension.py", "__init__.py"})
# What Python and trio say where code that needs the event loop of asyncio is awaited or called under trio.
_OF_ASYNCIO: Final = ("no running event loop", "no current event loop", "unrecognized yield message")
_USE_TRIO: Final = (
    "extensions run under trio, not asyncio: use trio.sleep, trio.open_nursery and libraries that work with trio, or "
    "register the function with thread=True and call asyncio.run() in it"
)


class Ownership(NamedTuple):
    """One exception in two parts; both are set for some groups."""

    passing: BaseException | None
    """To be re-raised."""
    failure: BaseException | None
    """The extension's failure, to be reported."""


def ownership(error: BaseException) -> Ownership:
    """Split an exception that a function of an extension raised.

    The passing part of a group is its only leaf if it has one leaf, or only cancellations.
    """
    # A running task is never closed: within one, the extension raised GeneratorExit itself.
    is_in_task = trio.lowlevel.in_trio_task()
    passes = (trio.Cancelled,) if is_in_task else (trio.Cancelled, KeyboardInterrupt)
    is_closed = isinstance(error, GeneratorExit) and not is_in_task
    if isinstance(error, passes) or is_closed:
        return Ownership(error, None)
    if not isinstance(error, BaseExceptionGroup):
        return Ownership(None, error)
    # Type checkers can't infer the type of a group that was split off.
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
    """Return the message of a failure, for a group that of its first leaf; without a message, the type's name."""
    leaf = _leaves(failure)[0]
    if isinstance(leaf, SystemExit):
        return f"tried to exit the process (SystemExit: {leaf.code}); use ctx.shutdown() instead"
    try:
        text = str(leaf)
    except Exception:  # a failing __str__ must not hide the failure
        text = ""
    if _is_of_asyncio(leaf, text):
        return f"{text.partition('. ')[0].rstrip('.')}: {_USE_TRIO}"
    return text or type(leaf).__name__


def _is_of_asyncio(error: BaseException, text: str) -> bool:
    """Return whether code failed since it needs the event loop of asyncio: there is none, or trio got its future."""
    if isinstance(error, RuntimeError | TypeError) and any(each in text for each in _OF_ASYNCIO):
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and isinstance(error, AttributeError) and frames[-1].f_globals.get("__package__") == "asyncio"


def described(failure: BaseException, path: str) -> str:
    """Return the message of a failure with its type, and the last place of it in the extension's own files.

    The message of an exception with `__whole_text__` is whole: that of an extension in another language.

    Args:
        failure: The failure.
        path: The extension's file.
    """
    leaf = _leaves(failure)[0]
    text, kind = failure_text(failure), type(leaf).__name__
    if text != kind and not isinstance(leaf, SystemExit) and not hasattr(leaf, "__whole_text__"):
        text = f"{kind}: {text}"
    return f"{text}{place_of(leaf, path)}"


def place_of(error: BaseException, path: str) -> str:
    """Return where in its own files an extension has failed, as ` (gate.py, line 3)`; empty: not in them."""
    own = os.path.realpath(os.path.dirname(path) if os.path.basename(path) in _ENTRY_NAMES else path)
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        real = os.path.realpath(frame.f_code.co_filename)
        if real == own or real.startswith(own + os.sep):
            name = os.path.basename(real) if real == own else os.path.relpath(real, own)
            return f" ({name}, line {line})"
    return ""


def failure_record(
    path: str, event: str, failure: BaseException, *, hint: str | None = None, file: str | None = None
) -> ErrorRecord:
    """Return the error record of a failure; `hint` follows the message.

    Args:
        path: The path in the record.
        event: The event.
        failure: The failure.
        hint: What may be wrong.
        file: The extension's file, where the record has another path.
    """
    text = described(failure, file or path)
    stack = "".join(traceback.format_exception(failure))
    return ErrorRecord(path, event, f"{text} ({hint})" if hint else text, stack)


def signature_hint(function: Function, failure: BaseException, parameters: Sequence[str]) -> str | None:
    """Return what is wrong with a function's parameters, if that is why it failed.

    Args:
        function: The function.
        failure: The exception that it raised.
        parameters: The names of the arguments that it is called with.
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
