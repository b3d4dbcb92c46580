"""Real connections whose chunks are joined: direct ones and those over a proxy. Also notices a new inside of httpx."""

from functools import partial

import httpx
import pytest
import trio

from pinnace_agent.llm.client import client_for, close_clients

CHUNKS = 200
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def answer(stream: trio.SocketStream) -> None:
    """Answer every request of a connection with many small chunks in one packet."""
    body = b"".join(b"9\r\ndata: a\n\n\r\n" for _ in range(CHUNKS))
    async with stream:
        while b"\r\n\r\n" in await stream.receive_some():
            await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n")


async def pieces_of(client: httpx.AsyncClient, url: str) -> list[bytes]:
    async with client.stream("POST", url, headers={"Content-Length": "0"}) as response:
        return [piece async for piece in response.aiter_raw()]


@pytest.mark.parametrize("is_proxied", [False, True], ids=["direct", "over a proxy"])
async def test_the_chunks_of_a_packet_are_one_piece(is_proxied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        if is_proxied:
            monkeypatch.setenv("HTTP_PROXY", url)
            url = "http://nowhere.test"
        client = await client_for(url)

        for _ in range(2):  # the second over the connection of the first
            pieces = await pieces_of(client, url)
            assert b"".join(pieces) == b"data: a\n\n" * CHUNKS
            # The head may be read by itself, and a packet be cut in two; never every chunk.
            assert len(pieces) <= 4

        await close_clients()
        nursery.cancel_scope.cancel()
