"""Reads the selected lines of a text file within the limits, in constant memory.

The rest of the file is only counted. Blocking: belongs into a thread. Builds no texts of results. Rule R-TOL-05.
"""

import codecs
from collections.abc import Callable
from typing import BinaryIO, Final, NamedTuple

from pinnace_agent.shell.truncation import MAX_BYTES, TextSize, Truncation, byte_length, truncate_head

CHUNK_BYTES: Final = 256 * 1024
"""Large enough that counting lines costs no more than reading, small enough to react to a cancellation at once."""


class TextWindow(NamedTuple):
    """A stretch of lines of a file. A LF at the end of the file begins another, empty line here."""

    shown: Truncation
    """The selected lines within the limits."""
    total_lines: int
    """The number of lines of the whole file."""
    first_line_bytes: int
    """The length of the first selected line."""


class WindowReader:
    """Receives a file piece by piece, from beginning to end, and keeps a window of its lines."""

    __slots__ = ("_end", "_line", "_selection", "_start")

    def __init__(self, start: int, limit: int | None) -> None:
        """Begin at the beginning of the file.

        Args:
            start: The first line of the window, from 0. Past the end the window is empty; see `total_lines`.
            limit: How many lines; None is all to the end.
        """
        self._start = start
        self._end = None if limit is None else start + limit
        self._selection = _Selection()
        self._line = 0  # the line that the next byte belongs to

    def feed(self, chunk: bytes) -> None:
        """Add the next bytes."""
        newlines = chunk.count(b"\n")
        line, end = self._line, self._end
        if line + newlines >= self._start and (end is None or line < end):
            self._selection.feed(_cut(chunk, self._start - line, None if end is None else end - line))
        self._line += newlines

    def window(self) -> TextWindow:
        """Return the window, at the end of the file."""
        return self._selection.window(self._line + 1)


def read_window(file: BinaryIO, start: int, limit: int | None, check_cancelled: Callable[[], None]) -> TextWindow:
    """Read a file to its end and return a window of its lines.

    Args:
        file: Opened for reading bytes, at its beginning.
        start: The first line of the window, from 0.
        limit: How many lines; None is all to the end.
        check_cancelled: Called now and then; what it raises ends the reading.
    """
    reader = WindowReader(start, limit)
    while chunk := file.read(CHUNK_BYTES):
        check_cancelled()
        reader.feed(chunk)
    return reader.window()


def _cut(chunk: bytes, start: int, end: int | None) -> bytes:
    """Return lines `start` to before `end`, from the chunk's first byte, without the LF after them."""
    first = 0 if start <= 0 else _line_offset(chunk, 0, start)
    assert first is not None  # the caller has counted
    if end is None or (offset := _line_offset(chunk, first, end - max(start, 0))) is None:
        return chunk[first:]
    return chunk[first : max(first, offset - 1)]


def _line_offset(chunk: bytes, offset: int, lines: int) -> int | None:
    """Return where the line begins that comes `lines` lines after `offset`, or None if it is not here."""
    parts = chunk[offset:].split(b"\n", lines)
    return len(chunk) - len(parts[-1]) if len(parts) > lines else None


class _Selection:
    """The selected text: its full sizes, and the part of it within the limits."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept: list[str] = []
        self._kept_bytes = 0
        self._bytes = 0
        self._newlines = 0
        self._is_first_line_over = False
        self._first_line_bytes = 0
        self._ends_with_newline = False

    def feed(self, data: bytes) -> None:
        self._add(self._decoder.decode(data))

    def window(self, total_lines: int) -> TextWindow:
        self._add(self._decoder.decode(b"", final=True))
        lines = self._newlines + (1 if self._bytes and not self._ends_with_newline else 0)
        shown = truncate_head("".join(self._kept), TextSize(lines, self._bytes))
        return TextWindow(shown, total_lines, self._first_line_bytes)

    def _add(self, text: str) -> None:
        if not text:
            return
        self._bytes += byte_length(text)
        self._newlines += text.count("\n")
        self._ends_with_newline = text.endswith("\n")
        if not self._is_first_line_over:
            head, newline, _ = text.partition("\n")
            self._first_line_bytes += byte_length(head)
            self._is_first_line_over = bool(newline)
        if self._kept_bytes <= MAX_BYTES:
            # One byte beyond the limit is kept, so that the cut is detected.
            kept = text[: MAX_BYTES + 1 - self._kept_bytes]
            self._kept.append(kept)
            self._kept_bytes += byte_length(kept)
