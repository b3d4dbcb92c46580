"""Reading a session file: whatever happened to it, every entry that is still there comes out."""

import gc
import json
import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.store.entries import head_of
from pinnace_agent.session.store.reading import (
    DamagedLine,
    SessionText,
    read_entries,
    read_header,
    read_session,
)
from pinnace_spec.records.entries import CURRENT_VERSION, Entry
from pinnace_spec.wire.json_text import encode_record

TIME = "2026-01-02T03:04:05.678Z"
HEADER: Entry = {"type": "session", "version": 3, "id": "0198-a", "timestamp": TIME, "cwd": "/w/ä"}


def entry(entry_id: str, parent_id: str | None = None, text: str = "hello", **fields: object) -> Entry:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}
    base = {"type": "message", "id": entry_id, "parentId": parent_id, "timestamp": TIME}
    return {**base, "message": message, **fields}


A, B, C = entry("a"), entry("b", "a", 'ü € 😀 \u2028 \\ "{[', extra={"deep": [1.5, None, True]}), entry("c", "b")
ENTRIES = [A, B, C]


def file_of(*lines: Entry | bytes) -> bytes:
    return b"".join(line + b"\n" if isinstance(line, bytes) else encode_record(line) for line in lines)


def bare(line: Entry) -> bytes:
    return encode_record(line)[:-1]


SESSION = file_of(HEADER, *ENTRIES)


def ids(text: SessionText) -> list[object]:
    return [each.get("id") for each in text.entries]


def test_a_well_formed_file_is_read_whole() -> None:
    assert read_session(SESSION) == SessionText(
        HEADER, ENTRIES, [], False, len(SESSION), CURRENT_VERSION, [], [head_of(entry) for entry in ENTRIES]
    )


def test_an_empty_file_has_nothing() -> None:
    assert read_session(b"") == SessionText(None, [], [], False, 0, CURRENT_VERSION, [], [])


def test_bytes_of_entries_are_returned_on_request() -> None:
    spaced = json.dumps(B).encode()
    text = read_session(file_of(HEADER, A, b"broken", spaced + b"\r", b"\0\0" + bare(C) + b"\0"), keep_raw=True)
    assert text.entries == ENTRIES
    assert text.raw == [bare(A), spaced, bare(C)]


# What is torn and damaged.


def test_a_cut_at_any_byte_loses_nothing_that_was_whole() -> None:
    whole = [len(SESSION) - len(file_of(*ENTRIES[number:])) - 1 for number in range(1, 4)]  # without the LF
    for size in range(len(SESSION) + 1):
        cut = SESSION[:size]
        text = read_session(cut)
        assert text.header == (HEADER if size >= len(bare(HEADER)) else None)
        assert text.entries == [each for each, end in zip(ENTRIES, whole, strict=True) if end <= size]
        assert text.has_torn_tail is (size > 0 and cut[-1:] != b"\n")
        assert text.size == size
        last = cut.rsplit(b"\n")[-1]
        is_readable = last in {b"", *map(bare, [HEADER, *ENTRIES])}
        expected = [] if is_readable else [DamagedLine(cut.count(b"\n") + 1, size - len(last), last)]
        assert text.damaged == expected


GARBAGE = st.one_of(
    st.binary(max_size=40).map(lambda data: b"x" + data.replace(b"\n", b"")),
    st.sampled_from(
        [b"\0" * 50, b"{", b"null", b"[]", b'"text"', b"12", b"{}", b'{"id":"","type":"x"}', b'{"id":5,"type":"x"}']
    ),
    st.integers(1, len(bare(B)) - 1).map(lambda size: bare(B)[:size]),
    st.integers(1, len(bare(B)) - 1).map(lambda size: bare(B)[size:]),
)


@given(GARBAGE, st.integers(0, 2))
def test_l3_a_damaged_line_in_the_middle_hides_nothing(garbage: bytes, position: int) -> None:
    lines: list[Entry | bytes] = [*ENTRIES]
    lines[position] = garbage
    text = read_session(file_of(HEADER, *lines))
    assert text.header == HEADER
    assert text.entries == [each for each in lines if not isinstance(each, bytes)]
    offset = len(file_of(HEADER, *lines[:position]))
    assert text.damaged == [DamagedLine(position + 2, offset, garbage)]


@given(GARBAGE)
def test_l1_a_damaged_first_line_hides_nothing(garbage: bytes) -> None:
    text = read_session(file_of(garbage, *ENTRIES))
    assert text.header is None
    assert text.entries == ENTRIES
    assert text.damaged == [DamagedLine(1, 0, garbage)]
    assert text.version == CURRENT_VERSION


@given(st.lists(st.one_of(st.sampled_from(ENTRIES), GARBAGE)))
def test_l3_no_amount_of_damage_loses_a_valid_entry(lines: list[Entry | bytes]) -> None:
    text = read_session(file_of(HEADER, *lines), keep_raw=True)
    assert text.entries == [line for line in lines if not isinstance(line, bytes)]
    assert [line.data for line in text.damaged] == [line for line in lines if isinstance(line, bytes)]


def test_l3_one_flipped_bit_costs_one_line_at_most() -> None:
    for position in range(len(file_of(HEADER)), len(SESSION)):
        for bit in range(8):
            changed = bytearray(SESSION)
            changed[position] ^= 1 << bit
            if changed[position] == 0x0A or SESSION[position] == 0x0A:
                continue  # that is another number of lines
            number = SESSION.count(b"\n", 0, position) - 1
            kept = [each for index, each in enumerate(read_session(bytes(changed)).entries) if index != number]
            others = [each for index, each in enumerate(ENTRIES) if index != number]
            assert others in (kept, read_session(bytes(changed)).entries)


FRAGMENTS = st.sampled_from(
    [
        *[b"\n", b"\n", b"\n", b"\r\n", b"\0\0", b"\xef\xbb\xbf", b"\xff", b" ", b"{", b"}", b"null"],
        *[b'{"type":"session",', b'{"type":"x","id":"1","parentId":', b'{"type":"message"}'],
        *[bare(HEADER), bare(A), bare(B), bare(B)[:60], bare(B)[60:]],
    ]
)


@given(st.lists(st.one_of(FRAGMENTS, st.binary(max_size=5))).map(b"".join))
def test_any_bytes_are_read_and_damage_is_reported_exactly(data: bytes) -> None:
    text = read_session(data, keep_raw=True)
    assert text.size == len(data)
    assert text.has_torn_tail is (data != b"" and not data.endswith(b"\n"))
    for damage in text.damaged:
        assert data[damage.offset : damage.offset + len(damage.data)] == damage.data
        assert damage.number == data.count(b"\n", 0, damage.offset) + 1
        assert b"\n" not in damage.data
        assert damage.data
    assert all(one.offset + len(one.data) <= other.offset for one, other in pairwise(text.damaged))
    if text.version > 1:
        assert all(isinstance(each["id"], str) and each["id"] for each in text.entries)
    assert [read_session(raw).entries for raw in text.raw] == [[each] for each in text.entries]


@given(st.lists(st.one_of(FRAGMENTS, st.binary(max_size=5))).map(b"".join))
def test_what_is_left_without_the_damage_reads_the_same(data: bytes) -> None:
    text = read_session(data)
    left = bytearray(data)
    for damage in reversed(text.damaged):
        del left[damage.offset : damage.offset + len(damage.data)]
    again = read_session(bytes(left))
    assert (again.header, again.entries, again.damaged) == (text.header, text.entries, [])


@pytest.mark.parametrize(
    "piece", [b"{", b"[", b'"', b"\\", b'{"type":"', b'{"type":"session",', b'{"type":"","id":"","parentId":', b"\0"]
)
def test_a_hostile_line_costs_linear_time(piece: bytes) -> None:
    """Quadratic would be hours for a MB."""
    text = read_session(file_of(HEADER, piece * (2**20 // len(piece)), A))
    assert text.entries == [A]
    assert len(text.damaged) == 1


# What surrounds a line.


def test_blank_lines_are_no_damage() -> None:
    text = read_session(b"\n \n" + file_of(HEADER, b"", A, b" \t\r", B) + b"\n\n")
    assert (text.header, text.entries, text.damaged) == (HEADER, [A, B], [])


def test_crlf_ends_a_line_too() -> None:
    text = read_session(SESSION.replace(b"\n", b"\r\n"))
    assert (text.header, text.entries, text.damaged) == (HEADER, ENTRIES, [])


def test_a_byte_order_mark_at_the_beginning_is_passed_over() -> None:
    text = read_session(b"\xef\xbb\xbf" + SESSION)
    assert (text.header, text.entries, text.damaged) == (HEADER, ENTRIES, [])
    text = read_session(b"\xef\xbb\xbf" + file_of(*ENTRIES))
    assert (text.header, text.entries, text.damaged) == (None, ENTRIES, [])


def test_nul_bytes_around_an_entry_do_not_hide_it() -> None:
    """A power failure leaves them where a file was made longer and never written."""
    text = read_session(file_of(b"\0" * 9 + bare(HEADER), bare(A) + b"\0" * 4096, b"\0" * 4096 + bare(B)))
    assert (text.header, text.entries, text.damaged) == (HEADER, [A, B], [])


def test_nul_bytes_alone_are_damage() -> None:
    text = read_session(SESSION + b"\0" * 512)
    assert text.entries == ENTRIES
    assert text.damaged == [DamagedLine(5, len(SESSION), b"\0" * 512)]
    assert text.has_torn_tail


# Entries that were glued to what has no end.


def test_an_entry_that_was_glued_to_a_torn_one_is_found() -> None:
    torn = bare(A)[:70]
    text = read_session(file_of(HEADER, torn + bare(B), C), keep_raw=True)
    assert text.entries == [B, C]
    assert text.damaged == [DamagedLine(2, len(file_of(HEADER)), torn)]
    assert text.raw == [bare(B), bare(C)]


def test_l3_a_torn_entry_hides_no_glued_one_wherever_it_was_cut() -> None:
    for size in range(1, len(bare(A))):
        text = read_session(file_of(HEADER, bare(A)[:size] + bare(B)))
        assert text.entries == [B]
        assert [line.data for line in text.damaged] == [bare(A)[:size]]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("first_key", ["type", "id", "message", "timestamp"])
def test_a_torn_entry_hides_no_glued_one_however_it_is_spelled(separators: tuple[str, str], first_key: str) -> None:
    """Other programs write other spaces, and keys in another order."""

    def spelled(value: Mapping[str, object]) -> bytes:
        ordered = {first_key: value[first_key], **value}
        return json.dumps(ordered, separators=separators).encode()

    torn = spelled({**A, "details": [{"type": "text", "id": "inner"}, '{"type": "x"']})
    for size in range(1, len(torn)):
        text = read_session(file_of(HEADER, torn[:size] + spelled(B), torn[:size] + spelled(C) + torn[:size]))
        assert text.entries == [B, C]
        assert [line.data for line in text.damaged] == [torn[:size]] * 3


def test_whole_entries_in_one_line_are_all_found() -> None:
    text = read_session(bare(HEADER) + bare(A) + bare(B) + bare(C)[:50] + bare(C))
    assert (text.header, text.entries) == (HEADER, ENTRIES)
    assert text.damaged == [DamagedLine(1, len(bare(HEADER) + bare(A) + bare(B)), bare(C)[:50])]


def test_a_header_behind_garbage_in_its_line_is_found() -> None:
    text = read_session(file_of(b"x\xff" + bare(HEADER), A))
    assert (text.header, text.entries, text.damaged) == (HEADER, [A], [DamagedLine(1, 0, b"x\xff")])


def test_the_text_of_a_message_is_never_taken_for_an_entry() -> None:
    """A torn message that quotes a session file: in a string the quotes are escaped."""
    quoting = bare(entry("q", text=bare(A).decode()))
    for size in range(1, len(quoting)):
        assert read_session(file_of(HEADER, quoting[:size])).entries == []


# What JSON.parse takes.


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb'"\ud800"', "\ud800"),
        (rb'"\udc00\ud83d"', "\udc00\ud83d"),
        (rb'"\ud83d\ude00"', "😀"),
        (b'"a\xffb"', "a\ufffdb"),
        (b'"cut \xe2\x82"', "cut \ufffd"),
        (b"18446744073709551616", 2.0**64),
        (rb'[18446744073709551615,-9223372036854775809,"\ud800"]', [2**64 - 1, -(2.0**63), "\ud800"]),
        (b"1e999", None),
        (b"[" + b"9" * 5000 + b"]", [None]),
        (b"[" * 600 + b"]" * 600, json.loads("[" * 600 + "]" * 600)),
    ],
)
def test_an_entry_with_odd_values_is_read(written: bytes, read: object) -> None:
    line = b'{"type":"custom","id":"a","parentId":null,"data":' + written + b"}"
    text = read_session(file_of(HEADER, line), keep_raw=True)
    assert text.damaged == []
    assert text.entries == [{"type": "custom", "id": "a", "parentId": None, "data": read}]
    assert text.raw == [line]


@pytest.mark.parametrize("written", [b"NaN", b"Infinity", b"-Infinity", b"01", b"'a'", b"1 2", b'"\t"', b"tru", b""])
def test_an_entry_with_a_value_that_json_does_not_have_is_damage(written: bytes) -> None:
    line = b'{"type":"custom","id":"a","parentId":null,"data":' + written + b"}"
    text = read_session(file_of(HEADER, line))
    assert (text.entries, [damage.data for damage in text.damaged]) == ([], [line])


def test_an_entry_that_is_nested_too_deep_is_damage() -> None:
    line = b'{"type":"custom","id":"a","parentId":null,"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    text = read_session(file_of(HEADER, line, B))
    assert (text.entries, [damage.data for damage in text.damaged]) == ([B], [line])


# What follows `{"a":` in a line, or a whole line.
JSON_VALUES = [
    *[b"1e999}", b"-1e999}", b"NaN}", b"01}", b"1.}", b".5}", b"+1}", b"1,}", b"-0}", b"1e5,", b"7" * 400 + b"}"],
    *[
        b"123456789012345678901234567890}",
        b"tru}",
        b"null}",
        b'1e5,"a":2}',
        b'1 "b":2}',
        b'1}{"b":2}',
        b"1}\r",
        b"1}\xa0",
    ],
    *[rb'"\ud800"}', rb'"\uD800\u0041"}', rb'"\ud83d\ude00"}', rb'"\u00zz"}', rb'"\x41"}', b'"\t"}', b'"\x7f"}'],
    *[b'"\xff"}', b'"\xed\xa0\x80"}', b'"\xe2\x80\xa8"}', b"'a'}", b'1,"\xff":1}', b'1,"b" :\t2 }', b"/**/1}"],
]
JSON_LINES = [b'{"a":' + value for value in JSON_VALUES] + [
    b"{}",
    b"\t{}",
    b"\x0c{}",
    b"\xc2\xa0{}",
    b"{'a':1}",
    b"{a:1}",
]


@pytest.mark.peer
def test_a_line_is_readable_when_the_original_s_parser_takes_it(original_pi: list[str], tmp_path: Path) -> None:
    """Compared with JSON.parse of the original's own runtime, on text that it decoded."""
    lines = [line.replace(b"{", b'{"type":"x","id":"i",', 1) for line in JSON_LINES]
    for number, line in enumerate(lines):
        (tmp_path / str(number)).write_bytes(line)
    script = """
      const fs = require("fs");
      for (let n = 0; n < Number(process.argv[1]); n++) {
        let out; try { out = JSON.parse(fs.readFileSync(process.argv[2] + "/" + n, "utf8")) } catch { out = "refused" }
        console.log(JSON.stringify(out));
      }"""
    command = [original_pi[0], "-e", script, str(len(lines)), str(tmp_path)]
    printed = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.splitlines()
    theirs = [json.loads(line) for line in printed]
    ours: list[object] = []
    for line in lines:
        entries, _ = read_entries(line)
        # As JSON.stringify writes it, since that is how the other side is seen.
        ours.append(json.loads(encode_record(entries[0])) if entries else "refused")
    differing = [pair for pair in zip(lines, ours, theirs, strict=True) if pair[1] != pair[2]]
    assert differing == []


# Headers and versions.


def test_the_first_object_has_to_be_the_header() -> None:
    text = read_session(file_of(A, HEADER, B))
    assert text.header is None
    assert text.entries == [A, B]
    assert [damage.data for damage in text.damaged] == [bare(HEADER)]


@pytest.mark.parametrize("header", [{"type": "session"}, {"type": "session", "id": 5}, {"type": "sessions", "id": "a"}])
def test_a_header_needs_an_id_that_is_a_text(header: Entry) -> None:
    assert read_session(file_of(header, A)).header is None


def test_a_later_header_is_no_entry() -> None:
    text = read_session(file_of(HEADER, A, HEADER, B))
    assert (text.header, text.entries) == (HEADER, [A, B])
    assert [damage.number for damage in text.damaged] == [3]


@pytest.mark.parametrize(("version", "read"), [(1, 1), (2, 2), (3, 3), (3.0, 3), (None, 1), (0, 1), (-7, 1)])
def test_the_version_is_recognised(version: object, read: int) -> None:
    text = read_session(file_of({**HEADER, "version": version}, A))
    assert (text.version, text.entries) == (read, [A])


@pytest.mark.parametrize("version", [4, 5.0, 10**30, "3", "1", True, False, 3.5, {}, [3]])
def test_a_version_that_is_not_known_counts_as_newer(version: object) -> None:
    text = read_session(file_of({**HEADER, "version": version}, A))
    assert text.version > CURRENT_VERSION
    assert text.entries == [A]


def test_a_newer_version_is_returned_as_it_is() -> None:
    assert read_session(file_of({**HEADER, "version": 17})).version == 17


OLD: Entry = {"type": "message", "timestamp": TIME, "message": {"role": "user", "content": "hi", "timestamp": 1}}
OLD_HEADER = {name: value for name, value in HEADER.items() if name != "version"}


def test_entries_of_version_1_need_no_id() -> None:
    text = read_session(file_of(OLD_HEADER, OLD, b'{"no":"type"}', OLD), keep_raw=True)
    assert (text.version, text.entries, text.raw) == (1, [OLD, OLD], [bare(OLD)] * 2)
    assert [damage.number for damage in text.damaged] == [3]


def test_l1_entries_of_version_1_are_found_without_their_header() -> None:
    text = read_session(file_of(b"broken", OLD, OLD))
    assert (text.header, text.version, text.entries) == (None, 1, [OLD, OLD])
    assert text.damaged == [DamagedLine(1, 0, b"broken")]


@pytest.mark.parametrize("version", [2, 3])
def test_later_versions_need_ids(version: int) -> None:
    text = read_session(file_of({**HEADER, "version": version}, OLD, A))
    assert (ids(text), len(text.damaged)) == (["a"], 1)


def test_entries_of_unknown_types_and_fields_are_kept() -> None:
    odd: Entry = {"id": "1", "parentId": ["not", "an", "id"], "x": {"y": [None]}}
    odder: Entry = {"id": "2", "type": 5, "parentId": "1"}
    text = read_session(file_of(HEADER, odd, odder))
    assert (text.entries, text.damaged) == ([odd, odder], [])


def test_a_header_is_read_from_the_beginning_of_a_file() -> None:
    for size in range(len(SESSION)):
        assert read_header(SESSION[:size]) == (HEADER if size >= len(bare(HEADER)) else None)


def test_a_header_of_many_thousand_bytes_is_read_whole() -> None:
    long = {**HEADER, "cwd": "/" + "d" * 100_000, "parentSession": "/" + "p" * 100_000}
    data = file_of(long, A)
    assert read_header(data) == long
    assert read_header(data[:200_000]) is None


# A tail that another program appended, and the collector.


def test_appended_lines_are_read_like_those_of_a_file() -> None:
    assert read_entries(file_of(B, b"broken", HEADER, OLD, C)) == (
        [B, C],
        [
            DamagedLine(2, len(file_of(B)), b"broken"),
            DamagedLine(3, len(file_of(B, b"broken")), bare(HEADER)),
            DamagedLine(4, len(file_of(B, b"broken", HEADER)), bare(OLD)),
        ],
    )


@given(st.binary())
def test_appended_bytes_of_any_kind_are_read(data: bytes) -> None:
    entries, damaged = read_entries(file_of(A) + data + b"\n" + file_of(B))
    assert (entries[0], entries[-1]) == (A, B)
    assert all(line.data in data for line in damaged)


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_left_as_it_was(is_on: bool) -> None:
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        read_session(SESSION)
        assert gc.isenabled() is is_on
    finally:
        (gc.enable if was_on else gc.disable)()
