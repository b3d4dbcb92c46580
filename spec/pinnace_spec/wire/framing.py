"""Bytes to lines: what is one record, whatever the chunks in which it comes.

Pure. LF alone ends a record; one CR before it is stripped; blank lines are ignored (R-FRM-04). Work is linear in the
bytes, also for one long line that comes a byte at a time: what was searched is not searched again, and what was taken
is not moved. Must not know JSON. Source: R-FRM-01, R-FRM-02, R-FRM-04, R-FRM-07, R-FRM-08.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

# Images travel inside records as base64: 64 MiB holds dozens of the largest that providers take, and bounds what a
# client that never sends an LF can make this process hold.
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024


class TooLong(NamedTuple):
    """Stands for a record over the limit; its bytes are gone."""

    limit_bytes: int


class LineDecoder:
    """Cuts a stream of bytes into lines without their ends."""

    def __init__(self, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        """Start at the beginning of a record.

        Args:
            max_record_bytes: The longest line that is kept, without its LF; memory is bounded by this and one chunk.
        """
        self._limit = max_record_bytes
        self._line = bytearray()  # the line that has no end yet
        self._is_skipping = False  # the line is over the limit: drop it up to its LF
        self._ready: list[bytes | TooLong] = []

    def receive_data(self, data: bytes) -> None:
        """Take the next bytes; complete lines are ready at once."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end)
            self._end_line()
        if rest:
            self._add(rest)

    def close(self) -> None:
        """Take the end of the stream: a last line without LF counts (R-FRM-07)."""
        if self._line or self._is_skipping:
            self._end_line()

    def lines(self) -> Iterator[bytes | TooLong]:
        """Return what is ready, oldest first, each once."""
        ready, self._ready = self._ready, []
        return iter(ready)

    def _add(self, piece: bytes) -> None:
        if self._is_skipping:
            return
        self._line += piece
        # One byte more, since a CR that turns out to belong to the line's end does not count.
        if len(self._line) > self._limit + 1:
            self._is_skipping = True
            self._line.clear()

    def _end_line(self) -> None:
        line = bytes(self._line).removesuffix(b"\r")
        if self._is_skipping or len(line) > self._limit:
            self._ready.append(TooLong(self._limit))
        elif line and not line.isspace():
            self._ready.append(line)
        self._line.clear()
        self._is_skipping = False
