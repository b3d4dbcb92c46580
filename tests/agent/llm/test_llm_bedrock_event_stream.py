"""AWS's event stream encoding: any cut of the bytes gives the same frames, and damage is an error at once."""

import struct
from binascii import crc32
from collections.abc import Iterable, Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.llm.bedrock.event_stream import (
    MAX_FRAME_BYTES,
    MAX_HEADERS_BYTES,
    Frame,
    FrameDamaged,
    FrameReader,
)
from pinnace_fuzz.harness.model_server.event_frames import encode_frame

# The sample of botocore's tests, written by AWS: a header and a payload.
SAMPLE = bytes.fromhex(
    "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e"
    "7b27666f6f273a27626172277d8d9c08b1"
)
NAMES = st.text(min_size=1, max_size=20)
FRAMES = st.lists(
    st.tuples(st.dictionaries(NAMES, st.text(max_size=30), max_size=3), st.binary(max_size=60)), max_size=5
)


def read(*pieces: bytes) -> list[Frame]:
    reader = FrameReader()
    return [frame for piece in pieces for frame in reader.feed(piece)]


def read_until_damage(pieces: Iterable[bytes]) -> tuple[list[Frame], str]:
    """Return the frames before the damage, and what was damaged; empty if nothing was."""
    reader, frames = FrameReader(), list[Frame]()
    try:
        for piece in pieces:
            for frame in reader.feed(piece):
                frames.append(frame)
    except FrameDamaged as damage:
        return frames, str(damage)
    return frames, ""


def framed(headers: bytes, payload: bytes = b"") -> bytes:
    """Return a frame with headers as they are."""
    return prelude(16 + len(headers) + len(payload), len(headers), headers + payload)


def prelude(length: int, headers_length: int, rest: bytes = b"") -> bytes:
    lengths = struct.pack(">II", length, headers_length)
    checked = lengths + struct.pack(">I", crc32(lengths)) + rest
    return checked + struct.pack(">I", crc32(checked))


def test_the_sample_of_aws_is_read_and_written() -> None:
    assert read(SAMPLE) == [Frame({"content-type": "application/json"}, b"{'foo':'bar'}")]
    assert encode_frame({"content-type": "application/json"}, b"{'foo':'bar'}") == SAMPLE


def test_a_frame_without_headers_and_payload_has_sixteen_bytes() -> None:
    empty = bytes.fromhex("000000100000000005c248eb7d98c8ff")
    assert encode_frame({}, b"") == empty
    assert read(empty) == [Frame({}, b"")]


def test_a_header_of_every_type_is_read() -> None:
    headers = (
        b"\x01a\x00\x01b\x01\x01c\x02\xff\x01d\x03\xff\xfe\x01e\x04\x00\x00\x00\x05\x01f\x05" + b"\x00" * 7 + b"\x06"
        b"\x01g\x06\x00\x02\x00\xff\x01h\x07\x00\x02\xc3\xa9\x01i\x08" + struct.pack(">q", 8675309)
        + b"\x01j\x09" + bytes(range(16))
    )  # fmt: skip
    (frame,) = read(framed(headers, b"p"))
    assert frame.payload == b"p"
    assert frame.headers == {
        "a": True, "b": False, "c": -1, "d": -2, "e": 5, "f": 6, "g": b"\x00\xff", "h": "é", "i": 8675309,
        "j": bytes(range(16)),
    }  # fmt: skip


@given(FRAMES, st.lists(st.integers(0, 400), max_size=6))
def test_any_cut_gives_the_same_frames(sent: list[tuple[Mapping[str, str], bytes]], cuts: list[int]) -> None:
    data = b"".join(encode_frame(headers, payload) for headers, payload in sent)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[begin:end] for begin, end in pairwise(places)]
    assert read(*pieces) == [Frame(headers, payload) for headers, payload in sent]


def test_frames_that_come_a_byte_at_a_time_are_read() -> None:
    data = SAMPLE * 3
    reader = FrameReader()
    counts = [len(list(reader.feed(data[place : place + 1]))) for place in range(len(data))]
    assert [place for place, count in enumerate(counts) if count] == [61 * number - 1 for number in (1, 2, 3)]


@given(st.integers(0, 2 * len(SAMPLE) - 1), st.integers(1, 255), st.booleans())
def test_a_changed_byte_is_an_error_after_the_frames_before_it(place: int, change: int, is_cut: bool) -> None:
    data = bytearray(SAMPLE * 3)
    data[place] ^= change
    pieces = [bytes(data[at : at + 1]) for at in range(len(data))] if is_cut else [bytes(data)]
    frames, damage = read_until_damage(pieces)
    assert damage
    assert len(frames) == place // len(SAMPLE)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (prelude(15, 0), "a frame of 15 bytes"),
        (prelude(MAX_FRAME_BYTES + 1, 0), f"a frame of {MAX_FRAME_BYTES + 1} bytes"),
        (prelude(20, 5), "headers of 5 bytes in a frame of 20"),
        (
            prelude(MAX_FRAME_BYTES, MAX_HEADERS_BYTES + 1),
            f"headers of {MAX_HEADERS_BYTES + 1} bytes in a frame of {MAX_FRAME_BYTES}",
        ),
        (b"<!DOCTYPE html>", "the checksum of a prelude is wrong"),
        (framed(b"\x01a\x0a"), "a header of the unknown type 10"),
        (framed(b"\x05ab"), "headers that cannot be read"),
        (framed(b"\x01a\x07\x00\x05ab"), "headers that cannot be read"),
        (framed(b"\x01a\x07\x00\x01\xff"), "headers that cannot be read"),
        (framed(b"\x01a\x05\x00"), "headers that cannot be read"),
        (framed(b"\x01a"), "headers that cannot be read"),
    ],
)
def test_what_no_frame_can_be_is_an_error_at_once(data: bytes, text: str) -> None:
    assert read_until_damage([data]) == ([], text)


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    read_until_damage([data])
    read_until_damage([framed(data[:40], data[40:])])


def test_a_large_frame_in_many_pieces_is_read() -> None:
    data = encode_frame({"a": "b"}, bytes(200_000))
    assert len(read(*(data[place : place + 100] for place in range(0, len(data), 100)))) == 1
