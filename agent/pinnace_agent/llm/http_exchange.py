"""One request to a provider, and its streamed answer: what every API over HTTP has in common.

Sends the request, hands events to the reader of an API, and turns every failure into the message's end. Decides about
connections, time and the end of the body. Must not know any API: what is sent, and what an event means, is decided by
whoever calls.
"""

import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

import trio

from pinnace_agent.llm.base import LlmRequest
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.client import CONNECT_TIMEOUT_S, ProxyUnusable, client_for
from pinnace_agent.llm.content_encoding import BodyDecoder, Undecodable
from pinnace_agent.llm.failures import MAX_BODY_BYTES, FailureSigns, FailureTexts, retry_after_s
from pinnace_agent.llm.hooked_request import RefusedRequest, UnsendableBody, as_hooks_want, tell_events
from pinnace_agent.llm.http_request import HttpRequest
from pinnace_agent.llm.request_body import body_stream
from pinnace_agent.llm.sse import MAX_EVENT_BYTES, EventTooLarge, SseEvent, SseReader
from pinnace_spec.messages import FailureCode

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger("pinnace.llm")

# After the finish reason only the usage may come, in the same breath. A server that sends neither it nor an end must
# not keep the answer from being used.
_USAGE_S: Final = 10.0
# After the last event only the end of the body is missing, mostly in the same packet. Reading it lets the next
# request use the connection; waiting longer would cost more than a new one.
_TAIL_S: Final = 0.05
# An error's body is short; a server that does not end it must not hide the error.
_ERROR_BODY_S: Final = 10.0
# More connections than a client keeps; whatever happens, sending again has an end.
_MAX_KEPT: Final = 16

# Making a request takes 5 us a message. Of more than so many it would keep the other tasks waiting.
_LONG: Final = 500

_REFUSED: Final = "The request was not sent"
_NO_BODY: Final = "The request cannot be sent: what an extension has made of its body is no JSON"
_UNSENDABLE: Final = "The request cannot be sent: the API key or a header holds characters that HTTP does not allow"


class StreamBroken(Exception):
    """The stream says that it failed, or can't be read. The text is for the user."""


class UnreadableEvent(StreamBroken):
    """An event can't be read."""


class StreamReader(Protocol):
    """Reads the events of one answer into its builder."""

    @property
    def is_complete(self) -> bool:
        """Whether the provider has said how the answer ends; what may still come is not worth waiting for."""
        ...

    def read(self, event: SseEvent) -> bool:
        """Add what one event says; return whether it is the last of the stream.

        Raises:
            UnreadableEvent: It can't be read. The message stays as it is; once `is_complete`, that is passed over.
            StreamBroken: It tells an error. The message stays as it is.
        """
        ...

    def finish(self) -> None:
        """End the message: as the provider said, or in failure if it did not say how. Once, after the last event."""
        ...


async def exchange(
    request: LlmRequest,
    builder: MessageBuilder,
    make: Callable[[], HttpRequest],
    reader: StreamReader,
    texts: FailureTexts,
) -> None:
    """Send what `make` returns and read the answer into `builder`. As `Provider.stream`: raises only `trio.Cancelled`.

    `make` is called in a thread if the conversation is long.
    """
    is_long = len(request.messages) > _LONG
    http = await trio.to_thread.run_sync(make, abandon_on_cancel=True) if is_long else make()
    exchanged = _Exchange(request, builder, reader, texts)
    begun_s = time.monotonic()
    failure = await exchanged.run(http)
    if _log.isEnabledFor(logging.INFO):
        _log_request(request, exchanged, time.monotonic() - begun_s)
    if failure is not None and not builder.is_finished:
        builder.signs = texts.signs._replace(address=builder.signs.address)
        builder.fail(failure)


def _log_request(request: LlmRequest, exchanged: "_Exchange", duration_s: float) -> None:
    details: dict[str, object] = {
        "provider": request.model["provider"],
        "model": request.model["id"],
        "address": exchanged.address,
        "status": exchanged.status,
        "durationMs": round(duration_s * 1000),
    }
    if exchanged.answered_s is not None:
        details["firstByteMs"] = round(exchanged.answered_s * 1000)
    _log.info("model_request", extra={"details": details})


class _Exchange:
    """One request and its answer. Methods that return a text return what the user reads if it is no success."""

    def __init__(self, request: LlmRequest, builder: MessageBuilder, reader: StreamReader, texts: FailureTexts) -> None:
        self._request = request
        self._builder = builder
        self._reader = reader
        self._texts = texts
        self._host = ""
        self.address: str | None = None
        """Where the request goes, without what may be a secret."""
        self.status: int | None = None
        """What HTTP has answered."""
        self.answered_s: float | None = None
        """How long that took."""

    async def run(self, http: HttpRequest) -> str | None:
        """Send the request and read the answer. Without a text the message has ended."""
        try:
            client = await client_for(self._request.model["baseUrl"])
        except OSError as error:  # also what ssl raises
            self._texts.signs = FailureSigns(kind="unreachable")
            return self._texts.transport_failed("The certificates cannot be read", error)
        except ProxyUnusable as error:
            self._texts.signs = FailureSigns(kind="bad_address")
            return str(error)
        import httpx

        if self._request.hooks is not None:
            try:
                http = await as_hooks_want(self._request.hooks, http)
            except UnsendableBody as error:
                return f"{_NO_BODY}: {self._texts.shown(str(error))}"
            except RefusedRequest as error:
                return f"{_REFUSED}: {self._texts.shown(str(error))}"
        failure = None
        try:
            url = httpx.URL(http.url)
            self._host = url.host
            address = url.copy_with(username=None, password=None, query=None, fragment=None)
            self.address = self._texts.shown(str(address))
            self._builder.signs = FailureSigns(address=self.address)
        except (httpx.InvalidURL, UnicodeError) as error:
            return self._invalid_address(str(error))
        try:
            limits = httpx.Timeout(self._request.idle_timeout_s, connect=CONNECT_TIMEOUT_S, pool=None)
            message = client.build_request("POST", url, headers=http.headers, content=http.body, timeout=limits)
        except UnicodeError:  # what it says quotes the header, and it may be the one with the key
            return _UNSENDABLE
        message.stream = body_stream(http.body)
        try:
            failure = await self._send_to_one_that_listens(client, message)
        except httpx.UnsupportedProtocol as error:
            return self._invalid_address(str(error))
        except UnicodeError:  # from the look-up of a host with a label that is empty or too long
            return self._invalid_address("no host can have this name")
        except httpx.LocalProtocolError:
            return _UNSENDABLE
        except httpx.HTTPError as error:
            if not self._reader.is_complete:
                failure = self._transport_failure(error)
        if failure is None and not self._builder.is_finished:
            self._reader.finish()
        return failure

    async def _send_to_one_that_listens(self, client: "httpx.AsyncClient", message: "httpx.Request") -> str | None:
        """Send the request, and again if the connection was kept from before and turns out to be dead.

        A server may close a connection at the moment it is used again. No answer has begun then, not even with a whole
        head, so that nobody notices a second request. Each try uses up one of the connections that were kept; what
        fails on a new one has failed.
        """
        import httpx

        begun_s = time.monotonic()
        left = _MAX_KEPT
        while True:
            connecting = _Connecting()
            message.extensions["trace"] = connecting.trace
            try:
                response = await client.send(message, stream=True)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
                if connecting.is_new or not left or not _is_silence(error):
                    raise
                left -= 1
                continue
            self.status, self.answered_s = response.status_code, time.monotonic() - begun_s
            return await self._receive(response)

    async def _receive(self, response: "httpx.Response") -> str | None:
        try:
            if self._request.hooks is not None:
                await self._request.hooks.answered(response.status_code, dict(response.headers))
            if not response.is_success:
                return await self._refusal(response)
            self._builder.start()
            return await self._read(response)
        finally:
            # Everything has been read or given up by now, so this does not wait for the network.
            await response.aclose()

    async def _read(self, response: "httpx.Response") -> str | None:
        """Read the stream to its end."""
        sse = SseReader()
        head = bytearray()  # what came before any event, if nothing else comes
        has_events = False
        try:
            decoder = BodyDecoder(response.headers.get("content-encoding", ""))
            async with _pieces(response) as pieces:
                with trio.CancelScope() as waiting:
                    async for raw in pieces:
                        waiting.deadline = math.inf
                        piece = decoder.decode(raw)
                        events = sse.feed(piece)
                        has_events = has_events or bool(events)
                        if not has_events and len(head) < MAX_BODY_BYTES:
                            head += piece
                        if self._request.hooks is not None:
                            await tell_events(self._request.hooks, events)
                        if self._take(events):
                            self._reader.finish()
                            await _read_tail(pieces)
                            return None
                        await self._builder.room()
                        if self._reader.is_complete:
                            waiting.deadline = trio.current_time() + _USAGE_S
            rest = sse.finish()
            if self._request.hooks is not None:
                await tell_events(self._request.hooks, rest)
            with suppress(UnreadableEvent):  # the stream was cut inside of its last event
                self._take(rest)
        except StreamBroken as broken:
            return str(broken)
        except EventTooLarge:
            self._texts.signs = FailureSigns(kind="bad_answer")
            return f"The stream holds an event of more than {MAX_EVENT_BYTES} bytes"
        except Undecodable as error:
            self._texts.signs = FailureSigns(kind="bad_answer")
            return f"The answer of {self._host} cannot be decoded: {error}"
        if not has_events and not rest:
            return self._texts.no_event_stream(response.headers.get("content-type", ""), bytes(head))
        return None

    def _take(self, events: Iterable[SseEvent]) -> bool:
        """Read what events say; return whether the last one of the stream was among them."""
        for event in events:
            try:
                if self._reader.read(event):
                    return True
            except UnreadableEvent:
                if not self._reader.is_complete:  # else the answer is whole, whatever this was
                    raise
        return False

    async def _refusal(self, response: "httpx.Response") -> str:
        """Read as much of an error's body as is worth showing."""
        import httpx

        body = bytearray()
        async with _pieces(response) as pieces:
            with trio.move_on_after(_ERROR_BODY_S):
                try:
                    decoder = BodyDecoder(response.headers.get("content-encoding", ""))
                    async for piece in pieces:
                        body += decoder.decode(piece)
                        if len(body) >= MAX_BODY_BYTES:
                            break
                except (httpx.HTTPError, Undecodable):  # the status alone says enough
                    pass
        delay_s = retry_after_s(response.headers, time.time())
        return self._texts.refused(response.status_code, bytes(body), response.headers.get("location"), delay_s)

    def _invalid_address(self, problem: str) -> str:
        self._texts.signs = FailureSigns(kind="bad_address")
        return f"Invalid baseUrl: {self._texts.shown(problem)}"

    def _transport_failure(self, error: "httpx.HTTPError") -> str:
        import httpx

        host = self._host
        self._texts.signs = FailureSigns(kind=_failure_kind(error))
        match error:
            case httpx.ConnectTimeout():
                return f"Request timed out: no connection to {host} within {CONNECT_TIMEOUT_S:.0f} s"
            case httpx.TimeoutException():
                return f"Request timed out: nothing came from {host} for {self._request.idle_timeout_s:g} s"
            case _:
                kind = "Connection lost" if self._builder.has_started else "Connection error"
                return self._texts.transport_failed(kind, error)


def _failure_kind(error: "httpx.HTTPError") -> FailureCode:
    import httpx

    match error:
        case httpx.TimeoutException():
            return "timeout"
        case httpx.ConnectError() | httpx.ProxyError():
            return "unreachable"
        case _:
            return "connection_lost"


class _Connecting:
    """Watches whether a request gets a connection of its own."""

    def __init__(self) -> None:
        self.is_new = False

    async def trace(self, name: str, _: object) -> None:
        """Take one step of the connection's; each is told when it begins and when it ends."""
        if name.endswith(".connect_tcp.started"):  # what stands before it says whether there is a proxy between
            self.is_new = True


def _is_silence(error: "httpx.HTTPError") -> bool:
    """Tell whether a connection ended without a word, from one that ended with words that are no HTTP."""
    import httpx

    return not isinstance(error, httpx.RemoteProtocolError) or str(error).startswith("Server disconnected")


async def _read_tail(pieces: AsyncIterator[bytes]) -> None:
    """Read what follows the last event, so that the connection can be kept."""
    import httpx

    with trio.move_on_after(_TAIL_S):
        try:
            async for _ in pieces:
                pass
        except httpx.HTTPError:  # the answer is complete; the connection is just not kept
            pass


@asynccontextmanager
async def _pieces(response: "httpx.Response") -> AsyncGenerator[AsyncIterator[bytes], None]:
    """Give the body in pieces; on leaving, whatever the reason, the connection is done with.

    httpx reads through a chain of generators. One that is left before its end is closed by the garbage
    collector, at a time when nothing can be awaited; so the chain is run to its end here, by a cancellation
    that does not wait for the network.
    """
    import httpx

    pieces = response.aiter_raw()
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
