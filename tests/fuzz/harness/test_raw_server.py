"""The server of raw bytes, held to what tests take for granted."""

import http.client
import socket
import threading

import pytest

from pinnace_fuzz.harness.model_server.raw_server import LOOPBACK, RawServer, Reply


def post(server: RawServer, body: bytes = b"") -> bytes:
    connection = http.client.HTTPConnection(LOOPBACK, server.port, timeout=60)
    try:
        connection.request("POST", "/path?query", body=body, headers={"X-One": "1"})
        return connection.getresponse().read()
    finally:
        connection.close()


def test_each_request_gets_its_answer_and_the_last_one_all_that_follow() -> None:
    def chunked(reply: Reply) -> None:
        reply.head()
        reply.chunks(b"tw", b"", b"o")
        reply.end()

    with RawServer(lambda reply: reply.whole(b"one"), chunked) as server:
        assert [post(server, b"body") for _ in range(3)] == [b"one", b"two", b"two"]

    first = server.requests[0]
    assert (first.method, first.path, first.headers["x-one"], first.body) == ("POST", "/path?query", "1", b"body")
    assert [request.connection for request in server.requests] == [0, 1, 2]


@pytest.mark.parametrize(("end", "error"), [(Reply.close, http.client.RemoteDisconnected), (Reply.reset, OSError)])
def test_a_connection_ends_as_instructed(end: object, error: type[Exception]) -> None:
    assert callable(end)
    with RawServer(end) as server, pytest.raises(error):
        post(server)


def test_a_fault_of_an_answer_fails_the_test() -> None:
    def broken(reply: Reply) -> None:
        raise KeyError("an answer that is broken")

    expected = pytest.raises(AssertionError, match="an answer that is broken")
    with expected, RawServer(broken) as server, pytest.raises(http.client.HTTPException):
        post(server)


def test_the_end_of_the_server_ends_what_waits() -> None:
    is_waiting = threading.Event()

    def wait(reply: Reply) -> None:
        is_waiting.set()
        reply.wait_gone()

    with RawServer(wait) as server, socket.create_connection((LOOPBACK, server.port), 60) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_waiting.wait(60)
        server.close()
        assert client.recv(1) == b""


def test_a_tunnel_carries_bytes_both_ways() -> None:
    with RawServer(lambda reply: reply.whole(reply.request.body)) as inner:

        def forward(reply: Reply) -> None:
            reply.tunnel(inner.port, b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")

        with RawServer(forward) as outer:
            assert post(outer) == b"hi"
