"""A provider without an API: `stream_simple` makes its answers here.

    pinnace -e examples/extensions/echo_provider.py --provider echo --model parrot "Say it again"

A real provider sends `context` to a server and yields the events of its response. An exception, an invalid event and a
stream without an end event fail the request with an error; an abort cancels the generator at its next `await`.
"""

from collections.abc import AsyncIterator

import trio

from pinnace.extensions import ExtensionAPI, Model, StreamContext, StreamEvent, StreamOptions, message_text

PAUSE_S = 0.01


async def stream(model: Model, context: StreamContext, options: StreamOptions) -> AsyncIterator[StreamEvent]:
    """Repeat the last message, word by word."""
    text = message_text(context.messages[-1])
    yield {"type": "start"}
    yield {"type": "text_start", "contentIndex": 0}
    words = text.split(" ")
    for number, word in enumerate(words):
        await trio.sleep(PAUSE_S)
        yield {"type": "text_delta", "contentIndex": 0, "delta": word if number == 0 else f" {word}"}
    yield {"type": "text_end", "contentIndex": 0}
    yield {"type": "done", "reason": "stop", "usage": {"input": len(context.messages), "output": len(words)}}


def extension(pi: ExtensionAPI) -> None:
    """Register the provider."""
    pi.register_provider(
        "echo",
        base_url="http://127.0.0.1",
        api="echo",
        api_key="none",  # it needs no key
        models=[{"id": "parrot", "name": "Parrot", "cost": {"input": 1, "output": 2}}],
        stream_simple=stream,
    )
