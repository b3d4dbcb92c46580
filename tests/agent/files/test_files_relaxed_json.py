"""Reading configuration files: what people write, what machines break."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.files.relaxed_json import ConfigurationFileError, read_object, strip_comments

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)


@given(json_values)
def test_plain_json_is_left_as_it_is(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    assert text == strip_comments(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // one\n "b": 2,}', {"a": 1, "b": 2}),
        ('// first\n{"a": [1, 2, // two\n ],\n}// last', {"a": [1, 2]}),
        ('{"url": "http://x//y", "b": ",]"}', {"url": "http://x//y", "b": ",]"}),
        ('{"quoted": "\\"// no comment,}"}', {"quoted": '"// no comment,}'}),
        ('{"a": 1, // "quote\n"b": 2}', {"a": 1, "b": 2}),
    ],
)
def test_comments_and_last_commas_are_ignored(text: str, value: object, tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text(text)
    assert value == read_object(file, is_relaxed=True)


def test_every_other_character_keeps_its_place() -> None:
    text = '{"a": 1, // é\r\n "b": [1,\t],\n}'
    stripped = strip_comments(text)
    assert len(text) == len(stripped)
    assert [i for i, char in enumerate(text) if char in '"\n[]{}'] == [
        i for i, char in enumerate(stripped) if char in '"\n[]{}'
    ]


@pytest.mark.parametrize("text", ['{"a": 1,, }', '{"a" 1}', "// only", "", '{"a": "'])
def test_what_is_no_json_stays_no_json(text: str, tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text(text)
    with pytest.raises(ConfigurationFileError, match="is not valid JSON"):
        read_object(file, is_relaxed=True)


@pytest.mark.parametrize("unit", ['"\\', "// ", ", ", '{"', '\\"', "/", ",//\n", '"" '])
def test_a_hostile_file_takes_time_in_proportion_to_its_size(unit: str) -> None:
    """Ten times the text may take fifty times as long on a busy machine; quadratic would take a hundred."""

    def best_s(size: int) -> float:
        text = unit * (size // len(unit))
        times = []
        for _ in range(3):
            start = time.process_time()
            strip_comments(text)
            times.append(time.process_time() - start)
        return min(times)

    assert best_s(300_000) < 50 * max(best_s(30_000), 1e-4)


def test_a_missing_file_is_no_error(tmp_path: Path) -> None:
    assert read_object(tmp_path / "models.json", is_relaxed=True) is None


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert {"a": 1} == read_object(file, is_relaxed=False)


def test_comments_are_refused_where_the_format_has_none(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"a": 1} // x')
    with pytest.raises(ConfigurationFileError):
        read_object(file, is_relaxed=False)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[]", b"1", b"null", b'"x"', b"[" * 5000, b"\x00"])
def test_anything_else_is_an_error_and_never_a_crash(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(content)
    with pytest.raises(ConfigurationFileError):
        read_object(file, is_relaxed=False)


def test_a_folder_in_the_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationFileError, match="can't be read"):
        read_object(tmp_path, is_relaxed=True)
