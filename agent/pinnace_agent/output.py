"""Keeps the end of a shell command's output in bounded memory, and all of it in a file once it is long.

Decides what of the output is shown and when the file begins; must not know the process, the wire or the
wording of results. Rules R-BSH-03, R-TOL-05.
"""

import codecs
import os
from typing import Final, NamedTuple

from pinnace_agent.control_text import ControlTextFilter
from pinnace_agent.output_file import make_output_file
from pinnace_agent.truncation import MAX_BYTES, MAX_LINES, Totals, Truncation, byte_length, truncate_tail
from pinnace_spec.limits import MAX_OUTPUT_FILE_BYTES

TAIL_BYTES: Final = 2 * MAX_BYTES
"""What is kept at least, once there is as much: twice what is shown, so that the cut can fall on a line's
start."""

_MAX_PIECES: Final = 256
"""Small pieces are joined when there are so many: a command that prints a byte at a time costs bytes, not
objects."""


_CUT: Final = f"\n[The output goes on. This file keeps {MAX_OUTPUT_FILE_BYTES >> 20:,} MiB of it.]\n".encode()


class OutputSnapshot(NamedTuple):
    """What is shown of an output, now or at its end."""

    text: str
    truncation: Truncation | None
    """How `text` was cut; None while everything is shown."""
    full_output_path: str | None
    """The file with the whole output. May be there although nothing is cut: raw output counts before
    filtering."""
    last_line_bytes: int
    """The length of the last line, before any cut."""


class OutputTail:
    """A rolling tail of output, decoded as UTF-8 with replacement; a character cut by a chunk's end survives.

    Memory is bounded by `TAIL_BYTES` and one chunk. When raw bytes, text or lines pass the limits of
    truncation, everything so far and everything after goes to a file that only the user can read, byte for byte
    unless it is sanitised; nothing deletes it. Its writes are synchronous appends of one chunk: they end in the page
    cache in microseconds, keep the order without a queue that would grow when the disk is slow, and leave nothing to
    flush when the command is cancelled. If the file can't be made or written it is given up and the command goes on; at
    `MAX_OUTPUT_FILE_BYTES` it ends, and its last line says so (R-LIM-04).
    """

    def __init__(self, sanitise: bool, temp_dir: str | None = None) -> None:
        """Begin an empty output.

        Args:
            sanitise: Remove escape sequences, control characters and CR, as for a user's own command.
            temp_dir: Where the file goes, if one is needed; None is a private folder of the user's.
        """
        # Without a byte order mark: it is not for the reader.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._filter = ControlTextFilter() if sanitise else None
        self._temp_dir = temp_dir
        self._pieces: list[str] = []
        self._sizes: list[int] = []
        self._kept_bytes = 0
        self._raw_bytes = 0
        self._total_bytes = 0
        self._newlines = 0
        self._ends_with_newline = True  # so that an empty output has no line
        self._open_line_bytes = 0
        self._closed_line_bytes = 0
        self._file: int | None = None
        self._file_bytes = 0
        self._path: str | None = None
        self._is_file_wanted = True
        self._early = bytearray()  # what came before there was a file, if it is to be there byte for byte

    def feed(self, data: bytes) -> str:
        """Take the next raw bytes and return the text that they added."""
        self._raw_bytes += len(data)
        return self._add(self._decoder.decode(data), data)

    def finish(self) -> str:
        """End the output, close its file, return what an incomplete character becomes. Idempotent."""
        text = self._decoder.decode(b"", final=True)
        # What may have become a byte order mark stays in Python's decoder for good, although nothing follows.
        text += self._decoder.getstate()[0].decode(errors="replace")
        self._decoder.reset()
        text = self._add(text, b"")
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._is_file_wanted = False
        return text

    def snapshot(self) -> OutputSnapshot:
        """Return what is to be shown now; the cost depends on the limits, not on the output."""
        text = "".join(self._pieces)
        totals = Totals(self._newlines + (0 if self._ends_with_newline else 1), self._total_bytes)
        cut = truncate_tail(text, totals)
        last_line = self._closed_line_bytes if self._ends_with_newline else self._open_line_bytes
        return OutputSnapshot(cut.content, cut if cut.is_truncated else None, self._path, last_line)

    def result(self) -> OutputSnapshot:
        """End the output and return what is to be shown of it."""
        self.finish()
        return self.snapshot()

    def _add(self, text: str, data: bytes) -> str:
        if self._filter is not None:
            text = self._filter.feed(text)
        if text:
            size = byte_length(text)
            self._count(text, size)
            self._keep(text, size)
        if self._file is not None:
            self._append(data if self._filter is None else text.encode())
        elif self._is_file_wanted:
            if self._filter is None:
                self._early += data
            if self._is_over_limit():
                self._open_file()
        if text:
            self._forget()
        return text

    def _count(self, text: str, size: int) -> None:
        self._total_bytes += size
        self._newlines += text.count("\n")
        self._ends_with_newline = text.endswith("\n")
        last = text.rfind("\n")
        if last < 0:
            self._open_line_bytes += size
            return
        previous = text.rfind("\n", 0, last)
        line = byte_length(text[previous + 1 : last])
        self._closed_line_bytes = line if previous >= 0 else self._open_line_bytes + line
        self._open_line_bytes = byte_length(text[last + 1 :])

    def _keep(self, text: str, size: int) -> None:
        self._pieces.append(text)
        self._sizes.append(size)
        self._kept_bytes += size

    def _forget(self) -> None:
        """Drop the oldest pieces that no tail can reach; only after the file has got them."""
        dropped = 0
        while self._kept_bytes - self._sizes[dropped] > TAIL_BYTES:
            self._kept_bytes -= self._sizes[dropped]
            dropped += 1
        if dropped:
            del self._pieces[:dropped], self._sizes[:dropped]
        if len(self._pieces) > _MAX_PIECES:
            # Sliced, or a tail that only ever gets small pieces would never lose its first one.
            self._pieces = ["".join(self._pieces)[-TAIL_BYTES:]]
            self._kept_bytes = byte_length(self._pieces[0])
            self._sizes = [self._kept_bytes]

    def _is_over_limit(self) -> bool:
        lines = self._newlines + (0 if self._ends_with_newline else 1)
        return self._raw_bytes > MAX_BYTES or self._total_bytes > MAX_BYTES or lines > MAX_LINES

    def _open_file(self) -> None:
        self._is_file_wanted = False
        try:
            path, self._file = make_output_file(self._temp_dir)
        except OSError:
            return
        self._path = path
        early, self._early = self._early, bytearray()
        self._append(early if self._filter is None else "".join(self._pieces).encode())

    def _append(self, data: bytes | bytearray) -> None:
        assert self._file is not None
        room = MAX_OUTPUT_FILE_BYTES - self._file_bytes
        is_cut = len(data) > room
        left = memoryview(data[:room] + _CUT if is_cut else data)
        self._file_bytes += len(left)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            # The disk is full, say. Half a file must not be called the full output.
            os.close(self._file)
            self._file = self._path = None
            return
        if is_cut:
            os.close(self._file)
            self._file = None
