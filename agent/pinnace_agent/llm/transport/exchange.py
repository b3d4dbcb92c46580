"""One request to a provider, and its streamed answer: the part that all APIs over HTTP share.

Sends the request, hands events to the reader of an API, and turns every failure into the message's end. Decides about
connections, time and the end of the body. Independent of any API: the caller decides what is sent and what an event
means.
"""

import json
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

import orjson
import trio

from pinnace_agent.core.json_access import as_object, compact_body
from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.llm.builder import FailureSigns, MessageBuilder
from pinnace_agent.llm.failures import MAX_BODY_BYTES, FailureTexts, RefusedResponse, retry_after_s
from pinnace_agent.llm.request import LlmRequest, RefusedRequest, RequestHooks
from pinnace_agent.llm.transport.bodies import BodyDecoder, Undecodable, body_stream
from pinnace_agent.llm.transport.client import CONNECT_TIMEOUT_S, client_for
from pinnace_agent.llm.transport.proxies import ProxyUnusable
from pinnace_agent.llm.transport.request import HttpRequest
from pinnace_agent.llm.transport.sse import MAX_EVENT_BYTES, EventTooLarge, SseEvent, SseReader
from pinnace_spec.records.messages import FailureCode
from pinnace_spec.wire.json_text import WireError, decode_line

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger("pinnace.llm")

# After the finish reason only the usage may follow, immediately. A server that sends neither it nor an end must
# not keep the answer from being used.
_USAGE_S: Final = 10.0
# After the last event only the end of the body is missing, mostly in the same packet. Reading it lets the next
# request use the connection; waiting longer would cost more than a new one.
_TAIL_S: Final = 0.05
# An error's body is short; a server that does not end it must not hide the error.
_ERROR_BODY_S: Final = 10.0
# More connections than a client keeps: the number of repetitions is bounded.
_MAX_KEPT: Final = 16

# Making a request takes 5 us a message. With more messages it would block the other tasks.
_LONG: Final = 500

# 500: of servers that fail while they fill in the template of a model.
_REFUSED_STATUSES: Final = frozenset({400, 422, 500})
# More conversations with servers than a process has at once; the oldest are forgotten.
_MOST_REFUSED: Final = 256
# Session, base URL and model -> the names of the parts of a request that the server has refused.
_refused: Final[PerAgent[dict[tuple[str, str, str], frozenset[str]]]] = PerAgent(dict)

_REFUSED: Final = "The request was not sent"
# Where Amazon's servers name an error, beside its message in the body.
_ERROR_NAME: Final = "x-amzn-errortype"

_NO_BODY: Final = "The request cannot be sent: what an extension has made of its body is no JSON"
_UNSENDABLE: Final = "The request cannot be sent: the API key or a header holds characters that HTTP does not allow"


class StreamBroken(Exception):
    """The stream reports an error, or can't be read. The text is for the user."""


class UnreadableEvent(StreamBroken):
    """An event can't be read."""


class UnsendableBody(Exception):
    """The body that a hook returned can't be sent; the text names the reason."""


class EventFraming(Protocol):
    """Divides the bytes of one answer into events."""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take some bytes, at least one, and return the events that they complete.

        Raises:
            EventTooLarge: The reader can't be used any more.
        """
        ...

    def finish(self) -> list[SseEvent]:
        """End the stream; return the event that its end completes, if any."""
        ...


class StreamReader(Protocol):
    """Reads the events of one answer into its builder."""

    @property
    def is_complete(self) -> bool:
        """Whether the provider has sent the stop reason; later events need not be awaited."""
        ...

    def read(self, event: SseEvent) -> bool:
        """Add one event to the message; return whether it is the last of the stream.

        Raises:
            UnreadableEvent: It can't be read. The message is unchanged; once `is_complete`, the error is ignored.
            StreamBroken: It is an error. The message stays as it is.
        """
        ...

    def finish(self) -> None:
        """End the message with the provider's stop reason, or as failed without one. Once, after the last event."""
        ...


def event_value(data: bytes, texts: FailureTexts) -> object:
    """Return the JSON value of an event; None if it is blank.

    Raises:
        UnreadableEvent: It is not JSON; `texts` words the error.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if not data.strip():
            return None
    try:  # unpaired surrogates are JSON, but orjson refuses them
        return decode_line(data)
    except WireError as error:
        raise UnreadableEvent(texts.unreadable_chunk(error.text, data)) from None


async def apply_request_hooks(hooks: RequestHooks, http: HttpRequest) -> HttpRequest:
    """Return a request with the headers and the body that the hooks return.

    Raises:
        UnsendableBody: The body can't be sent to any provider.
        RefusedRequest: What a hook returned is unusable.
    """
    http = http._replace(headers=await hooks.headers(http.headers))
    if not hooks.changes_payload:
        return http
    # The body as it would be sent, of any API.
    body = as_object(await hooks.payload(json.loads(http.body)))
    if body is None:
        raise UnsendableBody("it is no object")
    try:
        return http._replace(body=compact_body(body))
    except (TypeError, ValueError, RecursionError) as error:
        raise UnsendableBody(str(error)) from error


async def report_events(hooks: RequestHooks, events: Iterable[SseEvent]) -> None:
    """Pass events of the stream to the hooks that observe it, except those that are not JSON, such as its end mark."""
    for event in events:
        if not hooks.observes_stream:
            return
        try:
            data = json.loads(event.data)
        except (ValueError, RecursionError):
            continue
        await hooks.streamed(data)


async def exchange(
    request: LlmRequest,
    builder: MessageBuilder,
    make: Callable[[], HttpRequest],
    reader: StreamReader,
    texts: FailureTexts,
    framing: Callable[[], EventFraming] = SseReader,
) -> None:
    """Send what `make` returns and read the answer into `builder`. As `Provider.stream`: raises only `trio.Cancelled`.

    `make` is called in a thread if the conversation is long. `framing` is the encoding of the answer's events.
    """
    is_long = len(request.messages) > _LONG
    http = await trio.to_thread.run_sync(make, abandon_on_cancel=True) if is_long else make()
    exchanged = _Exchange(request, builder, reader, texts, framing)
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
    """One request and its answer. Methods that return a text return the error text for the user, if it failed."""

    def __init__(
        self,
        request: LlmRequest,
        builder: MessageBuilder,
        reader: StreamReader,
        texts: FailureTexts,
        framing: Callable[[], EventFraming],
    ) -> None:
        self._request = request
        self._framing = framing
        self._builder = builder
        self._reader = reader
        self._texts = texts
        self._server = (request.session_id, request.model["baseUrl"], request.model["id"])
        self._host = ""
        self.address: str | None = None
        """The address of the request, without parts that may be secret."""
        self.status: int | None = None
        """The status of the response."""
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
                http = await apply_request_hooks(self._request.hooks, http)
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
        http = http._replace(body=self._without_refused(http.body))
        try:
            limits = httpx.Timeout(self._request.idle_timeout_s, connect=CONNECT_TIMEOUT_S, pool=None)
            message = client.build_request("POST", url, headers=http.headers, content=http.body, timeout=limits)
        except UnicodeError:  # its text quotes the header, which may contain the key
            return _UNSENDABLE
        try:
            failure = await self._send_adapted(client, message, http)
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

    async def _send_adapted(
        self, client: "httpx.AsyncClient", message: "httpx.Request", http: HttpRequest
    ) -> str | None:
        """Send the request, and again without an optional part that the server refuses, once for each part."""
        body = http.body
        while True:
            if http.sign is not None:
                message.headers.update(http.sign(str(message.url), http.headers, body))
            message.stream = body_stream(body)
            message.headers["Content-Length"] = str(len(body))
            failure = await self._send_until_answered(client, message)
            if failure is None or self.status not in _REFUSED_STATUSES or self._builder.has_started:
                return failure
            adapted = self._without_newly_refused(body, failure)
            if adapted is None:
                return failure
            body = adapted
            _log.info("request_part_refused", extra={"details": {"address": self.address, "text": failure}})

    def _without_refused(self, body: bytes) -> bytes:
        """Return a body without the parts that the server has refused before in this session."""
        names = _refused.get().get(self._server)
        if names is None:
            return body
        from pinnace_agent.llm.refused_parts import without

        return without(body, names) or body

    def _without_newly_refused(self, body: bytes, text: str) -> bytes | None:
        """Return a body without the parts that a refusal is about, and remember them; None: it has none of them."""
        from pinnace_agent.llm.refused_parts import refused_names, without

        found = refused_names(text)
        adapted = without(body, found) if found else None
        if adapted is not None:
            refused = _refused.get()
            refused[self._server] = refused.get(self._server, frozenset()).union(found)
            while len(refused) > _MOST_REFUSED:
                del refused[next(iter(refused))]
        return adapted

    async def _send_until_answered(self, client: "httpx.AsyncClient", message: "httpx.Request") -> str | None:
        """Send the request, and again if the connection was kept from before and turns out to be closed.

        A server may close a connection at the moment it is used again. No answer has begun then, not even with a whole
        head, so that a second request has no effect of its own. Each try uses up one of the connections that were kept;
        a failure on a new one is final.
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
                if connecting.is_new or not left or not _is_silent_end(error):
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
        framing = self._framing()
        head = bytearray()  # what came before any event, if nothing else comes
        has_events = False
        try:
            decoder = BodyDecoder(response.headers.get("content-encoding", ""))
            async with _pieces(response) as pieces:
                with trio.CancelScope() as waiting:
                    async for raw in pieces:
                        waiting.deadline = math.inf
                        piece = decoder.decode(raw)
                        events = framing.feed(piece)
                        has_events = has_events or bool(events)
                        if not has_events and len(head) < MAX_BODY_BYTES:
                            head += piece
                        if self._request.hooks is not None:
                            await report_events(self._request.hooks, events)
                        if self._take(events):
                            self._reader.finish()
                            await _read_tail(pieces)
                            return None
                        await self._builder.room()
                        if self._reader.is_complete:
                            waiting.deadline = trio.current_time() + _USAGE_S
            rest = framing.finish()
            if self._request.hooks is not None:
                await report_events(self._request.hooks, rest)
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
        """Read events; return whether the last one of the stream was among them."""
        for event in events:
            try:
                if self._reader.read(event):
                    return True
            except UnreadableEvent:
                if not self._reader.is_complete:  # else the answer is complete, and the event is ignored
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
                except (httpx.HTTPError, Undecodable):  # the status alone is informative enough
                    pass
        delay_s = retry_after_s(response.headers, time.time())
        location, name = (response.headers.get(each) for each in ("location", _ERROR_NAME))
        return self._texts.refused(RefusedResponse(response.status_code, bytes(body), location, delay_s, name))

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
        """Take one step of the connection; each is reported when it begins and when it ends."""
        if name.endswith(".connect_tcp.started"):  # its prefix shows whether there is a proxy
            self.is_new = True


def _is_silent_end(error: "httpx.HTTPError") -> bool:
    """Return whether a connection ended without sending anything, instead of something that is not HTTP."""
    import httpx

    return not isinstance(error, httpx.RemoteProtocolError) or str(error).startswith("Server disconnected")


async def _read_tail(pieces: AsyncIterator[bytes]) -> None:
    """Read the rest after the last event, so that the connection can be kept."""
    import httpx

    with trio.move_on_after(_TAIL_S):
        try:
            async for _ in pieces:
                pass
        except httpx.HTTPError:  # the answer is complete; the connection is just not kept
            pass


@asynccontextmanager
async def _pieces(response: "httpx.Response") -> AsyncGenerator[AsyncIterator[bytes], None]:
    """Yield the body in pieces; on leaving for any reason the connection is finished.

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
            except httpx.HTTPError:  # the body is no longer read
                pass
