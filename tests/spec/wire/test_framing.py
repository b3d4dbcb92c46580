"""Bytes to lines: the same whole, a byte at a time and cut anywhere; linear, and in bounded memory."""

import tracemalloc
from itertools import pairwise
from typing import SupportsIndex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pinnace_spec.wire.framing import MAX_RECORD_BYTES, LineDecoder, TooLong

Line = bytes | TooLong
LIMIT = 6

# Mostly what framing looks at, so that short examples have line ends, blanks and lines around the limit.
STREAMS = st.lists(
    st.sampled_from(
        [b"\n", b"\r", b"\r\n", b" ", b"\t", b"a", b"bcd", b"xxxxxx", b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b", b"\x00"]
    )
).map(b"".join)


def decode(*chunks: bytes, limit: int = MAX_RECORD_BYTES) -> list[Line]:
    """Take chunks and the end of the stream; lines are collected after each chunk, as the server does."""
    decoder = LineDecoder(limit)
    found: list[Line] = []
    for chunk in chunks:
        decoder.receive_data(chunk)
        found += decoder.lines()
    decoder.close()
    return [*found, *decoder.lines()]


def bytewise(data: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in data]


def as_specified(data: bytes, limit: int) -> list[Line]:
    """Say it again in the simplest words: R-FRM-01, R-FRM-02, R-FRM-04, R-FRM-07, R-FRM-08."""
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    return [TooLong(limit) if len(line) > limit else line for line in lines if len(line) > limit or line.strip()]


@given(STREAMS, st.lists(st.integers(0, 60)))
@example(b"xxxxxx\r\nbcd", [6, 7])
@example(b"xxxxxxa\r\n", [7])
@example(b"xxxxxx\r\r\n", [7, 8])
def test_lines_do_not_depend_on_how_the_stream_is_cut(data: bytes, cuts: list[int]) -> None:
    cut = [data[begin:end] for begin, end in pairwise(sorted({0, len(data), *(min(at, len(data)) for at in cuts)}))]

    expected = as_specified(data, LIMIT)
    assert expected == decode(data, limit=LIMIT)
    assert expected == decode(*bytewise(data), limit=LIMIT)
    assert expected == decode(*cut, limit=LIMIT)


@given(st.binary(max_size=200), st.integers(1, 20))
def test_any_bytes_are_lines(data: bytes, size: int) -> None:
    chunks = [data[at : at + size] for at in range(0, len(data), size)]

    assert as_specified(data, MAX_RECORD_BYTES) == decode(*chunks)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\r\n", [b"a"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"\ra\n", [b"\ra"]),
        (b"a\n\rb\n", [b"a", b"\rb"]),
    ],
)
@pytest.mark.parametrize("is_bytewise", [False, True])
def test_one_cr_before_the_lf_is_stripped_and_no_other(data: bytes, lines: list[Line], is_bytewise: bool) -> None:
    """R-FRM-02."""
    assert lines == decode(*(bytewise(data) if is_bytewise else [data]))


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"])
def test_only_lf_ends_a_line(separator: str) -> None:
    """R-FRM-01: other readers of lines end them at these."""
    line = f"a{separator}b".encode()

    assert [line, b"c"] == decode(line + b"\nc\n")


@pytest.mark.parametrize("blank", [b"", b"\r", b" ", b"\t \t", b"  \r", b"\x0b\x0c"])
def test_blank_lines_are_ignored(blank: bytes) -> None:
    """R-FRM-04."""
    assert [b"a", b"b"] == decode(b"a\n" + blank + b"\nb\n" + blank)


@pytest.mark.parametrize(("rest", "lines"), [(b"b", [b"b"]), (b"b\r", [b"b"]), (b"", []), (b"\r", []), (b" ", [])])
def test_a_last_line_without_lf_counts_when_the_stream_ends(rest: bytes, lines: list[Line]) -> None:
    """R-FRM-07."""
    assert [b"a", *lines] == decode(b"a\n" + rest)


def test_a_line_without_lf_waits_for_more() -> None:
    decoder = LineDecoder()
    decoder.receive_data(b'{"type"')

    assert [] == list(decoder.lines())


def test_each_line_is_handed_out_once() -> None:
    decoder = LineDecoder()
    decoder.receive_data(b"a\nb\n")

    assert [b"a", b"b"] == list(decoder.lines())
    assert [] == list(decoder.lines())


def test_nothing_is_left_after_the_end() -> None:
    decoder = LineDecoder()
    decoder.receive_data(b"a")
    decoder.close()
    decoder.close()

    assert [b"a"] == list(decoder.lines())


@pytest.mark.parametrize(
    ("line", "is_too_long"),
    [
        (b"x" * LIMIT, False),
        (b"x" * LIMIT + b"\r", False),
        (b"x" * (LIMIT + 1), True),
        (b"x" * (LIMIT + 1) + b"\r", True),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b""])
@pytest.mark.parametrize("is_bytewise", [False, True])
def test_the_limit_counts_neither_lf_nor_the_cr_before_it(
    line: bytes, end: bytes, is_too_long: bool, is_bytewise: bool
) -> None:
    """R-FRM-08."""
    data = line + end
    expected = TooLong(LIMIT) if is_too_long else line.removesuffix(b"\r")

    assert [expected] == decode(*(bytewise(data) if is_bytewise else [data]), limit=LIMIT)


def test_the_line_after_one_that_is_too_long_is_whole() -> None:
    assert [TooLong(LIMIT), b"next"] == decode(b"x" * 50, b"x" * 50 + b"\nne", b"xt\n", limit=LIMIT)


def test_a_blank_line_over_the_limit_is_too_long() -> None:
    """It is gone before anyone can know that it was blank to its end."""
    assert [TooLong(LIMIT)] == decode(b" " * 50 + b"\n", limit=LIMIT)


def test_the_default_limit_is_the_published_one() -> None:
    """Not a line of 64 MiB, which every run would pay for: the decoder's own default."""
    assert MAX_RECORD_BYTES == 64 * 1024 * 1024
    assert LineDecoder.__init__.__defaults__ == (MAX_RECORD_BYTES,)


def test_a_line_that_never_ends_needs_no_more_memory_than_the_limit() -> None:
    limit, chunk = 64 * 1024, bytes(64 * 1024)
    decoder = LineDecoder(limit)
    tracemalloc.start()
    try:
        for _ in range(300):
            decoder.receive_data(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # The line with room to grow, and the chunk's copy: 300 chunks of it would be 19 MiB.
    assert peak < 6 * limit


class CountingLine(bytearray):
    """The decoder's buffer, which counts every byte that is moved into it, out of it, or searched in it."""

    touched = 0

    def __iadd__(self, piece: bytes) -> "CountingLine":  # type: ignore[override,misc]
        self.touched += len(piece)
        super().__iadd__(piece)
        return self

    def __bytes__(self) -> bytes:
        self.touched += len(self)
        return bytes(memoryview(self))

    def __getitem__(self, key: SupportsIndex | slice) -> int | bytearray:  # type: ignore[override]
        self.touched += len(self)
        return super().__getitem__(key)

    def __delitem__(self, key: SupportsIndex | slice) -> None:
        self.touched += len(self)
        super().__delitem__(key)

    def __contains__(self, part: object) -> bool:
        self.touched += len(self)
        return super().__contains__(part)  # type: ignore[operator]

    def __getattribute__(self, name: str) -> object:
        if name in {"find", "rfind", "index", "count", "split", "splitlines", "partition", "rpartition", "replace"}:
            self.touched += len(self)
        return super().__getattribute__(name)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_the_work_for_a_long_line_is_linear_however_it_is_cut(size: int) -> None:
    """R-FRM-08: each byte is moved in once and out once, and searched in its chunk alone."""
    data = b"x" * 100_000 + b"\r\n"
    decoder = LineDecoder()
    line = decoder._line = CountingLine()
    for at in range(0, len(data), size):
        decoder.receive_data(data[at : at + size])

    assert [b"x" * 100_000] == list(decoder.lines())
    assert len(data) <= line.touched <= 2 * len(data)
