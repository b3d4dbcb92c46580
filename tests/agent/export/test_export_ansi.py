"""Output meant for a terminal: colours and styles become classes, everything else that a terminal obeys is dropped."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.export.markup.ansi import terminal_text
from pinnace_agent.export.markup.colours import MAX_EXACT, Palette

# Everything that sequences are made of, and some text around.
TERMINAL = st.text(
    st.sampled_from("\x1b\x1b\x1b[[];:mm0123456789?K\x07\x9b\x9c\\ \n\r\tab<>&\"'\x00\u202e"), max_size=200
)


def shown(text: str) -> str:
    return "\n".join(terminal_text(text, Palette()).lines)


class Words(HTMLParser):
    """What people read of some HTML."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert (tag, [name for name, _ in attrs]) == ("span", ["class"])
        assert re.fullmatch(r"[a-zA-Z0-9 -]+", attrs[0][1] or "")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    ("codes", "classes"),
    [
        ("1", "B"),
        ("3", "I"),
        ("4", "U"),
        ("1;31", "f1 B"),
        ("97", "f15"),
        ("44", "b4"),
        ("107", "b15"),
        ("38;5;208", "f208"),
        ("48;5;3", "b3"),
        ("38;2;1;2;255", "f-0102ff"),
        ("38:2::1:2:255", "f-0102ff"),
        ("48;2;0;0;0;1", "b-000000 B"),
    ],
)
def test_styles_and_colours_are_shown(codes: str, classes: str) -> None:
    assert f'<span class="{classes}">x</span>y' == shown(f"\x1b[{codes}mx\x1b[0my")


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[38;5;256m",
        "\x1b[38;5m",
        "\x1b[38;2;1;2m",
        "\x1b[38;2;1;2;999m",
        "\x1b[38;9;1m",
        "\x1b[99999999999999999999m",
        "\x1b[" + "5;" * 5000 + "m",
        "\x1b[2J",
        "\x1b[?25l",
        "\x1b]0;title\x07",
        "\x1b]8;;javascript:alert(1)\x1b\\",
        "\x1bPq#0;2\x1b\\",
        "\x1b(B",
        "\x1b[31",
        "\x9b31",
    ],
)
def test_what_is_broken_or_not_for_reading_is_dropped(sequence: str) -> None:
    assert "ab" == shown(f"a{sequence}\x1b[0mb")


def test_a_sequence_that_never_ends_takes_no_further_line() -> None:
    assert "a\nb" == shown("a\x1b]0;title\nb")


def test_a_style_continues_in_the_next_line() -> None:
    assert ['<span class="f1">a</span>', '<span class="f1">b</span>c'] == terminal_text(
        "\x1b[31ma\nb\x1b[mc", Palette()
    ).lines


def test_text_is_escaped_and_control_characters_are_shown() -> None:
    assert "&lt;b&gt;␀⟦U+202E⟧" == shown("<b>\x00\u202e")
    assert '<span class="B">&lt;b&gt;␀</span>' == shown("\x1b[1m<b>\x00")


def test_a_page_has_a_limited_number_of_exact_colours() -> None:
    palette = Palette()
    for number in range(MAX_EXACT * 3):
        palette.exact(number % 256, number // 256, 7, is_background=False)
    assert MAX_EXACT <= palette.css().count("{") <= MAX_EXACT + 240


@given(TERMINAL)
def test_whatever_comes_is_lines_of_text_and_spans(text: str) -> None:
    for line in terminal_text(text, Palette()).lines:
        words = Words()
        words.feed(line)
        words.close()
        assert words.open == []
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", words.text)
