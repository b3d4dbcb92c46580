"""Server-sent events: bytes, cut anywhere, to events.

Pure, and linear in the size of the stream however it is cut. Works on bytes: U+2028 or U+0085 inside of data
end no line. Independent of what the data means. Source: the event stream format of the HTML standard, with one
liberty: an event counts that the end of the stream cuts before its blank line.
"""

from typing import Final, NamedTuple

# As large as the largest record of the protocol: a larger one could not be passed on.
MAX_EVENT_BYTES: Final = 64 * 1024 * 1024

_BOM: Final = b"\xef\xbb\xbf"
_CR: Final = 0x0D
_LF: Final = 0x0A


class SseEvent(NamedTuple):
    """An event of a stream: its name and its data, as bytes."""

    name: bytes
    """Empty: the default, `message`."""
    data: bytes


class EventTooLarge(Exception):
    """An event is over `MAX_EVENT_BYTES`."""


class SseReader:
    """Takes bytes of the network and returns the events that they complete."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of a line whose end has not come
        self._data: list[bytes] = []
        self._name = b""
        self._size = 0  # of the event so far
        self._is_first = True
        self._skips_lf = False  # the last byte was CR: an LF would belong to it

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take some bytes and return the events that they complete.

        Raises:
            EventTooLarge: The reader can't be used any more.
        """
        if self._skips_lf and chunk:
            self._skips_lf = False
            if chunk[0] == _LF:
                chunk = chunk[1:]
        if not chunk:
            return []
        self._size += len(chunk)
        if self._size > MAX_EVENT_BYTES:
            raise EventTooLarge
        # bytes.splitlines() splits at CR, LF and CRLF and at nothing else.
        lines = chunk.splitlines()
        last = chunk[-1]
        if last not in (_CR, _LF):
            if len(lines) == 1:
                self._line.append(chunk)
                return []
            unfinished = [lines.pop()]
        else:
            unfinished = []
            self._skips_lf = last == _CR
        if self._line:
            lines[0] = b"".join([*self._line, lines[0]])
        self._line = unfinished
        return self._read(lines)

    def finish(self) -> list[SseEvent]:
        """End the stream; return the event that was not closed by a blank line, if any."""
        lines = [b"".join(self._line)] if self._line else []
        self._line = []
        return self._read([*lines, b""])

    def _read(self, lines: list[bytes]) -> list[SseEvent]:
        if self._is_first:
            self._is_first = False
            lines[0] = lines[0].removeprefix(_BOM)
        events: list[SseEvent] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line:
                if self._data:
                    data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                    events.append(SseEvent(self._name, data))
                    self._data = []
                self._name = b""
                self._size = 0
            elif line.startswith(b"event:"):
                self._name = line[6:].removeprefix(b" ")
            elif line == b"data":  # a field without a colon has an empty value
                self._data.append(b"")
            elif line == b"event":
                self._name = b""
        return events
