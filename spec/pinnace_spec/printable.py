"""What a text that another party chose may do to a terminal: nothing. One measure for every name, message and title.

Replaced by U+FFFD: control characters, line and paragraph separators, halves of characters, and what turns the order of
letters around. Format characters that join letters and emoji stay. Where a person decides about a text, every character
that can't be seen counts, and `visible_text` of the agent shows it; this is for what is only read. Pure.
"""

import re
from typing import Final

_CONTROL: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_A_LINE: Final = re.compile(f"[\t\n{_CONTROL}]")
_IN_LINES: Final = re.compile(f"[{_CONTROL}]")


def printable(text: str) -> str:
    """Return a text in one line."""
    return text if text.isprintable() else _IN_A_LINE.sub("\ufffd", text)


def printable_lines(text: str) -> str:
    """Return a text that keeps its line ends and tabs."""
    return text if text.isprintable() else _IN_LINES.sub("\ufffd", text)
