r"""Shows text that another party chose so that a person sees all of it: names of files, commands, arguments.

What can't be seen, or can be taken for something else, is written as an escape, `\u{3164}`, and several of the same as
`\u{20*300}`: control and format characters, line ends, all spaces but the plain one, fillers and other blank
characters, marks without a letter of their own, characters that are equal to others by Unicode's normal form, what
looks like a slash, a backslash or the dots of a path, and letters written from right to left where the punctuation
between them would be shown in another order. `\u{` itself is written `\u{5c}u{`; so every escape is one, and what is
shown stands for one text only.

Letters of other scripts are shown as they are, also those that look like Latin ones. Pure.
"""

import re
import unicodedata
from typing import Final

_FEWEST_HIDDEN_SPACES: Final = 81
"""So many spaces in a row can move the rest of a line out of view; less is how programs are indented."""
_FEWEST_HIDDEN_LINES: Final = 4
"""So many line ends in a row can move the rest of a text out of view; less is how paragraphs are set apart."""
_MOST_MARKS: Final = 3
"""Of one letter: no script needs more, and a pile of them covers other lines."""

_SHOWN: Final = frozenset("Lu Ll Lt Lm Lo Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So".split())
_MARKS: Final = frozenset(("Mn", "Mc"))
# Of categories that are seen as a rule: fillers of Hangul, the empty Braille cell, the null notehead, what stands for
# an object or a character that is not there; and of the marks those that Unicode lets programs ignore.
_BLANK: Final = frozenset(
    {
        *map(chr, (0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800, 0x1D159, 0xFFFC, 0xFFFD)),
        *map(chr, (0x034F, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x16FE4)),
        *map(chr, range(0xFE00, 0xFE10)),
        *map(chr, range(0xE0100, 0xE01F0)),
    }
)
_RIGHT_TO_LEFT: Final = frozenset(("R", "AL"))
# What looks like the dots and separators of a path, or like the beginning of an escape.
_LIKE_SEPARATORS: Final = frozenset(
    map(chr, (0x2024, 0x2025, 0x2044, 0x2215, 0x2216, 0x2571, 0x2572, 0x29F5, 0x29F8, 0x29F9, 0xFE68, 0xFF0F, 0xFF3C))
)
# What separates the parts of a path and of a command.
_SEPARATORS: Final = frozenset("/\\<>|&;=()[]{}$`\"'*?#!~:")
_PLAIN: Final = re.compile(r"[!-~]+(?: [!-~]+)*")


def visible_line(text: str) -> str:
    """Return a text in one line, with everything in it that can't be seen escaped."""
    # Nearly every path and command is such a text.
    if _PLAIN.fullmatch(text) and "\\u{" not in text:
        return text
    return _escaped(text, _hidden(text, is_block=False))


def visible_lines(text: str) -> list[str]:
    """Return the lines of a text, each with everything in it that can't be seen escaped.

    Joined by LF the lines stand for the text. A run of line ends that is long enough to move what follows out of view
    is escaped, but for the last one.
    """
    hidden = _hidden(text, is_block=True)
    for run in re.finditer("\n+", text):
        is_long = run.end() - run.start() >= _FEWEST_HIDDEN_LINES
        for place in range(run.start(), run.end()):
            hidden[place] = is_long and place < run.end() - 1
    return _escaped(text, hidden).split("\n")


def _hidden(text: str, *, is_block: bool) -> list[bool]:
    """Return of each character whether it is to be escaped; a line end is.

    Args:
        text: Any text.
        is_block: Whether its lines are shown as lines, so that their indentation is seen.
    """
    hidden = [False] * len(text)
    letter = ""
    """The last base character that is shown, with its marks."""
    is_after_right_to_left = is_separated = False
    for place, char in enumerate(text):
        if " " <= char <= "~":
            letter = char
            if char.isalpha():
                is_after_right_to_left = is_separated = False
            elif char in _SEPARATORS:
                is_separated = True
                hidden[place] = char == "\\" and text.startswith("u{", place + 1)
            continue
        is_right_to_left = unicodedata.bidirectional(char) in _RIGHT_TO_LEFT
        if not _is_seen(char, letter) or (is_right_to_left and is_after_right_to_left and is_separated):
            hidden[place], letter = True, ""
            is_after_right_to_left = is_separated = False  # an escape is written in Latin letters
            continue
        letter = letter + char if unicodedata.category(char) in _MARKS else char
        if is_right_to_left:
            is_after_right_to_left, is_separated = True, False
        elif unicodedata.bidirectional(char) == "L":
            is_after_right_to_left = is_separated = False
    for run in re.finditer(" +", text):
        start, end = run.span()
        is_at_edge = (start == 0 and not is_block) or end == len(text) or text[end] == "\n"
        if is_at_edge or end - start >= _FEWEST_HIDDEN_SPACES:
            hidden[start:end] = [True] * (end - start)
    return hidden


def _is_seen(char: str, letter: str) -> bool:
    """Return whether a character that is not ASCII is seen, and for what it is, behind a base character."""
    if char in _BLANK or char in _LIKE_SEPARATORS or unicodedata.normalize("NFC", letter + char) != letter + char:
        return False
    category = unicodedata.category(char)
    if category in _MARKS:
        # Over ASCII a mark would change what a command or path seems to be made of.
        is_base = letter != "" and not letter[0].isascii() and unicodedata.category(letter[0])[0] == "L"
        return is_base and len(letter) <= _MOST_MARKS
    return category in _SHOWN


def _escaped(text: str, hidden: list[bool]) -> str:
    pieces: list[str] = []
    place = 0
    while place < len(text):
        end = place + 1
        if not hidden[place]:
            while end < len(text) and not hidden[end]:
                end += 1
            pieces.append(text[place:end])
        else:
            while end < len(text) and hidden[end] and text[end] == text[place]:
                end += 1
            count = f"*{end - place}" if end - place > 1 else ""
            pieces.append(f"\\u{{{ord(text[place]):x}{count}}}")
        place = end
    return "".join(pieces)
