"""The pieces that a page is made of: prose, program text, outputs, changes, JSON, pictures.

Everything that comes from a session passes through here, or through the templates, which escape it.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from pinnace_agent.core.json_access import as_text, compact_json
from pinnace_agent.export.figures import count
from pinnace_agent.export.markup.ansi import terminal_text
from pinnace_agent.export.markup.colours import Palette
from pinnace_agent.export.markup.highlight import Highlighter
from pinnace_agent.export.markup.prose import Prose, as_written, code_block
from pinnace_agent.export.markup.readable import readable
from pinnace_agent.tools.images.header import SNIFF_BYTES, image_type

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES: Final = Path(__file__).with_name("templates")
# What is longer shows its beginning and its end, as many lines of each; the middle is a click away. A failure gives its
# reason at its end, mostly.
OUTPUT_ENDS: Final = (6, 4)
FAILURE_ENDS: Final = (3, 12)
CHANGE_ENDS: Final = (12, 12)
# Folding fewer would not be worth the click.
_FOLDED_LINES: Final = 4
# Indented JSON beyond this many times its compact form is nested for its own sake.
_INDENT_FACTOR: Final = 4
# The formats, by how they begin, that `image_type` leaves to others: an animated PNG.
_PNG: Final = b"\x89PNG\r\n\x1a\n"


class Parts:
    """Makes the pieces of one page."""

    def __init__(self, places: Collection[int], check: Callable[[], object]) -> None:
        """Prepare for a page that has the entries at `places`; `check` is called before what may take long."""
        self._check = check
        self._places = places
        self.palette = Palette()
        self.album = Album()
        self.highlighter = Highlighter()
        self._prose = Prose(self.highlighter)
        self.templates = _templates()
        # Any: what a template defines is known when it runs
        self._macros: Any = self.templates.get_template("parts.html").module

    def prose(self, text: str, *, keeps_lines: bool = False) -> str:
        """Render Markdown."""
        self._check()
        return f'<div class="prose" dir="auto">{self._prose.html(text, keeps_lines=keeps_lines)}</div>' if text else ""

    def code(self, text: str, language: str) -> str:
        """Show program text."""
        self._check()
        return code_block(self.highlighter.marked(readable(text), language))

    def written(self, text: str) -> str:
        """Show a text as it is written."""
        return as_written(readable(text))

    def output(self, text: str, *, is_error: bool = False) -> str:
        """Show what a program wrote; if it is long, its beginning and its end, more of the end for a failure."""
        shown = terminal_text(text.rstrip("\n"), self.palette)
        kind = "out term" if shown.is_styled else "out"
        return self._ends(shown.lines, kind, FAILURE_ENDS if is_error else OUTPUT_ENDS, "\n")

    def change(self, diff: str) -> str:
        """Show a change: lines that begin with `+` or `-`, and their surroundings; of a long one both ends."""
        lines = terminal_text(diff.rstrip("\n"), Palette()).lines
        return self._ends([_changed_line(line) for line in lines], "diff", CHANGE_ENDS, "")

    def json(self, value: object) -> str:
        """Show a JSON value."""
        return self.code(json_text(value), "json")

    def picture(self, block: Mapping[str, object]) -> str:
        """Show an image."""
        return str(self._macros.picture(self.album.picture(block)))

    def fold(self, title: str, body: str, *, kind: str = "", hint: str = "") -> str:
        """Put a piece behind a title that opens it, without scripts too."""
        return str(self._macros.fold(title, body, kind, hint))

    def call(self, name: str, head: str, body: str) -> str:
        """Show a call of a tool."""
        return str(self._macros.call(name, head, body))

    def called(self, calls: Sequence[tuple[str, int]]) -> str:
        """Name the tools that were called, each with a link to the entry that shows the call with its result."""
        return str(self._macros.called(calls))

    def note(self, text: str, *, is_error: bool = False) -> str:
        """Add a note about what is shown."""
        return str(self._macros.note(text, is_error))

    def link(self, place: int, text: str) -> str:
        """Point at an entry, if the page has it."""
        if place not in self._places:
            return ""
        return str(self._macros.link(place, text))

    def _ends(self, lines: list[str], kind: str, ends: tuple[int, int], joint: str) -> str:
        head, tail = ends
        if len(lines) <= head + tail + _FOLDED_LINES:
            return f'<pre class="{kind}">{joint.join(lines)}</pre>'
        middle = lines[head:-tail]
        folded = f'<pre class="{kind}">{joint.join(middle)}</pre>'
        more = self.fold(f"{count(len(middle))} more lines", folded, kind="more")
        begin, end = joint.join(lines[:head]), joint.join(lines[-tail:])
        return f'<pre class="{kind} cut">{begin}</pre>{more}<pre class="{kind} end">{end}</pre>'


def json_text(value: object) -> str:
    """Write a JSON value for people: indented, unless that would blow it up."""
    compact = compact_json(value)
    try:
        indented = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # nested deeper than people read, or with halves of characters
        return compact
    return indented if len(indented) <= _INDENT_FACTOR * len(compact) + 1_000 else compact


def _changed_line(line: str) -> str:
    match line[:1]:
        case "+":
            return f"<ins>{line}</ins>"
        case "-":
            return f"<del>{line}</del>"
        case "@":
            return f"<i>{line}</i>"
        case _:
            return f"<span>{line}</span>"


def _templates() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class Picture(NamedTuple):
    """One appearance of an image."""

    number: int
    """From 1; 0: it can't be shown."""
    url: str
    """Empty if it is embedded elsewhere, or can't be shown."""
    kind: str
    size_kb: int


class Album:
    """The images of one page: each embedded once, however often and on however many branches it appears.

    An image is recognised by its bytes, of a format that browsers show and that can't hold a program.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def picture(self, block: Mapping[str, object]) -> Picture:
        """Return how an image block is shown; call it in the order of the page."""
        data = as_text(block.get("data")) or ""
        kind = _kind(data)
        size_kb = -(-len(data) * 3 // 4096)
        if kind is None:
            return Picture(0, "", as_text(block.get("mimeType")) or "unknown", size_kb)
        digest = hashlib.sha256(data.encode()).digest()
        if digest in self._numbers:
            return Picture(self._numbers[digest], "", kind, size_kb)
        number = self._numbers[digest] = len(self._numbers) + 1
        return Picture(number, f"data:{kind};base64,{data}", kind, size_kb)


def _kind(data: str) -> str | None:
    """Return the type of an image; None unless all of the text is base64 and begins as an image does."""
    try:
        # All of it: what is no base64 could end the attribute that it is put into.
        head = base64.b64decode(data, validate=True)[:SNIFF_BYTES] if data else b""
    except (binascii.Error, ValueError):
        return None
    return "image/png" if head.startswith(_PNG) else image_type(head)
