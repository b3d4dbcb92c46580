"""A context for functions in worker threads (R37): what is awaited elsewhere is a plain call there.

A function that was registered with `thread=True` gets one instead of its context: `ctx.ui.confirm(...)` returns the
answer. Everything is read and done in the thread of the event loop, one call after another. In that thread itself it is
as good as the context. Must not know what it stands for.
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, cast

from pinnace_agent.extensions.handler_context import Context
from pinnace_agent.extensions.loop_thread import LoopThread
from pinnace_agent.extensions.session_reader import SessionReader
from pinnace_agent.extensions.user_interface import UserInterface

# What members return that is alive itself; everything else is data.
_LIVE: Final = (Context, SessionReader, UserInterface)


class ThreadProxy:
    """Stands for an object of the event loop's thread."""

    __slots__ = ("_target", "_thread")

    def __init__(self, target: object, thread: LoopThread) -> None:
        self._target = target
        self._thread = thread

    def __getattr__(self, name: str) -> object:
        """Read a member in the thread of the event loop.

        Raises:
            LoopEndedError: The process is ending.
        """
        value: object = self._thread.call(partial(getattr, self._target, name))
        if isinstance(value, _LIVE) or name == "model_registry":
            return ThreadProxy(value, self._thread)
        if inspect.ismethod(value):
            return partial(self._call, value)
        return value

    def _call(self, method: Callable[..., object], /, *arguments: object, **options: object) -> object:
        if self._thread.is_here:
            return method(*arguments, **options)

        async def there() -> object:
            value = method(*arguments, **options)
            # Also what a plain method returns to be awaited at will, as `update` does.
            return await cast("Awaitable[object]", value) if isinstance(value, Awaitable) else value

        return self._thread.call_and_wait(there)

    def __repr__(self) -> str:
        return f"<in a thread: {self._target!r}>"


def thread_context(context: Context) -> Context:
    """Return a context for a worker thread."""
    # It has all members of the context, by name; that what is awaited is called there, no type can say.
    return cast("Context", ThreadProxy(context, context.__loop_thread__))
