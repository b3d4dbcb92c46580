"""Provider: OpenAI chat completions, and every server that speaks them.

Sends the request, reads the stream, and turns every failure into the message's end. What is sent and how chunks
are read is decided elsewhere (`openai_request`, `openai_stream`); this module knows HTTP and time.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.llm import failures
from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.client import CONNECT_TIMEOUT_S, IDLE_TIMEOUT_S, client_for
from pinnace_agent.llm.openai_compat import Compat, compat_of
from pinnace_agent.llm.openai_request import http_request
from pinnace_agent.llm.openai_stream import ChunkReader, StreamBroken
from pinnace_agent.llm.sse import MAX_EVENT_BYTES, EventTooLarge, SseReader

if TYPE_CHECKING:
    import httpx

_DONE: Final = b"[DONE]"
# After the last event only the end of the body is missing, mostly in the same packet. Reading it lets the next
# request use the connection; waiting longer would cost more than a new one.
_TAIL_S: Final = 0.05
# An error's body is short; a server that does not end it must not hide the error.
_ERROR_BODY_S: Final = 10.0


class OpenAICompletionsProvider:
    """Speaks `openai-completions`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        compat = compat_of(request.model)
        failure = await _ask(request, compat, builder)
        if failure is not None:
            secrets = failures.secrets_of(request.api_key, request.headers)
            builder.fail(failures.redact(failure, secrets))


async def _ask(request: LlmRequest, compat: Compat, builder: MessageBuilder) -> str | None:
    """Send the request and read the answer; return what the user reads if the message has not ended by itself."""
    base_url = request.model["baseUrl"]
    try:
        client = await client_for(base_url)
    except OSError as error:  # also what ssl raises
        return failures.transport_failed("The certificates cannot be read", error)
    import httpx

    reader = ChunkReader(builder, compat)
    try:
        http = http_request(request, compat)
        async with client.stream("POST", http.url, headers=http.headers, content=http.body) as response:
            if not response.is_success:
                return await _refusal(response)
            builder.start()
            failure = await _read(response, reader, builder)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        return f"Invalid baseUrl: {error}"
    except (httpx.LocalProtocolError, UnicodeEncodeError):
        # What these say quotes the header, and it may be the one with the key.
        return "The request cannot be sent: the API key or a header holds characters that HTTP does not allow"
    except httpx.HTTPError as error:
        if reader.finish_reason is None:
            return _transport_failure(error, builder)
        failure = None
    if failure is None and not builder.is_finished:
        reader.finish()
    return failure


async def _read(response: "httpx.Response", reader: ChunkReader, builder: MessageBuilder) -> str | None:
    """Read the stream to its end; return what the user reads if it is no success."""
    sse = SseReader()
    head = bytearray()  # what came before any event, if nothing else comes
    has_events = False
    async with _pieces(response) as pieces:
        try:
            async for piece in pieces:
                events = sse.feed(piece)
                if not has_events and len(head) < failures.MAX_BODY_BYTES:
                    head += piece
                for _, data in events:
                    has_events = True
                    if data == _DONE:
                        reader.finish()
                        await _read_tail(pieces)
                        return None
                    reader.read(data)
                await builder.room()
            for _, data in sse.finish():
                has_events = True
                if data != _DONE:
                    reader.read(data)
        except StreamBroken as broken:
            return str(broken)
        except EventTooLarge:
            return f"The stream holds an event of more than {MAX_EVENT_BYTES} bytes"
    if not has_events:
        return failures.no_event_stream(response.headers.get("content-type", ""), bytes(head))
    return None


async def _read_tail(pieces: AsyncIterator[bytes]) -> None:
    """Read what follows the last event, so that the connection can be kept."""
    import httpx

    with trio.move_on_after(_TAIL_S):
        try:
            async for _ in pieces:
                pass
        except httpx.HTTPError:  # the answer is complete; the connection is just not kept
            pass


async def _refusal(response: "httpx.Response") -> str:
    """Read as much of an error's body as is worth showing."""
    import httpx

    body = bytearray()
    async with _pieces(response) as pieces:
        with trio.move_on_after(_ERROR_BODY_S):
            try:
                async for piece in pieces:
                    body += piece
                    if len(body) >= failures.MAX_BODY_BYTES:
                        break
            except httpx.HTTPError:  # the status alone says enough
                pass
    return failures.refused(response.status_code, bytes(body), response.headers.get("location"))


@asynccontextmanager
async def _pieces(response: "httpx.Response") -> AsyncGenerator[AsyncIterator[bytes], None]:
    """Give the decoded body in pieces; on leaving, whatever the reason, the connection is done with.

    httpx reads through a chain of generators. One that is left before its end is closed by the garbage
    collector, at a time when nothing can be awaited; so the chain is run to its end here, by a cancellation
    that does not wait for the network.
    """
    import httpx

    pieces = response.aiter_bytes()
    try:
        yield pieces
    finally:
        with trio.CancelScope(shield=True) as scope:
            scope.cancel()
            try:
                async for _ in pieces:
                    pass
            except httpx.HTTPError:  # nobody reads any more
                pass


def _transport_failure(error: "httpx.HTTPError", builder: MessageBuilder) -> str:
    import httpx

    host = error.request.url.host
    match error:
        case httpx.ConnectTimeout():
            return f"Request timed out: no connection to {host} within {CONNECT_TIMEOUT_S:.0f} s"
        case httpx.TimeoutException():
            return f"Request timed out: nothing came from {host} for {IDLE_TIMEOUT_S:.0f} s"
        case httpx.DecodingError():
            return f"The answer of {host} cannot be decoded: {error}"
        case _:
            kind = "Connection lost" if builder.has_started else "Connection error"
            return failures.transport_failed(kind, error)
