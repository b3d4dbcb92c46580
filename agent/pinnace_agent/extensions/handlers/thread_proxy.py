"""A context for functions in worker threads: async methods are plain calls there.

A function registered with `thread=True` receives a proxy of its context: `ctx.ui.confirm(...)` returns the answer. Each
member is read and called in the thread of the event loop. In that thread the proxy behaves as the context itself.
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, cast

from pinnace_agent.core.loop_thread import LoopThread
from pinnace_agent.extensions.api.contexts import Context
from pinnace_agent.extensions.api.session_reader import SessionReader
from pinnace_agent.extensions.api.user_interface import UserInterface

# Values of members that need a proxy themselves; all others are data.
_LIVE: Final = (Context, SessionReader, UserInterface)


class ThreadProxy:
    """A proxy of an object of the event loop's thread."""

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
            # Also awaits an optional awaitable of a plain method, such as the result of `update`.
            return await cast("Awaitable[object]", value) if isinstance(value, Awaitable) else value

        return self._thread.call_and_wait(there)

    def __repr__(self) -> str:
        return f"<in a thread: {self._target!r}>"


def thread_context(context: Context) -> Context:
    """Return a context for a worker thread."""
    # It has all members of the context by name; types can't express that async methods are plain calls.
    return cast("Context", ThreadProxy(context, context.__loop_thread__))
