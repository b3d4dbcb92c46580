"""Text for a person: all of it is seen, and it stands for one text only."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pinnace_agent.core.visible_text import visible_line, visible_lines

ESCAPE = re.compile(r"\\u\{([0-9a-f]+)(?:\*([0-9]+))?\}")
# Default_Ignorable_Code_Point of Unicode 16, DerivedCoreProperties.txt.
DEFAULT_IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, *range(0x115F, 0x1161), *range(0x17B4, 0x17B6), *range(0x180B, 0x1810)),
    *(*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF),
    *(0xFFA0, *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), 0xE0000, 0xE0001, 0xE0020),
    *(0xE007F, 0xE0100, 0xE01EF, 0xE0FFF),
]
BIDI_CONTROLS = [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
SPACES = [0x9, 0xB, 0xC, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
LINE_ENDS = [0xA, 0xD, 0xB, 0xC, 0x1C, 0x1D, 0x1E, 0x85, 0x2028, 0x2029]
BLANK = [0x2800, 0x1D159, 0xFFFC]
CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
UNSEEN = sorted({*DEFAULT_IGNORABLE, *BIDI_CONTROLS, *SPACES, *LINE_ENDS, *BLANK, *CONTROLS, 0xD800, 0xDCFF, 0xE000})

# What hides something far more often than any code point does.
HOSTILE = st.text(
    st.one_of(
        st.sampled_from(list(map(chr, UNSEEN))),
        st.sampled_from(list("\\u{}5c*20a \n\u0301\u05d0\uac00\u1100\u1161\u0e01\u0e34\u212b/;>|")),
        st.characters(),
    ),
    max_size=40,
)


def meant(shown: str) -> str:
    """Read what is shown, as the documentation of the escapes says."""
    return ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) * int(escape[2] or 1), shown)


@given(HOSTILE)
@example("\\u{20}")
@example("\\\\u{\\u{")
def test_a_line_stands_for_one_text_only(text: str) -> None:
    shown = visible_line(text)

    assert meant(shown) == text
    assert "\n" not in shown


@given(HOSTILE)
@example("a \n\n\n\n\n\n b")
def test_lines_stand_for_one_text_only(text: str) -> None:
    assert meant("\n".join(visible_lines(text))) == text


@given(HOSTILE)
def test_everything_in_a_line_is_seen_for_what_it_is(text: str) -> None:
    shown = visible_line(text)

    assert not {ord(char) for char in shown} & set(UNSEEN)
    assert shown.isprintable()
    assert unicodedata.is_normalized("NFC", shown)
    assert shown == shown.strip(" ")


@pytest.mark.parametrize("code", UNSEEN)
def test_a_character_that_is_not_seen_is_escaped_wherever_it_is(code: int) -> None:
    for before, after in [("", ""), ("a", "b"), ("\u0e01", "\u0e01"), ("\uac00", ""), ("\u05d0", "\u05d1")]:
        assert f"\\u{{{code:x}}}" in visible_line(f"{before}{chr(code)}{after}")


@pytest.mark.parametrize(
    "text",
    [
        "src/main.py",
        "rm -rf build && make",
        "grep '\\.py$' | sed 's/\\t/ /'",
        "naïve.txt",
        "日本語/メモ（最終）.md",
        "отчёт.doc",
        "ไฟล์ที่สำคัญ",
        "हिन्दी",
        "דוח-2024-סופי.docx",
        "한국어",
        "🚀.txt",
    ],
)
def test_ordinary_names_and_commands_are_shown_as_they_are(text: str) -> None:
    assert visible_line(text) == text
    assert visible_lines(text) == [text]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("e\u0301", "e\\u{301}"),  # é, written as two
        ("\u212b", "\\u{212b}"),  # the sign of Ångström, equal to a letter
        ("\u1100\u1161", "\u1100\\u{1161}"),  # 가, written as two
        ("l\u0338s", "l\\u{338}s"),  # a stroke through it
        ("\u0e01" + "\u0e34" * 9, "\u0e01" + "\u0e34" * 3 + "\\u{e34*6}"),
        ("ls" + " " * 300 + ";rm x", "ls\\u{20*300};rm x"),
        (" x ", "\\u{20}x\\u{20}"),
        ("cat א > ב", "cat א > \\u{5d1}"),  # would be shown as the opposite
        ("/א/ב", "/א/\\u{5d1}"),
        ("docs\u2215\u2025\uff0fx", "docs\\u{2215}\\u{2025}\\u{ff0f}x"),
        ("\uff3cu{41}", "\\u{ff3c}u{41}"),
    ],
)
def test_what_can_be_taken_for_something_else_is_escaped(text: str, shown: str) -> None:
    assert visible_line(text) == shown


def test_lines_keep_their_indentation_and_show_spaces_at_their_end() -> None:
    assert visible_lines("if x:\n    y \n\n\tz") == ["if x:", "    y\\u{20}", "", "\\u{9}z"]


def test_many_empty_lines_do_not_move_what_follows_out_of_view() -> None:
    assert visible_lines("ls\n" + "\n" * 300 + "rm x") == ["ls\\u{a*300}", "rm x"]
