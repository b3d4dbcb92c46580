"""What a search shows: lines as far as they may be shown, then notices of what is missing.

Keeps no more text than is shown and counts the rest. Pure. Must not know where lines come from. Rule R-TOL-05.
"""

import math
from collections.abc import Mapping
from typing import Final

from pinnace_agent.tools.base import ToolResult, number_argument, text_result
from pinnace_agent.truncation import MAX_BYTES, Totals, byte_length, format_size, truncate_head

NO_LINE_LIMIT: Final = 2**53 - 1
"""Searches have a limit of their own on how many there are. The largest number that every client can hold."""


class ShownLines:
    """Lines joined by LF, cut to what may be shown."""

    __slots__ = ("_bytes", "_kept", "_kept_bytes", "_lines")

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._kept_bytes = 0
        self._bytes = 0
        self._lines = 0

    def __bool__(self) -> bool:
        return self._lines > 0

    def add(self, line: str) -> None:
        """Add a line; it may hold LFs, if it is a name that does."""
        size = (len(line) if line.isascii() else byte_length(line)) + (self._lines > 0)
        self._bytes += size
        # One line too many is kept, so that what is missing is missed.
        if self._kept_bytes <= MAX_BYTES:
            self._kept.append(line)
            self._kept_bytes += size
        self._lines += 1 + (line.count("\n") if "\n" in line else 0)

    def result(self, limit_notice: str | None, details: Mapping[str, object], *notices: str) -> ToolResult:
        """Return the text with the notices below it: of the limit, of the cut by size, then the others."""
        shown = truncate_head("\n".join(self._kept), Totals(self._lines, self._bytes), max_lines=NO_LINE_LIMIT)
        told = [limit_notice] if limit_notice else []
        record = dict(details)
        if shown.is_truncated:
            told.append(f"{format_size(MAX_BYTES)} limit reached")
            record["truncation"] = shown.record()
        told += notices
        text = f"{shown.content}\n\n[{'. '.join(told)}]" if told else shown.content
        return text_result(text, record or None)


def limit_argument(args: Mapping[str, object], default: int) -> int:
    """Return the argument `limit` as a whole number of at least one."""
    return max(1, whole_argument(args, "limit", default))


def whole_argument(args: Mapping[str, object], name: str, default: int) -> int:
    """Return a number without its fraction, bounded by what every program can count."""
    value = number_argument(args, name)
    if value is None or math.isnan(value):
        return default
    return math.floor(max(-NO_LINE_LIMIT, min(value, NO_LINE_LIMIT)))
