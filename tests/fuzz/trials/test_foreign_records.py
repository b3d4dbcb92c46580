"""The judge's own reading of lines, and its patterns."""

import itertools
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_fuzz.records import LineSplitter, NotARecord, contains, encode_record, parse_record

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
RECORDS = st.dictionaries(st.text(), JSON)


@given(RECORDS)
def test_what_is_written_is_read_again(record: dict[str, Any]) -> None:
    line = encode_record(record)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse_record(line[:-1]) == record


NOT_JSON = [b"", b"{", b"{}}", b'{"a":NaN}', b'{"a":-Infinity}', b"{\0}", b"\xef\xbb\xbf{}"]
NOT_UNICODE = [b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\\udc00"}', "{}".encode("utf-16")]
NOT_AN_OBJECT = [b"1", b"[1]", b'"x"', b"null"]
TOO_DEEP = b'{"a":' + b"[" * 200_000


@pytest.mark.parametrize("line", [*NOT_JSON, *NOT_UNICODE, *NOT_AN_OBJECT, TOO_DEEP])
def test_what_is_not_a_record_is_refused(line: bytes) -> None:
    with pytest.raises(NotARecord):
        parse_record(line)


@given(st.binary(), st.lists(st.integers(0, 60)))
def test_lines_are_the_same_however_they_arrive(data: bytes, cuts: list[int]) -> None:
    data = data.replace(b"\1", b"\n")
    splitter = LineSplitter()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parts = [data[begin:end] for begin, end in itertools.pairwise(places)]
    lines = [line for part in parts for line in splitter.feed(part)]

    assert [*lines, splitter.rest] == data.split(b"\n")


def test_the_time_for_a_line_is_linear_in_its_pieces() -> None:
    def seconds(pieces: int) -> float:
        splitter = LineSplitter()
        begun_s = time.process_time()
        for _ in range(pieces):
            splitter.feed(b"x" * 20)
        splitter.feed(b"\n")
        return time.process_time() - begun_s

    few_s = min(seconds(5_000) for _ in range(3))
    many_s = min(seconds(40_000) for _ in range(3))
    # 8 times as many pieces; 64 would be quadratic.
    assert many_s < 30 * few_s


@pytest.mark.parametrize(
    ("value", "part", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        ({"a": {"b": [1, {"c": 2, "d": 3}]}}, {"a": {"b": [1, {"c": 2}]}}, True),
        ([1, 2], [1], False),
        ([1], {"a": 1}, False),
        ("x", ["x"], False),
        (1, True, False),
        (True, 1, False),
        (False, False, True),
        (1, 1.0, True),
        ("1", 1, False),
        ("busy now", re.compile("busy"), True),
        (5, re.compile("5"), False),
        (5, lambda value: value > 4, True),  # pyright: ignore[reportUnknownLambdaType]
    ],
)
def test_a_part_is_contained_in(value: object, part: object, expected: bool) -> None:
    assert contains(value, part) is expected
