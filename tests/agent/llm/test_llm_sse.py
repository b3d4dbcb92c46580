"""Server-sent events: every way in which servers end lines and events, cut anywhere."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.llm.transport import sse
from pinnace_agent.llm.transport.sse import EventTooLarge, SseEvent, SseReader


def read(*chunks: bytes) -> list[SseEvent]:
    reader = SseReader()
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.finish()


def data_of(*chunks: bytes) -> list[bytes]:
    return [event.data for event in read(*chunks)]


def byte_by_byte(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_of_the_standard_ends_a_line(end: bytes) -> None:
    stream = end.join([b"data: one", b"", b"data: two", b"data: three", b"", b""])

    assert data_of(stream) == [b"one", b"two\nthree"]
    assert data_of(*byte_by_byte(stream)) == [b"one", b"two\nthree"]


def test_line_ends_may_be_mixed() -> None:
    assert data_of(b"data: a\r\n\ndata: b\r\rdata: c\n\r\n") == [b"a", b"b", b"c"]


def test_a_crlf_that_is_cut_in_two_is_one_line_end() -> None:
    """Read as two it would end the event after its first line."""
    assert data_of(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [b"a\nb"]


def test_a_cr_at_the_end_of_a_chunk_ends_the_line_at_once() -> None:
    reader = SseReader()

    assert reader.feed(b"data: a\r\r") == [SseEvent(b"", b"a")]


def test_an_empty_chunk_changes_nothing() -> None:
    assert data_of(b"data: a\r", b"", b"\n", b"", b"\r\n") == [b"a"]


def test_comments_and_unknown_fields_are_no_part_of_an_event() -> None:
    stream = b": ping\n\n:\n\nid: 7\nretry: 100\ndata: a\n: in between\nfoo\ndata: b\nfoo: bar\n\n"

    assert read(stream) == [SseEvent(b"", b"a\nb")]


def test_one_space_after_the_colon_is_left_out_and_no_more() -> None:
    assert data_of(b"data:x\n\ndata: x\n\ndata:  x\n\ndata:\tx\n\n") == [b"x", b"x", b" x", b"\tx"]


def test_a_field_without_a_colon_is_empty() -> None:
    assert data_of(b"data\n\ndata\ndata: x\n\ndata:\n\n") == [b"", b"\nx", b""]


def test_a_field_whose_name_only_begins_like_data_is_another() -> None:
    assert data_of(b"data2: x\ndatax\n data: y\n\n") == []


def test_an_event_without_data_is_none() -> None:
    assert read(b"event: ping\n\n\n\n\n") == []


def test_the_name_belongs_to_its_own_event_only() -> None:
    assert read(b"event: error\ndata: a\n\ndata: b\n\nevent:x\n\ndata: c\n\n") == [
        SseEvent(b"error", b"a"),
        SseEvent(b"", b"b"),
        SseEvent(b"", b"c"),
    ]


def test_a_byte_order_mark_is_left_out_at_the_beginning_only() -> None:
    stream = b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"

    assert data_of(stream) == [b"a"]
    assert data_of(*byte_by_byte(stream)) == [b"a"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_last_event_counts_without_its_blank_line(end: bytes) -> None:
    assert data_of(b"data: a\n\nevent: e\ndata: b" + end) == [b"a", b"b"]


def test_nothing_is_left_after_the_end_was_said() -> None:
    reader = SseReader()
    reader.feed(b"data: a")

    assert reader.finish() == [SseEvent(b"", b"a")]
    assert reader.finish() == []


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1e", "\0"])
def test_what_other_readers_take_for_a_line_end_is_data(inside: str) -> None:
    stream = f"data: a{inside}b\n\n".encode()

    assert data_of(stream) == [f"a{inside}b".encode()]
    assert data_of(*byte_by_byte(stream)) == [f"a{inside}b".encode()]


ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
LINES = st.one_of(
    st.sampled_from([b"", b"data", b"data:", b"data: ", b": ping", b"event: e", b"event", b"id: 1", b"\xef\xbb\xbf"]),
    st.builds(
        bytes.__add__,
        st.sampled_from([b"data: ", b"data:", b"event: ", b":", b""]),
        st.text("ab :{\u2028\u0085é𝄞", max_size=6).map(str.encode),
    ),
)
STREAMS = st.lists(st.tuples(LINES, ENDS).map(b"".join), max_size=12).map(b"".join)


@given(STREAMS, st.data())
def test_cuts_change_nothing(stream: bytes, choice: st.DataObject) -> None:
    places = sorted(choice.draw(st.lists(st.integers(0, len(stream)))))
    bounds = zip([0, *places], [*places, len(stream)], strict=True)

    whole = read(stream)
    assert read(*byte_by_byte(stream)) == whole
    assert read(*(stream[start:end] for start, end in bounds)) == whole


def slow_parse(stream: bytes) -> list[SseEvent]:
    """The standard, line by line, and the last event without its blank line."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[SseEvent] = []
    name, data = b"", list[bytes]()
    for line in [*text.split(b"\n"), b""]:
        field, _, value = line.partition(b":")
        if not line:
            events += [SseEvent(name, b"\n".join(data))] if data else []
            name, data = b"", []
        elif field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return events


@given(STREAMS)
def test_events_are_those_of_the_standard(stream: bytes) -> None:
    assert read(stream) == slow_parse(stream)


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_any_bytes_can_be_read(chunks: list[bytes]) -> None:
    assert read(*chunks) == read(b"".join(chunks))


def seconds_to_read(*chunks: bytes) -> float:
    start_s = time.process_time()
    read(*chunks)
    return time.process_time() - start_s


def test_a_long_line_costs_the_same_for_each_chunk() -> None:
    """Joined anew for each chunk, a long line would cost a hundred times as much."""
    small = min(seconds_to_read(b"data: ", *[b"x" * 256] * 500) for _ in range(3)) / 500
    large = min(seconds_to_read(b"data: ", *[b"x" * 256] * 40_000) for _ in range(2)) / 40_000

    assert large < 8 * small


def test_many_lines_of_one_event_cost_the_same_each() -> None:
    small = min(seconds_to_read(*[b"data: x\n"] * 2_000) for _ in range(3)) / 2_000
    large = min(seconds_to_read(*[b"data: x\n"] * 128_000) for _ in range(2)) / 128_000
    assert large < 8 * small


def test_an_event_that_never_ends_is_refused() -> None:
    reader = SseReader()
    piece = b"x" * (1024 * 1024)
    reader.feed(b"data: ")

    with pytest.raises(EventTooLarge):
        for _ in range(sse.MAX_EVENT_BYTES // len(piece) + 1):
            reader.feed(piece)


def test_the_limit_is_of_one_event_not_of_the_stream() -> None:
    reader = SseReader()
    piece = b"data: " + b"x" * (1024 * 1024) + b"\n\n"

    for _ in range(sse.MAX_EVENT_BYTES // len(piece) + 2):
        assert len(reader.feed(piece)) == 1
