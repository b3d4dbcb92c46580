"""Real connections whose chunks are joined, direct ones and those over a proxy; and errors under their httpx names."""

from functools import partial

import httpcore
import httpx
import pytest
import trio

from pinnace_agent.llm.transport.client import client_for, close_clients
from pinnace_agent.llm.transport.connections import as_httpx_errors

CHUNKS = 200


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


def test_every_error_of_httpcore_has_the_httpx_error_of_its_name() -> None:
    """But those that httpcore never lets out, and the base of what httpx names otherwise."""
    errors = {
        name: value
        for name, value in vars(httpcore).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    errors.pop("ConnectionNotAvailable")

    for name, error in errors.items():
        with pytest.raises(getattr(httpx, name), match="what httpcore says") as raised, as_httpx_errors():
            raise error("what httpcore says")
        assert type(raised.value) is getattr(httpx, name)
        assert isinstance(raised.value.__cause__, error)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(UnicodeError, match="a label"), as_httpx_errors():
        raise UnicodeError("a label")
