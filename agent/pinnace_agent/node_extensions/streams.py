"""Model requests that an extension in Node answers: `streamSimple`. Imported with the first request."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self, cast

import trio

from pinnace_agent.core.json_access import as_object
from pinnace_agent.extensions.registration.stream_requests import StreamContext, StreamOptions
from pinnace_agent.node_extensions.errors import ProcessLost, ScriptError

if TYPE_CHECKING:
    from pinnace_agent.node_extensions.bridge import Bridge

# Events come as fast as the extension makes them, and are read as fast as the client reads.
_MOST_EVENTS: Final = 1_000_000


class StreamedAnswer:
    """The events of one answer, an async iterator. `aclose` aborts the signal of the request."""

    def __init__(self, bridge: "Bridge", number: int, model: object, context: object, options: object) -> None:
        """Request an answer of the function with a number, with the arguments of `stream_simple`.

        The request is a task of the extension, since an answer is read under the time limit of each event.
        """
        # casts: what the caller of a `stream_simple` passes
        request = _request(cast("StreamContext", context))
        chosen = _options(cast("StreamOptions", options))
        send, self._events = trio.open_memory_channel[Mapping[str, object]](_MOST_EVENTS)
        self._scope = trio.CancelScope()
        self._error: Exception | None = None

        def take(event: object) -> None:
            send.send_nowait(as_object(event) or {})

        async def answer() -> None:
            with self._scope, send:
                try:
                    await bridge.call("stream", take, number=number, model=model, request=request, options=chosen)
                except (ScriptError, ProcessLost) as error:
                    self._error = error

        bridge.api.background.start_soon(answer)

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> Mapping[str, object]:
        """Return the next event; raises what the extension has thrown."""
        try:
            return await self._events.receive()
        except trio.EndOfChannel:
            if self._error is not None:
                raise self._error from None
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """End the request."""
        self._scope.cancel()
        await trio.lowlevel.checkpoint()


def _request(context: StreamContext) -> Mapping[str, object]:
    return {"systemPrompt": context.system_prompt, "messages": context.messages, "tools": context.tools}


def _options(options: StreamOptions) -> Mapping[str, object]:
    level = options.thinking_level
    fields = {
        "apiKey": options.api_key,
        "headers": options.headers,
        "reasoning": None if level == "off" else level,
        "thinkingBudgets": options.thinking_budgets,
        "maxTokens": options.max_tokens,
        "sessionId": options.session_id,
    }
    return {name: value for name, value in fields.items() if value is not None}
