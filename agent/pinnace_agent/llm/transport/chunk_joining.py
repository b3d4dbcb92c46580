"""Joins neighbouring chunks of an HTTP body: a body that is written a word at a time is read a packet at a time.

Pure. Changes only the division of a body into chunks: the output is the same HTTP response, with the same bytes of
body, and the parser behind it validates all of it. Any chunk that is not in the plainest form is passed on unchanged,
up to the end of that response. Independent of connections. Source: RFC 9112, section 7.1.

Servers of models put each word into a chunk of its own, and an HTTP parser in Python takes 10 us for each: three times
what the rest of a delta costs.
"""

import re
from typing import Final

# The parser behind this one refuses larger heads.
_MOST_HEAD_BYTES: Final = 128 * 1024

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_INFORMATIONAL: Final = re.compile(rb"HTTP/1\.[01] 1")
_CHUNKED: Final = re.compile(rb"^transfer-encoding:[ \t]*chunked[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
# The separator before a chunk: the end of the previous one, if any, and the size. Sizes with leading zeros,
# extensions or more digits are valid too, and rare.
_SIZE: Final = rb"([1-9a-fA-F][0-9a-fA-F]{0,7})"
_FIRST: Final = re.compile(_SIZE + rb"\r\n")
_NEXT: Final = re.compile(rb"\r\n" + _SIZE + rb"\r\n")
# What has come of one whose end has not.
_FIRST_CUT: Final = re.compile(rb"(?:" + _SIZE + rb"\r?)?")
_NEXT_CUT: Final = re.compile(rb"\r?|\r\n(?:" + _SIZE + rb"\r?)?")


class ChunkJoiner:
    """What one connection receives. `begin` before each answer, then `feed` until the next request is sent."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Expect the head of an answer."""
        self._head: bytes | None = b""  # as much of it as has come; None: it is over
        self._is_joining = False
        self._separator = _FIRST
        self._held = b""  # a separator whose end has not come
        self._missing = 0  # bytes of the chunk that have not come

    def feed(self, data: bytes) -> bytes:
        """Return the bytes for the parser. Empty: so far only the beginning of a separator was received."""
        if self._is_joining:
            return self._join(data)
        return data if self._head is None else self._read_heads(data)

    def _read_heads(self, data: bytes) -> bytes:
        """Find the end of the head, after informational ones."""
        assert self._head is not None
        before = len(self._head)
        seen = self._head + data
        at = 0
        while (blank := _BLANK_LINE.search(seen, at)) is not None:
            head, at = seen[at : blank.end()], blank.end()
            if not _INFORMATIONAL.match(head):
                self._head = None
                if _CHUNKED.search(head) is None:
                    return data
                self._is_joining = True
                return data[: at - before] + self._join(data[at - before :])
        self._head = seen[at:]
        if len(self._head) > _MOST_HEAD_BYTES:
            self._head = None
        return data

    def _join(self, data: bytes) -> bytes:
        if self._held:
            data = self._held + data
            self._held = b""
        at, size = self._missing, len(data)
        if at >= size:  # all of it is inside of one chunk
            self._missing = at - size
            return self._framed(data) if data else data
        pieces = [data[:at]] if at else []
        separator = _NEXT if at else self._separator
        rest = b""
        while at < size:
            if (found := separator.match(data, at)) is None:
                rest = data[at:]
                break
            separator = _NEXT
            begin = found.end()
            at = begin + int(found[1], 16)
            pieces.append(data[begin:at])
        self._missing = max(0, at - size)
        joined = b"".join(pieces)
        if joined:
            joined = self._framed(joined)
        if rest:
            if (_NEXT_CUT if separator is _NEXT else _FIRST_CUT).fullmatch(rest):
                self._held = rest
            else:  # the last chunk, or one that the parser shall judge
                self._is_joining = False
                return joined + rest
        return joined

    def _framed(self, body: bytes) -> bytes:
        """Write a chunk, behind the end of the one before. Its own end is written when that has come."""
        if self._separator is _FIRST:
            self._separator = _NEXT
            return b"%x\r\n%b" % (len(body), body)
        return b"\r\n%x\r\n%b" % (len(body), body)
