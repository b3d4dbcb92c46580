"""The result of a search: lines within the limits, then notices of what is missing.

Keeps no more text than is shown and counts the rest. Pure. Has no knowledge of the source of lines. Rule R-TOL-05.
"""

import math
from collections.abc import Mapping
from typing import Final

from pinnace_agent.core.control_text import visible_controls
from pinnace_agent.shell.truncation import MAX_BYTES, TextSize, byte_length, format_size, truncate_head
from pinnace_agent.tools.base import ToolResult, number_argument, text_result

NO_LINE_LIMIT: Final = 2**53 - 1
"""No limit of lines, since searches limit their results: the largest number that every client can represent."""


IGNORED_SEARCH_S: Final = 2.0
"""Time for a search of ignored files after one that found nothing: they may be many, and are no more than a hint."""


def ignored_notice(path: str) -> str:
    """Return the notice that an ignored file matches, by the path of one."""
    what = f"Ignored files (.gitignore) were not searched, and some match, e.g. {path}"
    return f"{what}. To search them, give their folder as path"


def ignored_notices(*, was_stopped: bool) -> list[str]:
    """Return the notices of results that are ignored files, and of which there may be more if it was stopped."""
    notices = ["Only files that .gitignore or another ignore file names match"]
    return [*notices, f"The search was stopped after {IGNORED_SEARCH_S:g} s"] if was_stopped else notices


class ShownLines:
    """Lines joined by LF, cut to the limit of size."""

    __slots__ = ("_bytes", "_kept", "_kept_bytes", "_lines")

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._kept_bytes = 0
        self._bytes = 0
        self._lines = 0

    def __bool__(self) -> bool:
        return self._lines > 0

    def add(self, line: str) -> None:
        """Add a line; a file name in it may contain LFs. Control characters are shown."""
        line = visible_controls(line)
        size = (len(line) if line.isascii() else byte_length(line)) + (self._lines > 0)
        self._bytes += size
        # One line beyond the limit is kept, so that the cut is detected.
        if self._kept_bytes <= MAX_BYTES:
            self._kept.append(line)
            self._kept_bytes += size
        self._lines += 1 + (line.count("\n") if "\n" in line else 0)

    def result(self, limit_notice: str | None, details: Mapping[str, object], *notices: str) -> ToolResult:
        """Return the text with the notices below it: of the limit, of the cut by size, then the others."""
        shown = truncate_head("\n".join(self._kept), TextSize(self._lines, self._bytes), max_lines=NO_LINE_LIMIT)
        shown_notices = [limit_notice] if limit_notice else []
        record = dict(details)
        if shown.is_truncated:
            shown_notices.append(f"{format_size(MAX_BYTES)} limit reached")
            record["truncation"] = shown.record()
        shown_notices += notices
        text = f"{shown.content}\n\n[{'. '.join(shown_notices)}]" if shown_notices else shown.content
        return text_result(text, record or None)


def limit_argument(args: Mapping[str, object], default: int) -> int:
    """Return the argument `limit` as a whole number of at least one."""
    return max(1, whole_argument(args, "limit", default))


def whole_argument(args: Mapping[str, object], name: str, default: int) -> int:
    """Return a number without its fraction, bounded by the largest exact integer of JSON."""
    value = number_argument(args, name)
    if value is None or math.isnan(value):
        return default
    return math.floor(max(-NO_LINE_LIMIT, min(value, NO_LINE_LIMIT)))
