"""Markdown that any text can be put into: what an agent has written stays text, and adds no link, image or mention."""

import re
from typing import Final

from pinnace_spec.printable import printable

_TICKS: Final = re.compile("`+")


def code(text: str) -> str:
    """Return a text as a code span in one line."""
    line = printable(text)
    fence = _fence(line, 1)
    # A span that begins or ends with a backtick needs a space there, which is not shown.
    pad = " " if line.startswith("`") or line.endswith("`") or not line.strip() else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def block(lines: str, language: str = "") -> str:
    """Return lines as a fenced block of code."""
    fence = _fence(lines, 3)
    return f"{fence}{language}\n{lines}\n{fence}"


def _fence(text: str, least: int) -> str:
    longest = max((len(each) for each in _TICKS.findall(text)), default=0)
    return "`" * max(least, longest + 1)
