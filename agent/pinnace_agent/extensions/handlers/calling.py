"""Calls one function of an extension: with its context, isolated, measured by the watchdog.

An exception is split into a cancellation, which passes, and a failure, which is reported once; if the function takes
other parameters, the report says so. What a failure means for an event is decided by `chains`.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, cast

import trio

from pinnace_agent.core.loop_thread import all_awaited
from pinnace_agent.extensions.api.contexts import Context
from pinnace_agent.extensions.handlers.thread_proxy import thread_context
from pinnace_agent.extensions.registration.registrations import (
    ErrorRecord,
    ErrorSink,
    Extension,
    Function,
    Generation,
    Handler,
)
from pinnace_agent.extensions.services.error_records import failure_record, ownership, signature_hint
from pinnace_agent.extensions.services.watchdog import Owner, Watchdog

# Handlers have their own thread limiter, so that handlers that never return don't use up the agent's threads.
_THREADS: Final = 20
# The cache of bound handlers, including removed ones, is cleared at this size, far above what extensions register.
_MOST_BOUND: Final = 2000


class Bound(NamedTuple):
    """One handler with its context and owner."""

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
        report: ErrorSink,
    ) -> None:
        """Call handlers in the order of `extensions`."""
        self._extensions = extensions
        self._generation = generation
        self._context_of = context_of
        self._report = report
        self._bound: dict[int, Bound] = {}
        self._reported: set[tuple[str, str, str]] = set()  # unknown keys, by extension and event
        self.watchdog = watchdog
        self._limiter = trio.CapacityLimiter(_THREADS)

    @property
    def is_stale(self) -> bool:
        """Whether the instance has ended, so that no handler may be called."""
        return self._generation.is_stale

    def has(self, event: str) -> bool:
        """Return whether an event has a handler. Takes a few look-ups."""
        return any(event in extension.handlers for extension in self._extensions)

    def bound(self, event: str, tool: str | None = None, only: Extension | None = None) -> list[Bound]:
        """Return the current handlers of an event, ordered by extension, then by registration."""
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
        """Call a handler and return its result; its exceptions are raised. A checkpoint only if the handler is one."""
        return await self.run(bound.owner, partial(bound.function, bound.context, event), in_thread=bound.in_thread)

    async def run(
        self, owner: Owner, function: Callable[[], object], *, in_thread: bool, is_timed: bool = True
    ) -> object:
        """Run a function of an extension, sync, async or in a thread, as the code of `owner`.

        Cancelling ends an async function at its next checkpoint. A thread is abandoned: it runs until it uses its
        context.

        Args:
            owner: Named in reports when the function blocks or waits.
            function: Takes no arguments.
            in_thread: Whether it is called in a worker thread.
            is_timed: Whether the watchdog reports it when it waits long.

        Raises:
            NotAwaitedError: It has dropped the result of an async method unawaited, so what it wanted was not done.
        """
        watchdog = self.watchdog
        with all_awaited():
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
        """Report the failure of a handler, and return it.

        Raises:
            BaseException: The passing part, if there is one: usually a cancellation.
        """
        passing, failure = ownership(error)
        if failure is not None:
            hint = signature_hint(bound.function, failure, ("ctx", "event"))
            self.report(bound.owner, failure, hint=hint)
        if passing is not None:
            raise passing
        assert failure is not None
        return failure

    def report_unknown(self, owner: Owner, key: str, text: str) -> None:
        """Report an unknown key in a result, once for each extension, event or tool, and key."""
        reported = owner.path, owner.event, key
        if reported not in self._reported and len(self._reported) < _MOST_BOUND:
            self._reported.add(reported)
            self._report(ErrorRecord(owner.path, owner.event, text))

    def report(self, owner: Owner, failure: BaseException, *, hint: str | None = None, file: str | None = None) -> None:
        """Report a failure of an extension; see `failure_record`."""
        self._report(failure_record(owner.path, owner.event, failure, hint=hint, file=file))
