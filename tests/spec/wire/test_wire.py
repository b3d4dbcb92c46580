"""JSON as JSON.parse reads it and JSON.stringify writes it, whichever parser does the work."""

import contextlib
import json
import math
from collections.abc import Mapping

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pinnace_spec.wire.json_text import (
    MAX_NESTING,
    MAX_OUTPUT_NESTING,
    EncodedArray,
    JsonValue,
    WireError,
    decode_line,
    encode_fragment,
    encode_record,
    encode_value,
    without_faults,
)

# Surrogates too: providers split a pair over two deltas.
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
SCALARS: st.SearchStrategy[JsonValue] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.sampled_from(["\u2028", "a\u2029b", "\u0085", "\ud800", "\udfff\ud800", "\x00\x1f", '"\\'])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4))
SCRAPS = st.sampled_from([*'[]{},:"\\u0dD8e1-.+tnN ', r"\ud800", "null", "NaN", "1e999"])
# A member that orjson refuses, so that the other parser, or our own writer, does the work.
LONE = "\ud800"


def through_the_other_parser(text: str) -> JsonValue:
    """Decode a text beside a lone surrogate's escape, which orjson does not take."""
    pair = decode_line(f'[{text},"\\ud800"]'.encode())
    assert isinstance(pair, list)
    assert pair[1] == LONE
    return pair[0]


def read_or_refuse(line: bytes) -> None:
    """Fail for every other outcome."""
    with contextlib.suppress(WireError):
        decode_line(line)


def as_json(value: object) -> object:
    """Take a value through the standard library: halves of a pair that meet become one character, as anywhere."""
    return json.loads(json.dumps(value))


@given(VALUES)
def test_what_is_written_is_read_again(value: JsonValue) -> None:
    line = encode_record({"value": value})

    assert as_json({"value": value}) == decode_line(line.removesuffix(b"\n"))


@given(VALUES)
def test_other_readers_read_what_is_written(value: JsonValue) -> None:
    assert as_json({"value": value}) == json.loads(encode_record({"value": value}))


@given(VALUES)
def test_both_ways_of_writing_agree(value: JsonValue) -> None:
    alone = encode_record({"value": value}).removesuffix(b"}\n").removeprefix(b"{")
    beside = encode_record({"lone": LONE, "value": value}).removesuffix(b"}\n").removeprefix(b'{"lone":"\\ud800",')

    assert json.loads(b"{" + alone + b"}") == json.loads(b"{" + beside + b"}")


@given(VALUES)
def test_a_record_is_one_line_for_every_reader_of_lines(value: JsonValue) -> None:
    """R-FRM-09: also for those that end lines at U+2028, U+2029 or U+0085."""
    line = encode_record({"value": value}).decode()

    assert line.endswith("}\n")
    assert [line[:-1]] == line.splitlines()


@given(st.binary(max_size=60))
@example(b"\xff")
@example(b'"\\ud800')
@example(b'"\\ud800\xff"')
@example(b"")
def test_any_bytes_are_a_value_or_a_wire_error(line: bytes) -> None:
    read_or_refuse(line)


@given(st.lists(SCRAPS).map("".join))
def test_any_scraps_of_json_are_a_value_or_a_wire_error(text: str) -> None:
    read_or_refuse(text.encode())


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (rb'"\ud800"', "\ud800"),
        (rb'"\uDFFF"', "\udfff"),
        (rb'"a\ud800b\udc00"', "a\ud800b\udc00"),
        (rb'{"\ud800":1}', {"\ud800": 1}),
        (rb'"\ud83d\ude00"', "😀"),
        (rb'["\ud83d\ude00\ud83d"]', ["😀\ud83d"]),
    ],
)
def test_an_escaped_lone_surrogate_is_text(line: bytes, value: JsonValue) -> None:
    assert value == decode_line(line)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "[NaN]", '{"a":-Infinity}'])
def test_constants_that_json_does_not_have_are_refused(constant: str) -> None:
    with pytest.raises(WireError):
        decode_line(constant.encode())
    with pytest.raises(WireError):
        through_the_other_parser(constant)


@pytest.mark.parametrize("digits", ["9" * 23, "1" + "0" * 30, str(2**64), str(-(2**63) - 1), "1" + "0" * 308])
def test_an_integer_beyond_64_bits_is_a_float(digits: str) -> None:
    for value in (decode_line(digits.encode()), through_the_other_parser(digits)):
        assert isinstance(value, float)
        assert float(digits) == value


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 2**63, 2**64 - 1, -(2**63)])
def test_an_integer_of_64_bits_is_exact(number: int) -> None:
    for value in (decode_line(str(number).encode()), through_the_other_parser(str(number))):
        assert isinstance(value, int)
        assert number == value


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400, "9" * 20_000, "-" + "9" * 5_000])
def test_a_number_outside_the_range_of_a_double_is_refused(number: str) -> None:
    """Also where Python has a limit of its own on digits."""
    with pytest.raises(WireError):
        decode_line(number.encode())
    with pytest.raises(WireError, match="range of a double"):
        through_the_other_parser(number)


@pytest.mark.parametrize("number", ["1e-400", "0." + "0" * 5_000 + "1"])
def test_a_number_too_small_for_a_double_is_zero(number: str) -> None:
    assert 0 == decode_line(number.encode()) == through_the_other_parser(number)


@pytest.mark.parametrize("text", ["[0", "[0]", "0", '"', '{"a":1'])
@pytest.mark.parametrize("bytes_", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\xaf"])
def test_invalid_utf_8_is_refused(text: str, bytes_: bytes) -> None:
    """R-FRM-05: nothing is replaced in silence; the bytes of a surrogate are no UTF-8 either."""
    with pytest.raises(WireError):
        decode_line(b'{"a":"' + bytes_ + b'"}')
    with pytest.raises(WireError, match="UTF-8"):
        decode_line(b'{"a":"\\ud800' + bytes_ + b'"}')
    with pytest.raises(WireError):
        decode_line(text.encode() + bytes_)


def test_a_byte_order_mark_is_refused() -> None:
    """R-FRM-06."""
    with pytest.raises(WireError):
        decode_line(b'\xef\xbb\xbf{"type":"get_state"}')
    with pytest.raises(WireError):
        decode_line(b'\xef\xbb\xbf"\\ud800"')


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[1,]",
        "01",
        "+1",
        ".5",
        "1.",
        "'a'",
        "tru",
        "{a:1}",
        '{"a"}',
        "1 2",
        '"\t"',
        '"\\x41"',
        "//",
        '"\\u12"',
        "[1",
    ],
)
def test_what_json_parse_refuses_is_refused(line: str) -> None:
    with pytest.raises(WireError):
        decode_line(line.encode())
    with pytest.raises(WireError):
        through_the_other_parser(line)


def test_of_equal_keys_the_last_one_counts() -> None:
    assert {"a": 2} == decode_line(b'{"a":1,"a":2}')
    assert {"a": LONE} == decode_line(b'{"a":1,"a":"\\ud800"}')


def nested(kind: str, depth: int, core: str) -> bytes:
    opened, closed = {"array": ("[", "]"), "object": ('{"a":', "}"), "both": ('[{"a":', "}]")}[kind]
    count = depth // 2 if kind == "both" else depth
    return (opened * count + core + closed * count).encode()


@pytest.mark.parametrize("kind", ["array", "object", "both"])
@pytest.mark.parametrize("core", ["1", r'"\ud800"', '"[[[["', r'"[\"{"'])
def test_nesting_has_a_published_limit_whichever_parser_reads(kind: str, core: str) -> None:
    """R-FRM-08."""
    assert MAX_NESTING == 512
    decode_line(nested(kind, MAX_NESTING, core))
    with pytest.raises(WireError, match="nested deeper than 512 levels"):
        decode_line(nested(kind, MAX_NESTING + 2, core))


@pytest.mark.parametrize("core", ["", r'"\ud800",'])
def test_one_level_more_than_the_limit_is_refused(core: str) -> None:
    with pytest.raises(WireError, match="nested deeper"):
        decode_line(f"[{core}".encode() + nested("array", MAX_NESTING, "") + b"]")


@pytest.mark.parametrize("depth", [600, 1_000, 2_000, 100_000, 1_000_000])
@pytest.mark.parametrize("opened", ["[", '{"a":', '[[],"\\ud800",'])
def test_any_depth_is_refused_and_never_harms(depth: int, opened: str) -> None:
    """Closed or not: the reader may not find out by trying."""
    with pytest.raises(WireError, match="nested deeper"):
        decode_line(opened.encode() * depth)


@pytest.mark.parametrize("depth", [50, 100, 300, 500])
def test_a_line_that_ends_inside_brackets_is_not_called_a_lack_of_memory(depth: int) -> None:
    """orjson says so of some."""
    with pytest.raises(WireError) as refused:
        decode_line(b"[" * depth)

    assert "memory" not in refused.value.text


def test_brackets_in_texts_do_not_nest() -> None:
    text = "[{" * 10_000 + '"\\'

    assert [text] == decode_line(json.dumps([text]).encode())
    assert [text, LONE] == decode_line(json.dumps([text, LONE]).encode())


def test_many_brackets_side_by_side_are_not_deep() -> None:
    line = b"[" + b",".join([b"[{}]"] * 5_000) + b"]"

    assert [[{}]] * 5_000 == decode_line(line)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 10**400, -(10**5_000)], ids=range(5))
def test_a_number_that_json_does_not_have_is_null(number: float) -> None:
    assert b'{"a":[null]}\n' == encode_record({"a": [number]})
    assert b'{"lone":"\\ud800","a":[null]}\n' == encode_record({"lone": LONE, "a": [number]})


def test_an_integer_beyond_64_bits_keeps_its_digits() -> None:
    assert b'{"a":18446744073709551616}\n' == encode_record({"a": 2**64})


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"])
@pytest.mark.parametrize("rest", ["", "é😀", LONE])
def test_separators_of_lines_are_escaped(separator: str, rest: str) -> None:
    """R-FRM-09, in keys, values and what was encoded before."""
    fragment = encode_fragment([separator, rest])
    line = encode_record({f"k{separator}": separator + rest, "early": fragment})

    assert separator not in line.decode()
    assert rf"\u{ord(separator):04x}".encode() in line
    assert {f"k{separator}": separator + rest, "early": [separator, rest]} == json.loads(line)


def test_characters_beside_the_separators_stay_as_they_are() -> None:
    text = "\u2027\u202a\u0084\u0086é\xa0😀"

    assert f'{{"a":"{text}"}}\n'.encode() == encode_record({"a": text})


@pytest.mark.parametrize("depth", [250, 300, 2_000, MAX_OUTPUT_NESTING - 10])
def test_a_deep_record_is_written(depth: int) -> None:
    """What came in nested is reported again inside more brackets."""
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    line = encode_record({"deep": value})

    assert b'{"deep":' + b"[" * (depth + 1) + b"]" * (depth + 1) + b"}\n" == line


def test_a_record_that_contains_itself_is_a_fault_of_the_caller() -> None:
    record: dict[str, object] = {}
    record["self"] = record

    with pytest.raises(ValueError, match="contains itself"):
        encode_record(record)


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", object(), 1j])
@pytest.mark.parametrize("lone", ["", LONE])
def test_what_json_does_not_have_is_a_fault_of_the_caller(value: object, lone: str) -> None:
    with pytest.raises(TypeError):
        encode_record({"lone": lone, "a": [value]})


@pytest.mark.parametrize("lone", ["", LONE])
def test_a_key_that_is_no_text_is_a_fault_of_the_caller(lone: str) -> None:
    bad: Mapping[object, object] = {1: lone}
    with pytest.raises(TypeError):
        encode_record({"lone": lone, "a": bad})


def test_a_fragment_is_written_as_often_as_it_is_used() -> None:
    message = encode_fragment({"text": "é" + LONE})

    expected = b'{"message":{"text":"\\u00e9\\ud800"},"event":{"partial":{"text":"\\u00e9\\ud800"}}}\n'
    assert expected == encode_record({"message": message, "event": {"partial": message}})
    assert isinstance(message, orjson.Fragment)


def test_tuples_and_mappings_of_any_kind_are_written() -> None:
    assert b'{"a":[1,[2]]}\n' == encode_record({"a": (1, (2,))})
    assert b'{"lone":"\\ud800","a":[1,[2]]}\n' == encode_record({"lone": LONE, "a": (1, (2,))})


@given(st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3), VALUES)
def test_an_array_of_encoded_elements_is_written_as_its_values_are(
    values: list[JsonValue], more: list[JsonValue], other: JsonValue
) -> None:
    arrays = [EncodedArray(map(encode_value, each)) for each in (values, more)]
    record = {"id": other, "data": {"long": arrays[0], "other": other, "more": arrays[1]}}

    line = encode_record(record)

    plain = {"id": other, "data": {"long": values, "other": other, "more": more}}
    assert json.loads(line) == json.loads(encode_record(plain))
    assert line.count(b"\n") == 1
    assert encode_record(without_faults(record)).endswith(b"\n")


def test_a_record_with_an_encoded_array_and_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_record({"data": EncodedArray([b"1"]), "no": object()})
