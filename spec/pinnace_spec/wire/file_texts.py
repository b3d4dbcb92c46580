"""A file as a model reads it: its content with a line before and one behind, and back again.

The text of an item of `context` (R-MSG-09) and of `@file` on the command line. Must not load a library: it is imported
where commands are read.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_FORM: Final = re.compile(r'<file name="([^"\r\n]*)">\n(.*)\n</file>\n', re.DOTALL)
# What would end the name; percent-encoded as in a URI.
_ENCODED: Final = str.maketrans({'"': "%22", "\n": "%0A", "\r": "%0D"})


class NamedText(NamedTuple):
    """The content of a file, with its path or URI."""

    name: str
    text: str


def file_text(name: str, text: str) -> str:
    """Return the text by which a model is shown a file. Quotes and line breaks in the name are percent-encoded."""
    return f'<file name="{name.translate(_ENCODED)}">\n{text}\n</file>\n'


def read_file_text(text: str) -> NamedText | None:
    """Return what `file_text` was given; None for a text that is not exactly one file."""
    found = _FORM.fullmatch(text)
    return None if found is None else NamedText(found[1], found[2])


def message_words(texts: Iterable[str]) -> str:
    """Join the texts of a message, without the files that go with it as context."""
    return "".join(text for index, text in enumerate(texts) if not index or read_file_text(text) is None)
