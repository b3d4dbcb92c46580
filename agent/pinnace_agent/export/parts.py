"""The pieces that a page is made of: prose, program text, outputs, changes, JSON, pictures.

Everything that comes from a session passes through here, or through the templates, which escape it. Must not know
entries nor messages.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from pinnace_agent.export.ansi import terminal_text
from pinnace_agent.export.colours import Palette
from pinnace_agent.export.figures import count
from pinnace_agent.export.highlight import Highlighter
from pinnace_agent.export.images import Album
from pinnace_agent.export.prose import Prose, as_written, code_block
from pinnace_agent.export.readable import readable
from pinnace_agent.llm.json_edge import compact_json

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
        """Say something about what is shown."""
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
