"""Asks a provider whose requests are answered by code of an extension: `stream_simple` (A24).

The function is called as `(model, context, options)` and gives the events of one answer, mostly as an async generator.
Whatever it does ends that request and nothing else: an exception, a wrong event and a stream without an end become the
error of the message. Cancelling closes the generator. Events are taken one at a time, as fast as the client reads.
"""

import copy
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, cast

import trio

from pinnace_agent.extensions.calling import Caller
from pinnace_agent.extensions.error_records import failure_text, ownership, signature_hint
from pinnace_agent.extensions.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.extensions.registrations import Function
from pinnace_agent.extensions.stream_events import StreamEvent, StreamReader, WrongEvent
from pinnace_agent.extensions.watchdog import Owner
from pinnace_agent.llm.base import LlmRequest, RequestHooks
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.context import ContextMessage, provider_messages
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.secrets import secrets_of
from pinnace_spec.messages import Model, ThinkingLevel

_log = logging.getLogger("pinnace.extensions")

EVENT: Final = "stream_simple"
SHAPE: Final = "(model, context, options)"
_END: Final = object()
# Copying takes some microseconds a message: of more than so many it would keep the other tasks waiting.
_LONG: Final = 500


class StreamContext:
    """The conversation that a model is asked to continue. A copy: changing it changes nothing else."""

    __slots__ = ("messages", "system_prompt", "tools")

    def __init__(
        self, system_prompt: str, messages: Sequence[ContextMessage], tools: Sequence[Mapping[str, object]]
    ) -> None:
        """Hold what is to be sent."""
        self.system_prompt = system_prompt
        """Empty: there is none."""
        self.messages = messages
        """Messages of the roles `user`, `assistant` and `toolResult`, each call followed by its result."""
        self.tools = tools
        """What the model may call: `name`, `description` and `parameters`, a JSON schema."""


@usable_from_any_thread()
class StreamOptions:
    """How a request is to be made. `repr` shows no key."""

    __slots__ = (
        "_hooks",
        "_thread",
        "api_key",
        "headers",
        "max_tokens",
        "session_id",
        "thinking_budgets",
        "thinking_level",
    )

    def __init__(self, request: LlmRequest, headers: Mapping[str, str]) -> None:
        """Take the options of a request."""
        self.api_key: str | None = request.api_key
        """The key or the access token; None: the headers carry it."""
        self.headers: Mapping[str, str] = headers
        """Headers that are configured for the provider and the model."""
        self.thinking_level: ThinkingLevel = request.thinking_level
        self.thinking_budgets: Mapping[ThinkingLevel, int] = dict(request.thinking_budgets)
        """Tokens to think with, by level."""
        self.max_tokens: int | None = request.max_tokens
        """The longest answer; None: what the model allows."""
        self.session_id: str = request.session_id
        """The same in all requests of a conversation."""
        self._hooks: RequestHooks | None = request.hooks
        self._thread = LoopThread()

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    async def on_payload(self, payload: object) -> object:
        """Give other extensions the body before it is sent; returns the body to send."""
        if self._hooks is None or not self._hooks.wants_payload:
            return payload
        return await self._hooks.payload(payload)

    async def on_response(self, status: int, headers: Mapping[str, str]) -> None:
        """Report the head of the response to other extensions, before its body is read."""
        if self._hooks is not None:
            await self._hooks.answered(status, headers)

    async def on_stream_event(self, data: object) -> None:
        """Report one event of the server's stream, as JSON values, to other extensions."""
        if self._hooks is not None and self._hooks.hears_stream:
            await self._hooks.streamed(data)


class StreamSimple(Protocol):
    """`stream_simple` of a provider: an async generator function, or what returns an iterable of events."""

    def __call__(
        self, model: Model, context: StreamContext, options: StreamOptions, /
    ) -> AsyncIterable[StreamEvent] | Iterable[StreamEvent] | Awaitable[object]:
        """Answer one request. A plain iterable is read in a worker thread, so that it may block."""
        ...


class ExtensionProvider:
    """The provider of one extension, as the agent asks it: a `Provider` of `llm.base`."""

    def __init__(self, caller: Caller, path: str, name: str, function: Function) -> None:
        """Answer by `function`, which the extension at `path` has registered for the provider `name`."""
        self._caller = caller
        self._owner = Owner(path, EVENT)
        self._name = name
        self._function = function

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`: raises only `trio.Cancelled`."""
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
        """Read the events of one answer; return why there is none."""
        if self._caller.is_stale:
            return "the extension that registered it is not loaded any more"
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
        """Return what gives the next event, or `_END`; None: it is no stream of events."""
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
        """Let a generator end that was left before its end."""
        close: object = getattr(stream, "aclose", None) or getattr(stream, "close", None)
        if not callable(close):
            return
        try:
            # A generator in a thread may still be at work; nothing waits for it.
            with suppress(ValueError):
                await self._caller.run(self._owner, close, in_thread=False, is_timed=False)
        except BaseException as error:
            passing, failure = ownership(error)
            if failure is not None:
                _log.info("%s of provider %s failed while it was closed: %s", EVENT, self._name, failure_text(failure))
            if passing is not None:
                raise passing from None


def _context(request: LlmRequest) -> StreamContext:
    """Copy what is to be sent, in the roles that every provider has."""
    return StreamContext(
        request.system_prompt,
        copy.deepcopy(provider_messages(request.messages, request.model, str)),
        [
            {"name": tool.name, "description": tool.description, "parameters": copy.deepcopy(dict(tool.parameters))}
            for tool in request.tools
        ],
    )
