"""Calls one handler: in its context, isolated, watched.

Decides what becomes of a call, not of an event: `chains` does that. Whatever a handler raises is split into what passes
and what is its failure, told once with the reason why the call could not be made if that is it. Must not know events.
R14 to R17, R37.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, cast

import trio

from pinnace_agent.extensions.contexts import Context
from pinnace_agent.extensions.error_records import failure_record, ownership, signature_hint
from pinnace_agent.extensions.registrations import ErrorRecord, ErrorSink, Extension, Function, Generation, Handler
from pinnace_agent.extensions.thread_proxy import thread_context
from pinnace_agent.extensions.watchdog import Owner, Watchdog

# Threads of handlers: a limiter of their own, so that handlers that never return don't take the agent's threads.
_THREADS: Final = 20
# Handlers that were taken away are forgotten when there are this many; nobody registers so many on purpose.
_MOST_BOUND: Final = 2000


class Bound(NamedTuple):
    """One handler, ready to be called."""

    extension: Extension
    function: Function
    in_thread: bool
    tool_filter: str | None
    context: Context
    owner: Owner


class Caller:
    """Calls the functions of the extensions of one session instance."""

    def __init__(
        self,
        extensions: Sequence[Extension],
        generation: Generation,
        context_of: Callable[[Extension], Context],
        watchdog: Watchdog,
        tell: ErrorSink,
    ) -> None:
        """Call in the order of `extensions`."""
        self._extensions = extensions
        self._generation = generation
        self._context_of = context_of
        self._tell = tell
        self._bound: dict[int, Bound] = {}
        self._reported: set[tuple[str, str, str]] = set()  # keys that are not known, by extension and event
        self.watchdog = watchdog
        self._limiter = trio.CapacityLimiter(_THREADS)

    @property
    def is_stale(self) -> bool:
        """Whether no handler may be called any more."""
        return self._generation.is_stale

    def has(self, event: str) -> bool:
        """Tell whether anyone handles an event. A few look-ups."""
        return any(event in extension.handlers for extension in self._extensions)

    def bound(self, event: str, tool: str | None = None, only: Extension | None = None) -> list[Bound]:
        """Return the handlers of an event as they are now, in order: by extension, then by registration."""
        extensions: Iterable[Extension] = self._extensions if only is None else (only,)
        found: list[Bound] = []
        for extension in extensions:
            for handler in extension.handlers.get(event, ()):
                if handler.tool_filter is None or tool is None or handler.tool_filter == tool:
                    known = self._bound.get(handler.number)
                    found.append(self._bind(extension, handler) if known is None else known)
        return found

    def _bind(self, extension: Extension, handler: Handler) -> Bound:
        if len(self._bound) >= _MOST_BOUND:
            self._bound.clear()
        context = self._context_of(extension)
        bound = Bound(
            extension,
            handler.function,
            handler.in_thread,
            handler.tool_filter,
            thread_context(context) if handler.in_thread else context,
            Owner(extension.path, handler.event),
        )
        self._bound[handler.number] = bound
        return bound

    async def call(self, bound: Bound, event: object) -> object:
        """Call a handler and return what it returns; what it raises is raised. A checkpoint only if the handler is."""
        return await self.run(bound.owner, partial(bound.function, bound.context, event), in_thread=bound.in_thread)

    async def run(
        self, owner: Owner, function: Callable[[], object], *, in_thread: bool, is_timed: bool = True
    ) -> object:
        """Run a function of an extension, sync, async or in a thread, as the code of `owner`.

        Cancelling ends an async function at its next checkpoint. A thread is left alone: it goes on until it calls
        anything of its context.

        Args:
            owner: Who is named when it blocks or waits.
            function: Takes nothing.
            in_thread: Whether it is called in a worker thread.
            is_timed: Whether it is named when it takes long.
        """
        watchdog = self.watchdog
        token = watchdog.enter(owner)
        try:
            if in_thread:
                value = await self._in_thread(owner, function)
            else:
                value = function()
            if value is not None and isinstance(value, Awaitable):
                number = watchdog.begin_wait(owner) if is_timed else -1
                try:
                    value = await cast("Awaitable[object]", value)
                finally:
                    watchdog.end_wait(number)
        finally:
            watchdog.leave(token)
        return value

    async def _in_thread(self, owner: Owner, function: Callable[[], object]) -> object:
        number = self.watchdog.begin_wait(owner)
        try:
            return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            self.watchdog.end_wait(number)

    def failed(self, bound: Bound, error: BaseException) -> BaseException:
        """Tell the failure of a handler, and return it.

        Raises:
            BaseException: What passes, if anything does: a cancellation above all.
        """
        passing, failure = ownership(error)
        if failure is not None:
            hint = signature_hint(bound.function, failure, ("ctx", "event"))
            self.tell(bound.owner, failure, hint=hint)
        if passing is not None:
            raise passing
        assert failure is not None
        return failure

    def tell_unknown(self, owner: Owner, key: str, text: str) -> None:
        """Tell that a result of an extension has a key that is not known: once for each event or tool, and key."""
        reported = owner.path, owner.event, key
        if reported not in self._reported and len(self._reported) < _MOST_BOUND:
            self._reported.add(reported)
            self._tell(ErrorRecord(owner.path, owner.event, text))

    def tell(self, owner: Owner, failure: BaseException, *, hint: str | None = None) -> None:
        """Tell a failure of an extension."""
        self._tell(failure_record(owner.path, owner.event, failure, hint=hint))
