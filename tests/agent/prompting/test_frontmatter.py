"""Frontmatter: what counts, what does not, and hostile input."""

import contextlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError
from ruamel.yaml.error import YAMLError

from pinnace_agent.prompting import frontmatter
from pinnace_agent.prompting.frontmatter import Document, FrontmatterError, read_document

# The longest is read in a fifth of a second; something quadratic takes a hundred times as long.
TIME_S = 5.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Document("")),
        ("  body\n\n", Document("  body\n\n")),
        ("body\r\nmore\rend", Document("body\nmore\nend")),
        ("---\n---\n body \n", Document("body", True)),
        ("---\ndescription: d\n---\n\n body\n", Document("body", True, {"description": "d"})),
        ("---\r\ndescription: d\r\n---\r\n\r\nbody\r\n", Document("body", True, {"description": "d"})),
        ("---  \ndescription: d\n---  \nbody", Document("body", True, {"description": "d"})),
        ("---\ndescription: d\n---", Document("", True, {"description": "d"})),
        # No end, no beginning: a Markdown file may begin with a line.
        ("---\ndescription: d\nbody", Document("---\ndescription: d\nbody")),
        ("\n---\ndescription: d\n---\nbody", Document("\n---\ndescription: d\n---\nbody")),
        (" ---\nd: e\n---\n", Document(" ---\nd: e\n---\n")),
        ("---\n- a\n---\nbody", Document("body", True)),
        ("---\njust text\n---\nbody", Document("body", True)),
    ],
)
def test_a_file_is_split_like_this(text: str, expected: Document) -> None:
    assert expected == read_document(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # Not YAML, but what people write.
        ("plain words, with commas (and more): no", "plain words, with commas (and more): no"),
        ('Use when: it\'s "asked": yes # comment', 'Use when: it\'s "asked": yes'),
        ("Steps:", "Steps:"),
        ("Use when: asked\n  and: more\n  # comment\nname: x", "Use when: asked and: more"),
        ("a: [b", "a: [b"),
        ("[a: b: c", None),
        ("plain words; http://x.y/z#part a:b", "plain words; http://x.y/z#part a:b"),
        ("'quoted: yes'", "quoted: yes"),
        ('"a\\tb"', "a\tb"),
        ("|\n  a\n  b", "a\nb\n"),
        (">\n  a\n  b", "a b\n"),
        ("goes\n  on", "goes on"),
        ("words # comment", "words"),
        ("on", "on"),
        ("yes", "yes"),
        ("2020-01-01", "2020-01-01"),
        ("!tag words", "words"),
        ("!!python/object/apply:os.system words", "words"),
        ("", ""),
        ("5", ""),
        ("1.5", ""),
        ("true", ""),
        ("null", ""),
        ("~", ""),
        ("[a]", ""),
        ("{a: b}", ""),
        ("!!binary aGk=", ""),
    ],
)
def test_a_value_is_a_text_if_yaml_says_so(value: str, expected: str | None) -> None:
    text = f"---\ndescription: {value}\n---\nbody"
    if expected is None:
        with pytest.raises(FrontmatterError):
            read_document(text)
    else:
        assert expected == read_document(text).texts.get("description", "")


def test_an_alias_is_replaced_by_its_anchor() -> None:
    assert "hi" == read_document("---\na: &x hi\ndescription: *x\n---\n").texts["description"]


@pytest.mark.parametrize(("value", "is_true"), [("true", True), ("TRUE", True), ("'true'", False), ("yes", False)])
def test_only_true_is_true(value: str, is_true: bool) -> None:
    assert is_true == ("flag" in read_document(f"---\nflag: {value}\n---\n").true)


@pytest.mark.parametrize(
    "source",
    [
        "description: [a",
        "description: a\ndescription: b",
        "'a': b\na: c",
        "\tname: x",
        "name: *nowhere",
        "name: a\n...\nname: b",
        "name: \0",
        "name: \ud800",
        "%FOO\n" * 1_000,
        "a: 'b': c",
        "a: b: c\na: d",
        "a: b: c\n- d",
        f"a: {':' * 15_000}\n- d",
        "x" * 16_385,
        "[" * 16_000,
        "{a: " * 4_000,
        "- " * 8_000,
        "? " * 8_000,
        "[" * 999,
        ":\n" * 8_000,
    ],
    ids=lambda source: f"{source[:12]!r}-{len(source)}",
)
def test_invalid_yaml_is_rejected_in_one_line_and_in_time(source: str) -> None:
    started_s = time.process_time()
    with pytest.raises(FrontmatterError) as caught:
        read_document(f"---\n{source}\n---\nbody")
    assert time.process_time() - started_s < TIME_S
    assert caught.value.text.startswith("frontmatter ")
    assert "\n" not in caught.value.text


BOMB = "a0: &a0 [x, x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 200))


@pytest.mark.parametrize(
    "source",
    [
        BOMB,
        "a: &a {b: *a}",
        "&a {<<: *a, c: d}",
        "a: &a x\nb: &a y",
        "? [1, 2]\n: x",
        "? {a: b}\n: x",
        "a: " + "9" * 16_000,
        "a: " + "1_" * 8_000,
        "#" * 16_000,
        "a: |\n" + " x\n" * 5_000,
        "!!set {a, b}",
    ],
    ids=lambda source: f"{source[:12]!r}-{len(source)}",
)
def test_what_is_odd_yaml_means_nothing_and_costs_little(source: str) -> None:
    started_s = time.process_time()
    read_document(f"---\n{source}\ndescription: d\n---\nbody" if source == BOMB else f"---\n{source}\n---\nbody")
    assert time.process_time() - started_s < TIME_S


@pytest.mark.parametrize("bracket", "[{")
def test_too_many_brackets_are_not_parsed(bracket: str) -> None:
    with pytest.raises(FrontmatterError, match="too many brackets"):
        read_document(f"---\na: {bracket * 1_001}\n---\n")


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = f"a: !!python/object/apply:os.mkdir ['{mark}']\nb: !!python/object/new:os.mkdir ['{mark}']\ndescription: d"
    assert {"description": "d"} == read_document(f"---\n{source}\n---\n").texts
    assert not os.path.lexists(mark)


LINES = st.lists(
    st.tuples(
        st.sampled_from("name description argument-hint a b-c 1 A".split()),
        st.sampled_from([": ", ":  ", ":", " : "]),
        st.text(
            st.sampled_from("abtrue :#-'\"[]{}&*!|>%@`,?~\\0123.\t\u00e9\u3000\U0001f600\u200b\xa0\ufeff\x7f"),
            max_size=12,
        )
        | st.sampled_from("true null Null False on No ~ .inf 0x1 1e3 <<".split()),
    ).map("".join),
    max_size=4,
)


# The same anchor twice is allowed, and the agent suppresses the parser's warning.
@pytest.mark.filterwarnings("ignore::ruamel.yaml.error.ReusedAnchorWarning")
@given(LINES)
@example(["name: <<"])
@example(["name: :"])
@example(["name: a:", "b-c: [", "A: 1"])
def test_reading_without_the_parser_agrees_with_the_parser(lines: list[str]) -> None:
    """What the parser refuses is read with the words that hold a colon in quotes, and refused if that is refused."""
    source = "\n".join(lines)
    try:
        loaded = loaded_or_quoted(source)
    except ConstructorError:  # what the parser can't make a value of, such as `<<`, is a word here, or refused
        with contextlib.suppress(FrontmatterError):
            read_document(f"---\n{source}\n---\n")
        return
    except REFUSALS:
        with pytest.raises(FrontmatterError):
            read_document(f"---\n{source}\n---\n")
        return
    document = read_document(f"---\n{source}\n---\n")
    members = loaded if isinstance(loaded, dict) else {}
    texts = {key: value for key, value in members.items() if isinstance(key, str) and isinstance(value, str)}
    assert texts == {key: value for key, value in document.texts.items() if key in texts}
    assert not [key for key in document.texts if key in members and not isinstance(members[key], str)]


REFUSALS = (YAMLError, ValueError, AttributeError, TypeError)


def loaded_or_quoted(source: str) -> object:
    """Return what the parser makes of lines, or of the same with words that hold a colon in quotes."""
    try:
        return YAML(typ="safe", pure=True).load(f"{source}\n")
    except ConstructorError:
        raise
    except REFUSALS:
        return YAML(typ="safe", pure=True).load(f"{frontmatter._COLON_LINE.sub(frontmatter._quoted, source)}\n")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for each in (text, f"---\n{text}\n---\nbody"):
        with contextlib.suppress(FrontmatterError):
            read_document(each)
