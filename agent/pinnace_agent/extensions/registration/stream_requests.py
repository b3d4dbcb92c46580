"""The arguments of `stream_simple` of a provider: the conversation and the options of one request."""

from collections.abc import AsyncIterable, Awaitable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from pinnace_agent.core.loop_thread import LoopThread, usable_from_any_thread
from pinnace_agent.llm.context import ContextMessage
from pinnace_agent.llm.request import LlmRequest, RequestHooks
from pinnace_spec.records.messages import Model, ThinkingLevel

StreamEvent: TypeAlias = Mapping[str, object]
"""One event, such as `{"type": "text_delta", "contentIndex": 0, "delta": "Hel"}`."""


class StreamContext:
    """The conversation of a request. A copy, so changes have no effect elsewhere."""

    __slots__ = ("messages", "system_prompt", "tools")

    def __init__(
        self, system_prompt: str, messages: Sequence[ContextMessage], tools: Sequence[Mapping[str, object]]
    ) -> None:
        """Create a context from copied values."""
        self.system_prompt = system_prompt
        """The system prompt; empty: there is none."""
        self.messages = messages
        """Messages of the roles `user`, `assistant` and `toolResult`, each call followed by its result."""
        self.tools = tools
        """The declared tools: `name`, `description` and `parameters`, a JSON schema."""


@usable_from_any_thread()
class StreamOptions:
    """The options of a request. Their `repr` shows no key."""

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
        """Copy the options of a request."""
        self.api_key: str | None = request.api_key
        """The key or the access token; None: the headers carry it."""
        self.headers: Mapping[str, str] = headers
        """Headers that are configured for the provider and the model."""
        self.thinking_level: ThinkingLevel = request.thinking_level
        self.thinking_budgets: Mapping[ThinkingLevel, int] = dict(request.thinking_budgets)
        """Thinking tokens, by level."""
        self.max_tokens: int | None = request.max_tokens
        """The most tokens of the answer; None: the model's limit."""
        self.session_id: str = request.session_id
        """An id that all requests of a conversation share."""
        self._hooks: RequestHooks | None = request.hooks
        self._thread = LoopThread()

    @property
    def __loop_thread__(self) -> LoopThread:
        return self._thread

    async def on_payload(self, payload: object) -> object:
        """Let other extensions change the body before it is sent; returns the body to send."""
        if self._hooks is None or not self._hooks.changes_payload:
            return payload
        return await self._hooks.payload(payload)

    async def on_response(self, status: int, headers: Mapping[str, str]) -> None:
        """Report the head of the response to other extensions, before its body is read."""
        if self._hooks is not None:
            await self._hooks.answered(status, headers)

    async def on_stream_event(self, data: object) -> None:
        """Report one event of the server's stream, as JSON values, to other extensions."""
        if self._hooks is not None and self._hooks.observes_stream:
            await self._hooks.streamed(data)


class StreamSimple(Protocol):
    """`stream_simple` of a provider: an async generator function, or a function that returns an iterable of events."""

    def __call__(
        self, model: Model, context: StreamContext, options: StreamOptions, /
    ) -> AsyncIterable[StreamEvent] | Iterable[StreamEvent] | Awaitable[object]:
        """Answer one request. A plain iterable is read in a worker thread, so that it may block."""
        ...
