"""Chunks that are joined: whatever a server sends and however it is cut, h11 reads the same answer from both."""

from collections.abc import Iterable
from itertools import pairwise

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pinnace_agent.llm.transport.chunk_joining import ChunkJoiner

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def client() -> h11.Connection:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "a"), ("Content-Length", "0")]))
    connection.send(h11.EndOfMessage())
    return connection


class Read:
    """What h11 makes of an answer: its status and fields, its body, how it ends, and how many pieces the body had."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.heads: list[object] = []
        self.body = b""
        self.end = "nothing"
        self.count = 0
        connection = client()
        try:
            for piece in [*pieces, b""]:
                connection.receive_data(piece)
                if self._take(connection):
                    return
        except h11.RemoteProtocolError:
            self.end = "refused"

    def _take(self, connection: h11.Connection) -> bool:
        while True:
            event = connection.next_event()
            match event:
                case h11.Response() | h11.InformationalResponse():
                    self.heads.append((event.status_code, event.headers))
                case h11.Data():
                    self.body += event.data
                    self.count += 1
                case h11.EndOfMessage():
                    self.end = f"whole, {list(event.headers)}"
                    return True
                case h11.ConnectionClosed():
                    self.end = "closed"
                    return True
                case _:
                    return False


def same(stream: bytes, cuts: Iterable[int]) -> Read:
    """Read a stream that is cut at these places, joined and not, and compare."""
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    pieces = [stream[begin:end] for begin, end in pairwise(places)]
    joiner = ChunkJoiner()
    joined = Read(part for piece in pieces if (part := joiner.feed(piece)))
    plain = Read(pieces)
    assert (joined.heads, joined.body, joined.end) == (plain.heads, plain.body, plain.end)
    return joined


BODIES = st.lists(st.binary(min_size=1, max_size=40), max_size=8)
CUTS = st.lists(st.integers(0, 400), max_size=30)


@given(BODIES, CUTS)
def test_an_answer_stays_what_it_is(bodies: list[bytes], cuts: list[int]) -> None:
    read = same(HEAD + b"".join(map(chunk, bodies)) + END, cuts)

    assert read.body == b"".join(bodies)
    assert read.end == "whole, []"


@given(BODIES, CUTS, st.integers(0, 300))
def test_an_answer_that_breaks_off_stays_one(bodies: list[bytes], cuts: list[int], end: int) -> None:
    same((HEAD + b"".join(map(chunk, bodies)) + END)[:end], cuts)


@given(BODIES, CUTS, st.integers(len(HEAD), 300), st.binary(max_size=6), st.integers(0, 6))
@example([b"abc", b"def"], [], len(HEAD) + 6, b"", 2)  # no line end behind a chunk
@example([b"abc", b"def"], [], len(HEAD) + 8, b"+3\r\n", 3)
@example([b"abc", b"def"], [], len(HEAD) + 8, b"3;a=b\r\n", 3)
@example([b"abc", b"def"], [], len(HEAD) + 8, b"03\r\n", 3)
@example([b"abc", b"def"], [], len(HEAD) + 8, b"3 \r\n", 3)
def test_damage_stays_damage(bodies: list[bytes], cuts: list[int], place: int, other: bytes, length: int) -> None:
    """And what only looks like it, extensions for instance, stays valid."""
    stream = HEAD + b"".join(map(chunk, bodies)) + END
    same(stream[:place] + other + stream[place + length :], cuts)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n",
        b"HTTP/1.1 200 OK\r\nX-Other: transfer-encoding: chunked\r\nContent-Length: 12\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding:\tCHUNKED \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"no HTTP at all\r\n\r\n",
    ],
    ids=range(10),
)
@given(cuts=CUTS)
def test_only_chunked_bodies_are_touched(head: bytes, cuts: list[int]) -> None:
    same(head + chunk(b"a\r\n\r\nb") + chunk(b"5\r\nabcde\r\n") + END, cuts)


def test_fields_behind_the_last_chunk_are_handed_on() -> None:
    assert same(HEAD + chunk(b"a") + b"0\r\nX-Sum: 1\r\n\r\n", []).end == "whole, [(b'x-sum', b'1')]"


def test_chunks_of_one_packet_are_one_piece() -> None:
    """What all this is for."""
    read = same(HEAD + b"".join(chunk(b"data: %d\n\n" % number) for number in range(500)) + END, [])

    assert read.count == 1


def test_nothing_waits_for_the_end_of_its_chunk() -> None:
    joiner = ChunkJoiner()
    joiner.feed(HEAD)

    assert Read([HEAD, joiner.feed(b"ff\r\nhalf")]).body == b"half"


def test_the_next_answer_of_a_connection_is_read_anew() -> None:
    joiner = ChunkJoiner()
    for body in (b"one", b"two"):
        joiner.begin()
        read = Read([joiner.feed(HEAD + chunk(body) + chunk(b"!") + END)])
        assert (read.body, read.end, read.count) == (body + b"!", "whole, []", 1)
