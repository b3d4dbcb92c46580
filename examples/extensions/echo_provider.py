"""A provider that speaks no API at all: its answers are made here, by `stream_simple`.

    pinnace -e examples/extensions/echo_provider.py --provider echo --model parrot "Say it again"

Real ones send `context` to a server and yield what comes back. An exception, a wrong event and a stream without an end
fail the request with a text that says so; an abort cancels the generator at its next `await`.
"""

from collections.abc import AsyncIterator

import trio

from pinnace.extensions import ExtensionAPI, Model, StreamContext, StreamEvent, StreamOptions, message_text

PAUSE_S = 0.01


async def stream(model: Model, context: StreamContext, options: StreamOptions) -> AsyncIterator[StreamEvent]:
    """Say the last message again, word by word."""
    said = message_text(context.messages[-1])
    yield {"type": "start"}
    yield {"type": "text_start", "contentIndex": 0}
    words = said.split(" ")
    for number, word in enumerate(words):
        await trio.sleep(PAUSE_S)
        yield {"type": "text_delta", "contentIndex": 0, "delta": word if number == 0 else f" {word}"}
    yield {"type": "text_end", "contentIndex": 0}
    yield {"type": "done", "reason": "stop", "usage": {"input": len(context.messages), "output": len(words)}}


def extension(pi: ExtensionAPI) -> None:
    """Register it."""
    pi.register_provider(
        "echo",
        base_url="http://127.0.0.1",
        api="echo",
        api_key="none",  # it needs no key
        models=[{"id": "parrot", "name": "Parrot", "cost": {"input": 1, "output": 2}}],
        stream_simple=stream,
    )
