"""Checks that a function of an extension takes the arguments that it will be called with.

An approval hook whose parameters are in the wrong order would otherwise fail at its first call. Reads signatures; calls
nothing.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Final

_CONTEXTS: Final = frozenset({"ctx", "context", "_ctx", "_context"})
_OTHERS: Final = frozenset({"event", "ev", "evt", "e", "args", "params", "_event", "_args"})


def check_function(function: object, what: str, shape: str, *, in_thread: bool = False) -> None:
    """Check that a function takes the parameters of `shape`, the context first.

    Args:
        function: The function.
        what: Its role, for error texts, such as `handler of tool_call`.
        shape: The parameters, such as `(ctx, event)`.
        in_thread: Whether it runs in a worker thread.

    Raises:
        TypeError: It takes other parameters; the text shows both.
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
    """Return the names of the positional parameters; None if the signature can't be read."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in signature.parameters.values() if each.kind in kinds]


def is_async(function: object) -> bool:
    """Return whether a function is known to be async."""
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004  # of a callable object
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
