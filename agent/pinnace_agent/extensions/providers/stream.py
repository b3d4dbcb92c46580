"""The provider of an extension that answers requests with `stream_simple`.

The function is called as `(model, context, options)` and returns the events of one answer, usually as an async
generator. An exception, an invalid event or a stream without an end event becomes the error of the message and affects
only that request. Cancelling closes the generator. Events are read one at a time, as fast as the client reads.
"""

import copy
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, cast

import trio

from pinnace_agent.extensions.handlers.calling import Caller
from pinnace_agent.extensions.providers.stream_events import StreamReader, WrongEvent
from pinnace_agent.extensions.registration.registrations import Function
from pinnace_agent.extensions.registration.stream_requests import StreamContext, StreamOptions
from pinnace_agent.extensions.services.error_records import failure_text, ownership, signature_hint
from pinnace_agent.extensions.services.watchdog import Owner
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.context import provider_messages
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.request import LlmRequest, secrets_of

_log = logging.getLogger("pinnace.extensions")

EVENT: Final = "stream_simple"
SHAPE: Final = "(model, context, options)"
_END: Final = object()
# Copying takes microseconds for each message: above this number it is done in a thread.
_LONG: Final = 500


class ExtensionProvider:
    """The provider of one extension, as the agent uses it: a `Provider` of `llm.providers`."""

    def __init__(self, caller: Caller, path: str, name: str, function: Function) -> None:
        """Answer with `function`, which the extension at `path` registered for the provider `name`."""
        self._caller = caller
        self._owner = Owner(path, EVENT)
        self._name = name
        self._function = function

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Request one answer and build it. As `Provider.stream`, raises only `trio.Cancelled`."""
        texts = FailureTexts(secrets_of(request))
        try:
            problem = await self._answer(request, builder)
        except WrongEvent as error:
            problem = str(error)
        except BaseException as error:
            passing, failure = ownership(error)
            if passing is not None:
                raise passing from None
            assert failure is not None
            _log.info("%s of provider %s failed", EVENT, self._name, exc_info=failure)
            hint = signature_hint(self._function, failure, SHAPE.strip("()").split(", "))
            problem = f"{failure_text(failure)} ({hint})" if hint else failure_text(failure)
        if problem is not None and not builder.is_finished:
            builder.fail(texts.shown(f'{EVENT} of provider "{self._name}": {problem}'))

    async def _answer(self, request: LlmRequest, builder: MessageBuilder) -> str | None:
        """Read the events of one answer; return why it failed."""
        if self._caller.is_stale:
            return "the extension that registered it is no longer loaded"
        headers = dict(request.headers)
        if request.hooks is not None:
            headers = dict(await request.hooks.headers(headers))
        is_long = len(request.messages) > _LONG
        make = partial(_context, request)
        context = await trio.to_thread.run_sync(make, abandon_on_cancel=True) if is_long else make()
        call = partial(self._function, copy.deepcopy(request.model), context, StreamOptions(request, headers))
        stream = await self._caller.run(self._owner, call, in_thread=False, is_timed=False)
        advance = self._advance(stream)
        if advance is None:
            return f"it must return an async iterator of events, not {type(stream).__name__}"
        try:
            return await self._read(StreamReader(builder), builder, advance, request.idle_timeout_s)
        finally:
            await self._close(stream)

    def _advance(self, stream: object) -> Callable[[], Awaitable[object]] | None:
        """Return a function that returns the next event, or `_END`; None: the value is no stream of events."""
        if isinstance(stream, AsyncIterable):
            step = partial(anext, aiter(cast("AsyncIterable[object]", stream)), _END)
            return partial(self._caller.run, self._owner, step, in_thread=False, is_timed=False)
        if isinstance(stream, Iterable) and not isinstance(stream, str | bytes | Mapping):
            iterator = iter(cast("Iterable[object]", stream))
            return partial(trio.to_thread.run_sync, partial(next, iterator, _END), abandon_on_cancel=True)
        return None

    async def _read(
        self,
        reader: StreamReader,
        builder: MessageBuilder,
        advance: Callable[[], Awaitable[object]],
        idle_timeout_s: float | None,
    ) -> str | None:
        while True:
            event: object = None
            with trio.move_on_after(float("inf") if idle_timeout_s is None else idle_timeout_s) as patience:
                event = await advance()
            if patience.cancelled_caught:
                return f"Request timed out: no event came for {idle_timeout_s:g} s"
            if event is _END:
                return 'the stream ended without "done" or "error"'
            if reader.read(event):
                return None
            await builder.room()

    async def _close(self, stream: object) -> None:
        """Close a generator that was not read to its end."""
        close: object = getattr(stream, "aclose", None) or getattr(stream, "close", None)
        if not callable(close):
            return
        try:
            # A generator in a thread may still be running; it is not awaited.
            with suppress(ValueError):
                await self._caller.run(self._owner, close, in_thread=False, is_timed=False)
        except BaseException as error:
            passing, failure = ownership(error)
            if failure is not None:
                _log.info("%s of provider %s failed while it was closed: %s", EVENT, self._name, failure_text(failure))
            if passing is not None:
                raise passing from None


def _context(request: LlmRequest) -> StreamContext:
    """Copy the messages of a request, in the roles that every provider supports."""
    return StreamContext(
        request.system_prompt,
        copy.deepcopy(provider_messages(request.messages, request.model, str)),
        [
            {"name": tool.name, "description": tool.description, "parameters": copy.deepcopy(dict(tool.parameters))}
            for tool in request.tools
        ],
    )
