"""The reader of scenarios: what it takes for what, on which line, and that another library for YAML 1.2 agrees."""

import string
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pinnace_fuzz.judge.scenarios import yaml_lines
from pinnace_fuzz.judge.scenarios.yaml_lines import YamlError, read_yaml
from pinnace_spec import data

FILES = sorted(path for path in data.FOLDER.rglob("*.yaml") if path.name != "asyncapi.yaml")
WORDS = [
    "true",
    "null",
    "~",
    "on",
    "no",
    "yes",
    "12",
    "-0",
    "1_000",
    "0o17",
    "0x1F",
    ".5",
    "1e3",
    "-.inf",
    ".nan",
    "=",
    "<<",
]
LOADER: Callable[..., Callable[[str], Any]] = yaml_lines._loader  # pyright: ignore[reportPrivateUsage]
VALUE: Callable[..., Any] = yaml_lines._value  # pyright: ignore[reportPrivateUsage]
LINES = st.lists(
    st.sampled_from(["a: ", "b: ", "- ", "  ", "? ", "'", '"', "{", "}", "[", "]", ", ", ": ", "# c", "\n", *WORDS])
)


@pytest.fixture(params=[True, False], ids=["compiled", "in Python"])
def is_compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(yaml_lines, "_loader", lambda: LOADER(is_compiled=request.param))
    read_yaml.cache_clear()
    yield request.param
    read_yaml.cache_clear()


@pytest.mark.usefixtures("is_compiled")
@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("true", True),
        ("FALSE", False),
        ("on", "on"),
        ("no", "no"),
        ("~", None),
        ("", None),
        ("Null", None),
        ("12", 12),
        ("-7", -7),
        ("0o17", 15),
        ("0x1F", 31),
        ("012", 12),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2026-01-02", "2026-01-02"),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-.inf", float("-inf")),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
    ],
)
def test_a_word_is_what_the_core_schema_says(word: str, value: object) -> None:
    found, lines = read_yaml(f"# a line\nkey:\n  - x\n  - {word}\n")

    assert ({"key": ["x", value]}, 4) == (found, lines["key", 1])
    assert type(value) is type(found["key"][1])


@pytest.mark.usefixtures("is_compiled")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\na: 2\n", 2),
        ("a: !tag 1\n", 1),
        ("1: a\n", 1),
        ("a: 1\n b: 2\n", 2),
        ("a: [1\n", 2),
        ("a: \x07\n", 1),
        ("a\n---\nb\n", 2),
    ],
)
def test_what_is_something_else_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(YamlError) as caught:
        read_yaml(text)

    assert caught.value.line in (line, line - 1)


@cache
def other(text: str) -> Any:
    """Read as the other library does, in its own words for what is none."""
    library: Any = YAML(typ="safe", pure=True)
    return library.load(text)


@pytest.mark.usefixtures("is_compiled")
def test_all_files_of_the_specification_are_read_as_by_another_library() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert other(text) == read_yaml(text)[0], path.name


# The compiled one takes more, for example a tab behind a value.
@given(LINES.map("".join) | st.text(string.printable))
@example("a: b: c")
@example("- - 1\n- {a: 1, b}")
def test_what_the_parser_in_python_reads_the_compiled_one_reads_alike(text: str) -> None:
    def read(*, is_compiled: bool) -> object:
        try:
            node = LOADER(is_compiled=is_compiled)(text).get_single_node()
            lines: dict[Any, int] = {}
            return (None if node is None else VALUE(node, (), lines)), lines
        except (yaml.YAMLError, YamlError, ValueError):
            return None

    expected = read(is_compiled=False)

    assert expected is None or repr(expected) == repr(read(is_compiled=True))
