"""The fields that text is written into. Every character that a keyboard or an input method sends arrives.

Textual takes what its own tables call printable: not spaces but U+0020, not characters for private use, nor those that
are newer than the tables. A paste is one text; what a field can't hold of it is replaced.
"""

import re
from typing import Final

from rich.text import Text
from textual import events
from textual.widgets import Input, OptionList, TextArea

from pinnace_tui.content.rendering import plain_line, without_controls
from pinnace_tui.guarded import Guarded
from pinnace_tui.input.decoder import is_text

_LINE_ENDS: Final = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def with_line_ends(content: str) -> str:
    """Return a text whose lines end by line feeds; the document of a text area would lose the other ends."""
    return _LINE_ENDS.sub("\n", content)


def _written(event: events.Key) -> str:
    """Return the text of a key that Textual would not write; otherwise nothing."""
    typed = event.character or ""
    return typed if typed and not event.is_printable and all(map(is_text, typed)) else ""


class TextBox(Guarded, TextArea):
    """A text that is edited as it is, and shown without what changes a terminal."""

    def get_line(self, line_index: int) -> Text:
        """Return a line as it is shown: each character that is not shown as it is has one in its place."""
        return Text(without_controls(self.document.get_line(line_index)), end="", no_wrap=True)

    async def on_key(self, event: events.Key) -> None:
        """Write what Textual would not."""
        if typed := _written(event):
            event.stop()
            event.prevent_default()
            self.replace(with_line_ends(typed), *self.selection, maintain_selection_offset=False)

    async def on_paste(self, event: events.Paste) -> None:
        """Insert a text as it is, with the line ends of texts."""
        event.text = with_line_ends(event.text)


class LineInput(Guarded, Input):
    """One line."""

    async def on_key(self, event: events.Key) -> None:
        """Write what Textual would not."""
        if typed := _written(event):
            event.stop()
            event.prevent_default()
            self._write(plain_line(typed))

    async def on_paste(self, event: events.Paste) -> None:
        """Insert a text as one line."""
        event.stop()
        event.prevent_default()
        self._write(plain_line(with_line_ends(event.text)))

    def _write(self, content: str) -> None:
        self.replace(content, *self.selection)


class Options(Guarded, OptionList):
    """A list to choose from."""
