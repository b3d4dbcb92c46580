"""Output meant for a terminal as lines of HTML: colours and styles stay, everything else a terminal obeys is dropped.

Pure, and linear in the text. A state machine of its own, of which a sequence can only choose among fixed classes: what
is broken, unknown or out of range changes nothing. Each line closes what it opens, so that lines can be taken apart.
"""

import html
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pinnace_agent.export.markup.colours import Palette
from pinnace_agent.export.markup.readable import readable

_SEQUENCE: Final = re.compile(
    r"""
      \x1b\[([0-9;:]*)m                             # SGR, the only one that is obeyed
    | (?:\x1b\[|\x9b)[0-?]*[\x20-/]*[@-~]?          # the other CSI: cursor, erasing; it ends before what breaks it
    | \x1b[\]PX^_][^\x07\x0a\x18\x1a\x1b\x9b\x9c]*  # OSC, DCS, SOS, PM, APC: titles, links, pictures …
      (?:\x07|\x1b\\|[\x18\x1a\x9c])?               # … to BEL, ST, CAN or SUB; LF, ESC and CSI end them as well
    | \x1b[\x20-/]*[0-~]?                           # the other escapes, and one that is cut off
    """,
    re.VERBOSE,
)
# More parameters than any program writes; what follows them is dropped.
_MAX_PARAMETERS: Final = 64


class _Style(NamedTuple):
    """What a terminal would draw with; the names are classes."""

    foreground: str = ""
    background: str = ""
    bold: str = ""
    dim: str = ""
    italic: str = ""
    underline: str = ""
    strike: str = ""
    inverse: str = ""


_PLAIN: Final = _Style()
_ON: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike", 21: "underline"}
_OFF: Final = {
    22: ("bold", "dim"),
    23: ("italic",),
    24: ("underline",),
    27: ("inverse",),
    29: ("strike",),
    39: ("foreground",),
    49: ("background",),
}
_CLASSES: Final = {"bold": "B", "dim": "D", "italic": "I", "underline": "U", "strike": "S", "inverse": "N"}


class TerminalText(NamedTuple):
    """What was made of an output."""

    lines: list[str]
    """HTML, each on its own."""
    is_styled: bool
    """Whether anything in it has a colour or a style."""


def terminal_text(text: str, palette: Palette) -> TerminalText:
    """Turn an output into lines. A CR alone, with which a terminal writes over a line, begins a new one."""
    if "\x1b" not in text and "\x9b" not in text:
        return TerminalText(html.escape(readable(text), quote=False).split("\n"), False)
    lines: list[list[str]] = [[]]
    is_styled = False
    for piece, style in _pieces(text, palette):
        opening = _opening(style)
        is_styled = is_styled or bool(opening)
        for number, part in enumerate(piece.split("\n")):
            if number:
                lines.append([])
            if part:
                escaped = html.escape(part, quote=False)
                lines[-1].append(f"{opening}{escaped}</span>" if opening else escaped)
    return TerminalText(["".join(line) for line in lines], is_styled)


def _pieces(text: str, palette: Palette) -> Iterator[tuple[str, _Style]]:
    style = _PLAIN
    start = 0
    for found in _SEQUENCE.finditer(text):
        if found.start() > start:
            yield readable(text[start : found.start()]), style
        start = found.end()
        if found[1] is not None:
            style = _changed(style, found[1], palette)
    if start < len(text):
        yield readable(text[start:]), style


def _opening(style: _Style) -> str:
    if style == _PLAIN:
        return ""
    return f'<span class="{" ".join(name for name in style if name)}">'


def _changed(style: _Style, parameters: str, palette: Palette) -> _Style:
    """Obey one sequence."""
    # `38:2::R:G:B`, the standard's own form, has a place for a colour space that the common form has not.
    codes = [int(part[:4] or 0) for part in re.split("[;:]", parameters, maxsplit=_MAX_PARAMETERS)[:_MAX_PARAMETERS]]
    if re.match(r"[34]8:2:\d*:\d+:\d+:\d+", parameters):
        del codes[2]
    place = 0
    while place < len(codes):
        code = codes[place]
        place += 1
        if code == 0:
            style = _PLAIN
        elif code in _ON:
            style = style._replace(**{_ON[code]: _CLASSES[_ON[code]]})
        elif code in _OFF:
            style = style._replace(**dict.fromkeys(_OFF[code], ""))
        elif code in {38, 48}:
            name, place = _extended(codes, place, palette, is_background=code == 48)
            side = "background" if code == 48 else "foreground"
            style = style._replace(**{side: name}) if name else style
        elif 30 <= code <= 37 or 90 <= code <= 97:
            index = code - 30 if code < 90 else code - 82
            style = style._replace(foreground=palette.indexed(index, is_background=False))
        elif 40 <= code <= 47 or 100 <= code <= 107:
            index = code - 40 if code < 100 else code - 92
            style = style._replace(background=palette.indexed(index, is_background=True))
    return style


def _extended(codes: list[int], place: int, palette: Palette, *, is_background: bool) -> tuple[str, int]:
    """Read `5;N` or `2;R;G;B`; return the class, empty if it is broken, and where the next code is."""
    kind = codes[place] if place < len(codes) else -1
    if kind == 5 and place + 1 < len(codes):
        index = codes[place + 1]
        return palette.indexed(index, is_background=is_background) if index < 256 else "", place + 2
    if kind == 2 and place + 3 < len(codes):
        red, green, blue = codes[place + 1 : place + 4]
        is_colour = max(red, green, blue) < 256
        return palette.exact(red, green, blue, is_background=is_background) if is_colour else "", place + 4
    return "", len(codes)
