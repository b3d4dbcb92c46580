"""Arguments of prompt templates: splitting a line, and taking them in."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.prompting.frontmatter import BLANKS
from pinnace_agent.prompting.template_arguments import (
    MAX_ARGUMENT_CHARS,
    TooLong,
    first_blank,
    split_arguments,
    substitute,
)

# Hostile input must not take longer than its length explains; a quadratic search takes minutes.
MANY = 200_000
TIME_S = 5.0
texts = st.text(st.sampled_from("ab'\"\\ \t\n\u3000$@{}:-1"), max_size=30)
arguments = st.lists(st.text(st.sampled_from("ab '\"\\$@{}:-12\n"), max_size=6), max_size=5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n ", []),
        ("a b  c ", ["a", "b", "c"]),
        ("a\tb\nc\r\nd", ["a", "b", "c", "d"]),
        ('it\'s "a b" c', ["it's", "a b", "c"]),
        ('"" x', ["", "x"]),
        ("''", [""]),
        ('a "b c', ["a", '"b', "c"]),
        ('"the \\"fast\\" path"', ['the "fast" path']),
        ("'it\\'s' b", ["it's", "b"]),
        ('"a\\\' b"', ["a\\' b"]),
        ("'a\\b'", ["a\\b"]),
        ('"a\\\\"', ['"a\\\\"']),
        ('"\\\\" b"', ['\\" b']),
        ('\\"a b', ['\\"a', "b"]),
        ('"a"b c', ["ab", "c"]),
        ("'a''b'", ["a'b'"]),
        ('a"b c"', ['a"b', 'c"']),
        ("\"a' b\" 'c\" d'", ["a' b", 'c" d']),
        ('"a" "b', ["a", '"b']),
        ("'", ["'"]),
        ("' a", ["'", "a"]),
        ('"two\nlines" b', ["two\nlines", "b"]),
        ("a\u00a0b\u3000c\u2028d\ufeffe", ["a", "b", "c", "d", "e"]),
        ("a\u200bb a\x1cb a\x85b", ["a\u200bb", "a\x1cb", "a\x85b"]),
    ],
)
def test_a_line_is_split_like_this(text: str, expected: list[str]) -> None:
    assert expected == split_arguments(text)


@given(st.lists(st.text(st.sampled_from("ab $\\{}\u3000\n"), max_size=6), max_size=6), st.sampled_from("'\""))
def test_what_is_quoted_comes_back(words: list[str], quote: str) -> None:
    # A backslash at the end of a word would take the quote.
    words = [f"{word}." for word in words]
    assert words == split_arguments(" ".join(f"{quote}{word}{quote}" for word in words))


@given(texts)
def test_nothing_is_lost_but_blanks_quotes_and_backslashes(text: str) -> None:
    def rest(text: str) -> str:
        return "".join(character for character in text if character not in f"{BLANKS}'\"\\")

    assert rest(text) == rest("".join(split_arguments(text)))


@given(st.text(st.sampled_from("ab$@\\{} \t\n"), max_size=30))
def test_without_quotes_blanks_alone_count(text: str) -> None:
    assert text.split() == split_arguments(text)


@given(texts, texts)
def test_what_follows_a_line_that_leaves_no_quote_open_is_split_by_itself(first: str, second: str) -> None:
    if first.count("'") % 2 or first.count('"') % 2 or "\\" in first:
        first = first.replace("'", "").replace('"', "").replace("\\", "")
    closed = split_arguments(first)
    if not any(word[:1] in {"'", '"'} for word in closed):
        assert [*closed, *split_arguments(second)] == split_arguments(f"{first} {second}")


@pytest.mark.parametrize(
    "text", ['" ' * MANY, "'\\" * MANY, '"' + '\\"' * MANY, " " * MANY, "' \" " * MANY, "a'" * MANY]
)
def test_splitting_takes_time_in_proportion_to_the_line(text: str) -> None:
    started_s = time.process_time()
    split_arguments(text)
    assert time.process_time() - started_s < TIME_S


def test_a_line_beyond_all_reason_is_not_split() -> None:
    with pytest.raises(TooLong):
        split_arguments("x" * (MAX_ARGUMENT_CHARS + 1))


ABC = ["a", "b b", "c"]


@pytest.mark.parametrize(
    ("body", "given_arguments", "expected"),
    [
        ("$1 $2 $3 $4|", ABC, "a b b c |"),
        ("$@ $ARGUMENTS", ABC, "a b b c a b b c"),
        ("${@:2} ${@:1:1} ${@:0} ${@:0:1} ${@:2:9} ${@:2:0} ${@:9}|", ABC, "b b c a a b b c a b b c  |"),
        ("$0 $01 $10 $1a $1$2 $$1", ABC, " a  aa ab b $a"),
        ("$10", list("abcdefghij"), "j"),
        ("${1:-x} ${4:-x y} ${4:-} ${0:-z}|", ABC, "a x y  z|"),
        ("${@:-none} ${ARGUMENTS:-none}", [], "none none"),
        ("${@:-none} ${1:-x} ${@:-1}", [""], "none x 1"),
        ("${@:-none}", ["", "q"], " q"),
        ("${4:-two\nlines} ${4:-a}b}", ABC, "two\nlines ab}"),
        # One pass: neither values nor defaults are looked at again.
        ("$1 ${2:-$1} ${3:-${1}}", ["$@ ${1:-x} $ARGUMENTS"], "$@ ${1:-x} $ARGUMENTS $1 ${1}"),
        # What is none stays.
        (
            "${1} ${@} ${@: 2} ${@:2:-d} ${ARGUMENTS:2} $ 1 \\$x $",
            ABC,
            "${1} ${@} ${@: 2} ${@:2:-d} ${ARGUMENTS:2} $ 1 \\$x $",
        ),
        ("$ARGUMENTSX $@x $@@", ["p"], "pX px p@"),
        ("$" + "9" * 5_000 + "|${@:" + "9" * 5_000 + "}|$" + "0" * 5_000 + "1", ABC, "||a"),
        ("$\u0661 $\u00b2", ABC, "$\u0661 $\u00b2"),
    ],
)
def test_placeholders_stand_for_this(body: str, given_arguments: list[str], expected: str) -> None:
    assert expected == substitute(body, given_arguments)


@given(texts, arguments)
def test_what_an_argument_holds_is_never_expanded(body: str, given_arguments: list[str]) -> None:
    """With other arguments of the same emptiness and number the same places are taken."""
    marks = [f"\0{number}\0" if word else "" for number, word in enumerate(given_arguments)]
    expected = substitute(body, marks)
    for mark, word in zip(marks, given_arguments, strict=True):
        if mark:
            expected = expected.replace(mark, word.replace("\0", ""))
    assert expected == substitute(body, given_arguments)


@given(st.text(st.sampled_from("ab \n{}:-@12"), max_size=30), arguments)
def test_a_text_without_dollars_stays_as_it_is(body: str, given_arguments: list[str]) -> None:
    assert body == substitute(body, given_arguments)


@pytest.mark.parametrize("body", ["${1:-" * MANY, "${1:-" * MANY + "}", "${@:1" * MANY + "}", "$1" * MANY, "${" * MANY])
def test_substitution_takes_time_in_proportion_to_the_template(body: str) -> None:
    started_s = time.process_time()
    substitute(body, ["a"])
    assert time.process_time() - started_s < TIME_S


def test_a_template_that_multiplies_its_arguments_is_stopped() -> None:
    with pytest.raises(TooLong):
        substitute("$@" * 100, ["x" * 1_000_000])


@pytest.mark.parametrize(("text", "place"), [("", 0), ("abc", 3), ("a b", 1), ("a\nb", 1), ("a\u3000b", 1), (" a", 0)])
def test_a_name_ends_at_the_first_blank(text: str, place: int) -> None:
    assert place == first_blank(text)
