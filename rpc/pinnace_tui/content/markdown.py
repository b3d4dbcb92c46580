"""Markdown of answers: Rich's, with headings at the left. Its parser takes as long to import as an editor to draw."""

from typing import ClassVar

from rich.console import JustifyMethod
from rich.markdown import Heading, Markdown


class _LeftHeading(Heading):
    """A heading at the left, as other text."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class AnswerMarkdown(Markdown):
    """An answer, or a part of it."""

    elements: ClassVar = {**Markdown.elements, "heading_open": _LeftHeading}
