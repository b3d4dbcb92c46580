"""What the terminal client does with lines and keys of extensions, without a terminal."""

import pytest
from rich.style import Style

from pinnace_tui.content.drawn_lines import drawn
from pinnace_tui.input.decoder import InputDecoder
from pinnace_tui.input.key_data import key_data


def test_lines_of_extensions_keep_colours_and_change_no_terminal() -> None:
    """Each line begins without a style; sequences of other kinds and control characters are gone, or shown as such."""
    made = drawn(
        ["\x1b[31mred", "plain", "\x1b]0;title\x07a\x1b[2Jb\x9bc\rd", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"]
    )
    assert ["red", "plain", "ab\ufffdc\ufffdd", "link"] == made.plain.split("\n")
    assert [(0, 3, Style.parse("color(1)"))] == [
        (each.start, each.end, each.style) for each in made.spans if each.style
    ]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("a", "a"),
        ("A", "A"),
        ("é", "é"),
        (" ", "space"),
        (".", "."),
        ("\r", "enter"),
        ("\t", "tab"),
        ("\x1b[Z", "shift+tab"),
        ("\x7f", "backspace"),
        ("\x03", "ctrl+c"),
        ("\x1b[A", "up"),
        ("\x1b[1;5C", "ctrl+right"),
        ("\x1b[5~", "pageUp"),
        ("\x1b[3~", "delete"),
        ("\x1bOP", "f1"),
        ("\x1b[15~", "f5"),
        ("\x1b[13;2u", "shift+enter"),
    ],
)
def test_a_key_is_sent_to_extensions_as_a_terminal_sends_it(data: str, name: str) -> None:
    """What is decoded here is encoded again, whichever protocol the terminal has."""
    decoder = InputDecoder()
    [event] = decoder.feed(data.encode())
    assert (data, name) == key_data(event.key, event.character)  # type: ignore[attr-defined]  # a key


def test_a_key_that_writes_nothing_is_sent_as_nothing() -> None:
    assert key_data("print_screen", None) is None
    assert ("\x1b", "escape") == key_data("escape", "\x1b")
    assert ("\x1bb", "alt+b") == key_data("alt+b", None)
