"""Lines that extensions have drawn, as text of the screen: with colours and styles, and nothing else of a terminal.

The agent has removed it already; this client trusts no agent with its terminal.
"""

import re
from collections.abc import Sequence
from typing import Final

from rich.ansi import AnsiDecoder
from rich.text import Text

from pinnace_tui.content.rendering import plain_line

_STYLE: Final = re.compile(r"(\x1b\[[0-9;:]{0,100}m)")


def drawn(lines: Sequence[str]) -> Text:
    """Return lines with their colours; each begins without any."""
    return Text("\n", no_wrap=True, overflow="crop", end="").join([drawn_line(line) for line in lines])


def drawn_line(line: str) -> Text:
    """Return one line with its colours."""
    # Every second piece is a style.
    pieces = [piece if place % 2 else plain_line(piece) for place, piece in enumerate(_STYLE.split(line))]
    made = AnsiDecoder().decode_line("".join(pieces))
    made.no_wrap, made.overflow = True, "crop"
    return made
