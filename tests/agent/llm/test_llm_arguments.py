"""Tool arguments: growing, broken, complete."""

import json
import time
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.llm import recording

from pinnace_agent.llm.arguments import (
    ALWAYS_PARSED_CHARS,
    MAX_SHOWN_CHARS,
    Arguments,
    GrowingArguments,
    guess_arguments,
    read_arguments,
    repair_strings,
)

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(), JSON_VALUES, max_size=4)


def error_of(text: str) -> str:
    value, error = read_arguments(text)
    assert value == {}
    assert error is not None
    return error


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_nothing_at_all_is_no_arguments(text: str) -> None:
    assert read_arguments(text) == Arguments({}, None)


@given(OBJECTS)
def test_what_is_json_is_read_as_it_is(value: dict[str, object]) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=2)):
        assert read_arguments(text) == Arguments(value, None)


@given(OBJECTS)
def test_repair_changes_nothing_that_is_json(value: dict[str, object]) -> None:
    text = json.dumps(value, ensure_ascii=False)

    assert repair_strings(text) == text


def test_raw_control_characters_inside_of_strings_are_repaired() -> None:
    assert read_arguments('{"text": "one\ntwo\r\n\tthree\x00\x1f"}').value == {"text": "one\ntwo\r\n\tthree\x00\x1f"}


@given(st.text(st.characters(max_codepoint=0x7F, exclude_characters='"\\')))
def test_any_raw_text_is_repaired_to_itself(text: str) -> None:
    assert read_arguments(f'{{"a": "{text}"}}') == Arguments({"a": text}, None)


def test_backslashes_that_escape_nothing_are_repaired() -> None:
    assert read_arguments(r'{"pattern": "\d+\.\w", "path": "C:\new\users", "u": "\u12"}').value == {
        "pattern": r"\d+\.\w",
        "path": "C:\new\\users",
        "u": r"\u12",
    }


def test_an_escaped_quote_ends_no_string() -> None:
    assert read_arguments('{"a": "say \\"hi\\"\n", "b": "\\\\"}').value == {"a": 'say "hi"\n', "b": "\\"}


def test_whitespace_between_values_is_left_alone() -> None:
    assert read_arguments('{\n\t"a"\r\n: "x\ny"\n}').value == {"a": "x\ny"}


def test_halves_of_a_character_are_joined_and_a_lone_one_replaced() -> None:
    value = read_arguments(r'{"\ud83d": ["\ud83d\ude00", "\ude00x"]}').value

    assert value == {"\ufffd": ["\U0001f600", "\ufffdx"]}


@pytest.mark.parametrize(
    ("text", "kind"),
    [("[1]", "an array"), ('"x"', "a string"), ("null", "null"), ("true", "a boolean"), ("1.5", "a number")],
)
def test_arguments_that_are_no_object_are_an_error(text: str, kind: str) -> None:
    assert f"expected an object, not {kind}" in error_of(text)


@pytest.mark.parametrize(
    "text", ["{", '{"a": ', '{"a": 1,}', '{"a": 1}{"a": 1}', "{'a': 1}", "plain words", '{"a": NaN}']
)
def test_what_cannot_be_repaired_is_an_error_that_shows_it(text: str) -> None:
    error = error_of(text)

    assert error.startswith("The arguments are not valid JSON: ")
    assert error.endswith(f"\n\nReceived arguments:\n{text}")


def test_the_error_is_of_the_text_as_it_came_not_of_the_repaired_one() -> None:
    assert "unexpected control character in string (character 8)" in error_of('{"a": "x\ny", "b": ')


def test_of_a_long_text_the_error_shows_the_beginning() -> None:
    error = error_of('{"a": "' + "x" * 10_000)

    assert error.endswith(f"... [truncated {10_007 - MAX_SHOWN_CHARS} chars]")
    assert len(error) < MAX_SHOWN_CHARS + 200


def test_arguments_nested_as_deep_as_a_record_may_be_are_read() -> None:
    """Deeper than Python's own stack would allow a recursive reader at two frames a level."""
    text = '{"a":' * 510 + "[]" + "}" * 510
    arguments, error = read_arguments(text)

    assert error is None
    value: object = arguments
    for _ in range(510):
        value = cast("dict[str, object]", value)["a"]
    assert value == []
    assert "nested deeper" in error_of('{"a":' * 600 + "1" + "}" * 600)


def test_growing_arguments_are_read_as_far_as_they_go() -> None:
    growing = GrowingArguments()
    seen: list[dict[str, object]] = []
    for piece in ['{"pa', 'th": "a', '.py", "ed', 'its": [{"o": "x\\', 'n"}, {"n', '": 1', "}]}"]:
        growing.pieces.add(piece)
        seen.append(growing.guess())

    assert seen == [
        {},
        {"path": "a"},
        {"path": "a.py"},
        {"path": "a.py", "edits": [{"o": "x"}]},
        {"path": "a.py", "edits": [{"o": "x\n"}, {}]},
        {"path": "a.py", "edits": [{"o": "x\n"}, {"n": 1}]},
        {"path": "a.py", "edits": [{"o": "x\n"}, {"n": 1}]},
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "one\ntwo', {"a": "one\ntwo"}),
        (r'{"a": "\d', {"a": r"\d"}),
        (r'{"a": "\ud83d", "b": "c', {"a": "\ufffd", "b": "c"}),
        (r'{"a": "x\ud83d', {"a": "x"}),
        (r'{"a": "x\u00', {"a": "x"}),
    ],
)
def test_growing_arguments_are_repaired(text: str, value: dict[str, object]) -> None:
    assert guess_arguments(text) == value


@pytest.mark.parametrize("text", ["", "[1", '"x', "words", "{]", '{"a": NaN'])
def test_what_is_no_beginning_of_an_object_gives_no_guess(text: str) -> None:
    assert guess_arguments(text) is None


def test_a_piece_that_spoils_the_text_takes_nothing_back() -> None:
    growing = GrowingArguments()
    growing.pieces.add('{"a": 1')
    before = growing.guess()
    growing.pieces.add(', "b": NaN')

    assert growing.guess() == before == {"a": 1}


def test_a_guess_that_was_given_never_changes() -> None:
    growing = GrowingArguments()
    growing.pieces.add('{"a": {"b": "x')
    first = growing.guess()
    growing.pieces.add('yz"}}')

    assert growing.guess() == {"a": {"b": "xyz"}}
    assert first == {"a": {"b": "x"}}


@given(OBJECTS, st.integers(0, 60))
def test_any_beginning_of_arguments_can_be_guessed(value: dict[str, object], size: int) -> None:
    text = json.dumps(value)
    guess = guess_arguments(text[:size])

    assert guess is None or isinstance(guess, dict)
    assert guess_arguments(text) == value


def test_the_guess_of_a_long_text_is_at_most_a_sixteenth_behind() -> None:
    growing = GrowingArguments()
    growing.pieces.add('{"a": "')
    for _ in range(20_000):
        growing.pieces.add("x")
        shown = cast("str", growing.guess().get("a", ""))
        assert growing.pieces.size <= ALWAYS_PARSED_CHARS or len(shown) > growing.pieces.size * 15 // 16 - 16


def test_asking_for_the_guess_after_every_piece_stays_cheap() -> None:
    """Parsed for every piece, the time for each would grow with the text: here sixteen times."""

    def seconds_each(count: int) -> float:
        growing = GrowingArguments()
        growing.pieces.add('{"a": "')
        start_s = time.process_time()
        for _ in range(count):
            growing.pieces.add("abcdefg ")
            growing.guess()
        return (time.process_time() - start_s) / count

    assert recording.cost_ratio(seconds_each, 4_000, 64_000) < 4
