"""A context for a worker thread (R37): everything is read and done in the trio thread, one call after another.

A function that was registered with `thread=True` gets one instead of its context. What is awaited elsewhere is a plain
call there: `ctx.ui.confirm(...)` returns the answer. Must not know what it stands for.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, cast

import trio

from pinnace_agent.extensions.handler_context import Context
from pinnace_agent.extensions.session_reader import SessionReader
from pinnace_agent.extensions.user_interface import UserInterface

# What members return that is alive itself; everything else is data.
_LIVE: Final = (Context, SessionReader, UserInterface)


class ThreadProxy:
    """Stands for an object of the trio thread."""

    __slots__ = ("_target",)

    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> object:
        """Read a member in the trio thread.

        Raises:
            trio.Cancelled: The work that this thread belongs to has been ended.
            trio.RunFinishedError: The process is ending.
        """
        value: object = trio.from_thread.run_sync(getattr, self._target, name)
        if isinstance(value, _LIVE) or name == "model_registry":
            return ThreadProxy(value)
        if inspect.ismethod(value):
            return _called_there(value)
        return value

    def __repr__(self) -> str:
        return f"<in a thread: {self._target!r}>"


def _called_there(method: Callable[..., object]) -> Callable[..., object]:
    async def there(arguments: tuple[object, ...], options: dict[str, object]) -> object:
        value = method(*arguments, **options)
        # Also what a plain method returns to be awaited at will, as `update` does.
        return await cast("Awaitable[object]", value) if isinstance(value, Awaitable) else value

    def here(*arguments: object, **options: object) -> object:
        return trio.from_thread.run(there, arguments, options)

    return here


def thread_context(context: Context) -> Context:
    """Return a context for a worker thread."""
    # It has all members of the context, by name; that what is awaited is called there, no type can say.
    return cast("Context", ThreadProxy(context))
