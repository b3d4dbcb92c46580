"""Whether a function of an extension can be called as it will be, told when it is registered.

A gate whose parameters stand in the wrong order would fail at its first call; said while loading, the author reads
it at once. Reads signatures; calls nothing.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Final

_CONTEXTS: Final = frozenset({"ctx", "context", "_ctx", "_context"})
_OTHERS: Final = frozenset({"event", "ev", "evt", "e", "args", "params", "_event", "_args"})


def check_function(function: object, what: str, shape: str, *, in_thread: bool = False) -> None:
    """Do nothing if a function takes the parameters of `shape`, the context first.

    Args:
        function: To be called.
        what: What it is, for the text: `handler of tool_call`.
        shape: As in `(ctx, event)`.
        in_thread: Whether it is to run in a worker thread.

    Raises:
        TypeError: It doesn't; the text shows how it is and how it should be.
    """
    if not callable(function):
        raise TypeError(f"{what}: {function!r} can't be called")
    if in_thread and is_async(function):
        raise TypeError(f"{what}: thread=True is for functions that are not async")
    parameters = positional(function)
    if parameters is None:
        return
    name = getattr(function, "__qualname__", repr(function))
    wanted = shape.strip("()").split(", ") if shape != "()" else []
    if len(parameters) >= 2 and len(wanted) >= 2 and parameters[0] in _OTHERS and parameters[1] in _CONTEXTS:
        raise TypeError(
            f"{what}: {name}{inspect.signature(function)} has its parameters in the wrong order: "
            f"the context comes first, {name}{shape}"
        )
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError as error:
        raise TypeError(f"{what}: it is called as {name}{shape}, but is {name}{inspect.signature(function)}") from error


def positional(function: Callable[..., object]) -> list[str] | None:
    """Return the names of the positional parameters; None where there is no telling."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in signature.parameters.values() if each.kind in kinds]


def is_async(function: object) -> bool:
    """Tell whether calling a function gives something to await, as far as can be seen."""
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004  # of an object that is called like a function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
