"""A server that is reached over HTTP: the library's transport, with the limits that it has not.

What a response may hold, how long a message without an answer may take, and with which status a request was refused:
the library has, or shows, none of these, so they are held where its requests leave.
"""

import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple, Protocol

import anyio
import httpx2
import orjson
import trio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, JSONRPCError, JSONRPCMessage, JSONRPCNotification

from pinnace_agent.files.relaxed_json import is_object
from pinnace_agent.llm.failures import retry_after_s
from pinnace_agent.llm.transport.authorities import add_ca_certificates
from pinnace_agent.llm.transport.proxies import ProxyUnusable, proxy_for
from pinnace_agent.mcp import limits
from pinnace_agent.mcp.ports import Challenge, LinkLost
from pinnace_agent.mcp.wire.incoming import IncomingMessages
from pinnace_agent.mcp.wire.local_addresses import RemoteOnlyTransport, must_be_elsewhere
from pinnace_agent.mcp.wire.outgoing import OutgoingMessages
from pinnace_agent.mcp.wire.streams import Streams
from pinnace_agent.mcp.wire.surrogates import Repairing
from pinnace_agent.redaction.policy import Secret

_CONNECT_S: Final = 30.0
_SESSION_HEADER: Final = "mcp-session-id"
_ERROR_STATUS: Final = 400
_BAD_REQUEST: Final = 400
_NAMES_SESSION: Final = re.compile(rb"session", re.IGNORECASE)
_MOST_REFUSAL: Final = 4_096
"""Bytes of a refusal in which a session is looked for."""
_REDIRECTS: Final = 3
"""How often one message follows a redirect: to a path with a slash, to a new version of the address."""
# The code, and what the library says, where it has got no answer: servers use the same code for errors of their own.
_NO_ANSWER: Final = ("SSE stream ",)
_MOST_CHALLENGE: Final = 8_192
"""Characters of `WWW-Authenticate` that are read."""


class Address(NamedTuple):
    """How to reach a server."""

    url: str
    headers: Mapping[str, str]
    auth: httpx2.Auth | None = None
    sign_in_text: str = ""
    """What the user does when a request is refused for want of a token; empty: nothing, the entry is wrong."""


class _Receives(Protocol):
    """The library's stream of what the server sends."""

    async def receive(self) -> SessionMessage | Exception: ...


class _Sends(Protocol):
    """The library's stream of what is sent to the server."""

    async def send(self, item: SessionMessage, /) -> None: ...


class Statuses:
    """With which status each request was refused."""

    def __init__(self) -> None:
        """Know none."""
        self._by_id: dict[object, Challenge] = {}
        self._forgotten: set[object] = set()
        self.session: str | None = None
        """The id that the server has given the session."""
        self.newest: Challenge | None = None
        """The newest of them."""
        self.wait_s: float | None = None
        """How long the server asks to wait with it; None: it does not."""
        self.failure: str | None = None
        """Why the newest message could not be sent, or its answer not be read; the library ends without saying it."""

    def answered(self, request_id: object, response: httpx2.Response, *, is_forgotten: bool = False) -> None:
        """Remember the status of a request that was refused, and whether since the server knows no such session."""
        if is_forgotten:
            self._forgotten.add(request_id)
        if response.status_code >= _ERROR_STATUS:
            header = response.headers.get("www-authenticate", "")[:_MOST_CHALLENGE]
            self.newest = self._by_id[request_id] = Challenge(response.status_code, header)
            self.wait_s = retry_after_s(response.headers, time.time())
        else:  # the second time, with another token
            self._by_id.pop(request_id, None)
            self.newest = self.wait_s = None

    def take_forgotten(self, request_id: object) -> bool:
        """Return, once, whether a request was refused because the server has forgotten the session."""
        is_forgotten = request_id in self._forgotten
        self._forgotten.discard(request_id)
        return is_forgotten

    def take(self, request_id: object) -> Challenge | None:
        """Return the status of a refused request, once; None: it was not refused by one."""
        return self._by_id.pop(request_id, None)


class _Body(httpx2.AsyncByteStream):
    """A response up to the limit. A stream of events has one for each event, which the library holds."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int | None, failed: Callable[[Exception], None]) -> None:
        self._inner = inner
        self._limit = limit
        self._failed = failed
        self._repairing = Repairing()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        try:
            async for piece in self._inner:
                count += len(piece)
                if self._limit is not None and count > self._limit:
                    raise httpx2.ReadError(f"message over {self._limit >> 20} MiB")
                if repaired := self._repairing.add(piece):
                    yield repaired
            if rest := self._repairing.rest():
                yield rest
        except httpx2.HTTPError as error:
            self._failed(error)
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Limited(httpx2.AsyncBaseTransport):
    """The requests of one connection, as they leave."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, statuses: Statuses, lost: Callable[[str], None]) -> None:
        self._inner = inner
        self._statuses = statuses
        self._lost = lost
        self._redirected: dict[object, set[httpx2.URL]] = {}
        """By the id of a message, the addresses that have redirected it."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        sent = await _sent(request)
        is_one_way = bool(sent) and not ("id" in sent and "method" in sent)
        try:
            with trio.fail_after(limits.ONE_WAY_S if is_one_way else float("inf")):
                response = await self._inner.handle_async_request(request)
        except trio.TooSlowError:
            # The library sends nothing else before this is answered.
            self._lost(f"it has not taken a message within {limits.ONE_WAY_S:g} seconds")
            raise httpx2.ReadTimeout("one-way message") from None
        except httpx2.HTTPError as error:
            if sent:
                self._failed(error)
            raise
        is_initialize = sent.get("method") == "initialize"
        response = await _bounded(response, self._failed if sent else _pass_over)
        if "id" in sent:
            if (circle := self._circle(request, sent["id"], response)) is not None:
                await response.aclose()
                return _error(sent["id"], circle)
            self._statuses.answered(
                sent["id"], response, is_forgotten=not is_initialize and await self._is_forgotten(response)
            )
        if is_initialize:
            self._statuses.session = response.headers.get(_SESSION_HEADER)
        return response

    def _circle(self, request: httpx2.Request, request_id: object, response: httpx2.Response) -> str | None:
        """Return why a redirect of a message is not followed; None: it is no redirect, or may be followed.

        The library follows every one within the origin. An address that has redirected a message gets it no more: it
        would be sent on and on, and a server may have executed it each time.
        """
        if not response.has_redirect_location:
            self._redirected.pop(request_id, None)
            return None
        passed = self._redirected.setdefault(request_id, set())
        passed.add(request.url)
        try:
            target = request.url.join(response.headers["location"])
        except httpx2.InvalidURL:
            return None  # the library does not follow it either
        if target not in passed and len(passed) <= _REDIRECTS:
            return None
        del self._redirected[request_id]
        where = target.copy_with(query=None, fragment=None, userinfo=b"")  # these may hold what is secret
        return f"it redirects the message in a circle, or too often (HTTP status {response.status_code}, to {where})"

    async def _is_forgotten(self, response: httpx2.Response) -> bool:
        """Return whether a refusal is one of the session: 404 says so by itself, 400 with its text."""
        if response.status_code != _BAD_REQUEST or self._statuses.session is None:
            return False
        try:
            body = await response.aread()
        except httpx2.HTTPError:
            return False
        return _NAMES_SESSION.search(body[:_MOST_REFUSAL]) is not None

    def _failed(self, error: Exception) -> None:
        self._statuses.failure = _text(error)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncBaseTransport):
    """Requests that carry no message, and what may be in their answers."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        return await _bounded(await self._inner.handle_async_request(request), _pass_over)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _pass_over(_error: Exception) -> None:
    """Take a failure that ends nothing, or that is raised where it matters."""


async def _bounded(response: httpx2.Response, failed: Callable[[Exception], None]) -> httpx2.Response:
    """Return a response whose body ends at the limit; `failed` is called with what is raised."""
    if response.headers.get("content-encoding", "identity") not in ("", "identity"):
        await response.aclose()
        error = httpx2.DecodingError("it answers in an encoding that was not asked for")
        failed(error)
        raise error
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Body(response.stream, None if is_stream else limits.MESSAGE_BYTES, failed)
    return response


def _error(request_id: object, text: str) -> httpx2.Response:
    """Return an answer of the protocol in place of the server's."""
    error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": INVALID_REQUEST, "message": text}}
    return httpx2.Response(200, headers={"content-type": "application/json"}, content=orjson.dumps(error))


def _text(error: BaseException) -> str:
    """Return what has happened; some errors say it with their cause alone."""
    cause: BaseException | None = error
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__ if cause is None else str(cause)


async def _sent(request: httpx2.Request) -> Mapping[str, object]:
    """Return the message that a request carries; empty: none."""
    if request.method != "POST":
        return {}
    try:
        value: object = orjson.loads(await request.aread())  # one that follows a redirect was not read yet
    except orjson.JSONDecodeError:
        return {}
    return value if is_object(value) else {}


@asynccontextmanager
async def endpoint(
    address: Address,
    statuses: Statuses,
    incoming: IncomingMessages,
    outgoing: OutgoingMessages,
    lost: Callable[[str], None],
) -> AsyncGenerator[Streams, None]:
    """Connect to a server, and end the session with the block, which is cancelled when the connection is lost.

    Args:
        address: Where it is.
        statuses: Gets the statuses of refused requests.
        incoming: Sorts its messages.
        outgoing: The messages to it.
        lost: Called with the reason when the connection has ended.
    """
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    def end(reason: str) -> None:
        lost(statuses.failure or reason)
        nursery.cancel_scope.cancel()

    client = _client(address.url, lambda inner: _Limited(inner, statuses, end), address.headers, address.auth)
    try:
        async with trio.open_nursery() as nursery:
            async with (
                client,
                streamable_http_client(
                    address.url,
                    http_client=client,
                    terminate_on_close=False,
                    max_sse_event_size=limits.MESSAGE_BYTES,
                ) as (theirs, ours),
            ):
                nursery.start_soon(_sort, theirs, incoming, send, end)
                nursery.start_soon(_send, outgoing, ours)
                try:
                    yield Streams(receive, outgoing)
                finally:
                    await _end_session(client, address, statuses)
            nursery.cancel_scope.cancel()
    finally:
        outgoing.close()
        send.close()


async def _sort(
    theirs: _Receives,
    incoming: IncomingMessages,
    send: MemoryObjectSendStream[SessionMessage | Exception],
    end: Callable[[str], None],
) -> None:
    try:
        while True:
            item = await theirs.receive()
            if isinstance(item, Exception):
                incoming.invalid()  # one message that could not be read; who waits for it has its limit
                continue
            incoming.valid()
            if _is_no_answer(item.message) or await incoming.sort(item.message, _size_of(item.message)):
                await send.send(item)
    except anyio.EndOfStream:
        end("the connection has ended")
    except LinkLost as error:
        end(str(error))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the library has ended


def _is_no_answer(message: JSONRPCMessage) -> bool:
    """Return whether the library, not the server, has answered: there will be no answer."""
    if not isinstance(message, JSONRPCError) or message.error.code != CONNECTION_CLOSED:
        return False
    return message.error.message.startswith(_NO_ANSWER)


def _size_of(message: JSONRPCMessage) -> int:
    """Return the bytes of a message, where they count."""
    return len(message.model_dump_json()) if isinstance(message, JSONRPCNotification) else 0


async def _send(outgoing: OutgoingMessages, ours: _Sends) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            await ours.send(await outgoing.next())


async def _end_session(client: httpx2.AsyncClient, address: Address, statuses: Statuses) -> None:
    """End the session with the server, if there is time."""
    if statuses.session is None:
        return
    with trio.move_on_after(limits.DELETE_S, shield=True), suppress(httpx2.HTTPError):
        await client.delete(address.url, headers={_SESSION_HEADER: statuses.session})


def client_opener(*configured: str | None) -> Callable[[str], httpx2.AsyncClient]:
    """Return what makes clients for addresses that a server names, such as an authorization server's.

    Args:
        configured: The addresses that the user has configured: of the server, and of metadata.
    """

    def open_client(url: str) -> httpx2.AsyncClient:
        return _client(url, _Bounded, {}, None, is_remote=must_be_elsewhere(url, configured))

    return open_client


def _client(
    url: str,
    wrapped: Callable[[httpx2.AsyncBaseTransport], httpx2.AsyncBaseTransport],
    headers: Mapping[str, str],
    auth: httpx2.Auth | None,
    *,
    is_remote: bool = False,
) -> httpx2.AsyncClient:
    """Return a client; with `is_remote` it asks no address of this machine.

    Raises:
        LinkLost: The proxy for the address cannot be used.
    """
    try:
        proxy_for(url)
    except ProxyUnusable as error:
        raise LinkLost(str(error)) from None
    return httpx2.AsyncClient(
        transport=wrapped(_RoutedTransport(is_remote=is_remote)),
        headers=dict(headers),
        auth=auth,
        timeout=httpx2.Timeout(_CONNECT_S, read=None),
        trust_env=False,
        follow_redirects=False,
    )


class _RoutedTransport(httpx2.AsyncBaseTransport):
    """Sends each request through the proxy of its address, or directly: a server redirects, and names others."""

    def __init__(self, *, is_remote: bool) -> None:
        """Connect nothing yet."""
        self._context = add_ca_certificates(httpx2.create_ssl_context())
        self._is_remote = is_remote
        self._transports: dict[Secret | None, httpx2.AsyncBaseTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request.

        Raises:
            httpx2.ConnectError: Its proxy cannot be used, or its address is not to be asked.
        """
        try:
            proxy = proxy_for(str(request.url))
            if proxy not in self._transports:
                self._transports[proxy] = self._transport(proxy)
        except ProxyUnusable as error:
            raise httpx2.ConnectError(str(error)) from None
        return await self._transports[proxy].handle_async_request(request)

    def _transport(self, proxy: Secret | None) -> httpx2.AsyncBaseTransport:
        try:
            inner = httpx2.AsyncHTTPTransport(verify=self._context, proxy=None if proxy is None else proxy.reveal())
        except (ImportError, ValueError, httpx2.InvalidURL):  # their texts may quote a password
            raise ProxyUnusable("the proxy cannot be used") from None
        return RemoteOnlyTransport(inner, is_proxied=proxy is not None) if self._is_remote else inner

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.aclose()
