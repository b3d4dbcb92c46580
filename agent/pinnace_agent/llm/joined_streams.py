"""Connections whose chunked bodies are read a packet at a time: `chunk_joining` between httpcore and the network.

Decides where in httpx that is put. Must not know HTTP; and is loaded only together with httpx, which takes long.

httpcore takes a backend of one's own for the network, httpx does not hand one on. So it is put into the pools that
httpx has made. Should they be built otherwise one day, every chunk is read by itself again, and a test says so.
"""

# ruff: noqa: ASYNC109 (the limits of times are arguments in httpcore's interfaces)

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

import httpcore
import httpx

from pinnace_agent.llm.chunk_joining import ChunkJoiner

if TYPE_CHECKING:
    import ssl

# What is read at a time: half a millisecond of work, after which other tasks have their turn, and less than stdout
# takes without waiting.
_READ_BYTES: Final = 32 * 1024


def join_chunks(client: httpx.AsyncClient) -> None:
    """Let all connections of a client be such. Before its first request."""
    backend = _Backend()
    for transport in (client._transport, *client._mounts.values()):  # pyright: ignore[reportPrivateUsage]
        pool = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = backend


class _Stream(httpcore.AsyncNetworkStream):
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


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(self) -> None:
        # cast: httpcore has another class of this name for who has no trio
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
