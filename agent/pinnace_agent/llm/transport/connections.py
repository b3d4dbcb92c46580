"""The connections of the HTTP client: httpx's interface for transports over a pool of httpcore's.

Both interfaces are public: an httpx client takes a transport, and an httpcore pool takes a network. The network here
passes what a server sends through `chunk_joining` before it is parsed. Everything else is as httpx's own transport
does it. Imported only together with httpx, which takes long.
"""

# ruff: noqa: ASYNC109 (the limits of times are arguments in httpcore's interfaces)

from collections.abc import AsyncIterable, AsyncIterator, Generator, Iterable
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast

import httpcore
import httpx

from pinnace_agent.llm.transport.chunk_joining import ChunkJoiner

if TYPE_CHECKING:
    import ssl

# The next request of a run follows when the tools are done; most servers keep a connection at least this long.
KEEP_ALIVE_S: Final = 30.0
MOST_KEPT: Final = 8
"""Connections without a request that a pool keeps."""

# What is read at a time: half a millisecond of work, after which other tasks have their turn, and less than stdout
# takes without waiting.
_READ_BYTES: Final = 32 * 1024

_ERRORS: Final[dict[type[BaseException], type[httpx.TransportError]]] = {
    httpcore.TimeoutException: httpx.TimeoutException,
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.NetworkError: httpx.NetworkError,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.ProxyError: httpx.ProxyError,
    httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
    httpcore.ProtocolError: httpx.ProtocolError,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
}


class PooledTransport(httpx.AsyncBaseTransport):
    """One pool of connections, direct ones or through one proxy. HTTP/1.1 alone."""

    def __init__(self, context: "ssl.SSLContext | None", proxy: str | None = None) -> None:
        """Open no connection yet.

        Args:
            context: The accepted certificates; None: those that httpcore accepts.
            proxy: Address of an HTTP or SOCKS proxy.

        Raises:
            ValueError, httpx.InvalidURL: This is not the address of a proxy. The text may quote a password.
            ModuleNotFoundError: This is a SOCKS proxy, for which httpcore needs a package that is not installed.
        """
        self._connections = httpcore.AsyncConnectionPool(
            ssl_context=context,
            proxy=None if proxy is None else _proxy(httpx.Proxy(proxy)),
            max_connections=None,
            max_keepalive_connections=MOST_KEPT,
            keepalive_expiry=KEEP_ALIVE_S,
            network_backend=_Network(),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its answer, whose body is read as it comes.

        Raises:
            httpx.TransportError: It could not be sent, or no head of an answer came.
        """
        sent = httpcore.Request(
            method=request.method,
            url=_url(request.url),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with as_httpx_errors():
            response = await self._connections.handle_async_request(sent)
        # cast: a pool of the async kind answers with nothing else
        body = _Body(cast("AsyncIterable[bytes]", response.stream))
        return httpx.Response(response.status, headers=response.headers, stream=body)

    async def aclose(self) -> None:
        """Close every connection."""
        with as_httpx_errors():
            await self._connections.aclose()


def _url(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def _proxy(proxy: httpx.Proxy) -> httpcore.Proxy:
    if proxy.url.scheme.startswith("socks") and find_spec("socksio") is None:
        raise ModuleNotFoundError("socksio", name="socksio")
    return httpcore.Proxy(
        _url(proxy.url), auth=proxy.raw_auth, headers=proxy.headers.raw, ssl_context=proxy.ssl_context
    )


@contextmanager
def as_httpx_errors() -> Generator[None]:
    """Raise httpx's error of the same name in the place of each of httpcore's."""
    try:
        yield
    except Exception as error:
        for kind in type(error).__mro__:  # the most specific is the first
            if kind in _ERRORS:
                raise _ERRORS[kind](str(error)) from error
        raise


class _Body(httpx.AsyncByteStream):
    """The body of an answer."""

    def __init__(self, pieces: AsyncIterable[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with as_httpx_errors():
            async for piece in self._pieces:
                yield piece

    async def aclose(self) -> None:
        with as_httpx_errors():
            # cast: all of httpcore's streams can be closed, which their type does not declare
            await cast("Any", self._pieces).aclose()


class _Stream(httpcore.AsyncNetworkStream):
    """One connection, whose chunked answers are read a packet at a time."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._joiner = ChunkJoiner()
        self._is_answering = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._is_answering = True
        while data := await self._stream.read(min(max_bytes, _READ_BYTES), timeout):
            if joined := self._joiner.feed(data):
                return joined
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._is_answering:  # an answer is over when the next request is sent
            self._is_answering = False
            self._joiner.begin()
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: "ssl.SSLContext", server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Network(httpcore.AsyncNetworkBackend):
    """The network of trio, each connection a `_Stream`."""

    def __init__(self) -> None:
        # cast: httpcore has another class of this name where trio is missing
        self._backend = cast("httpcore.AsyncNetworkBackend", httpcore.TrioBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._backend.connect_unix_socket(path, timeout, socket_options))

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)
