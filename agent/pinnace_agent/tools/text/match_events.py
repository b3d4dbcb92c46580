"""Parses ripgrep's JSON: one event a line, of which matches and lines around them are used.

Memory stays constant for lines of any length: of an event that is too large to keep, the beginning of the text and the
number are read and the rest is skipped. Pure. Has no knowledge of the output of the tool.
"""

import base64
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypedDict

import orjson

MAX_EVENT_BYTES: Final = 128 * 1024
"""An event of a line of 500 characters is smaller even with the longest path, if each character is escaped and a match
of its own: the line of a larger event is cut anyway."""

_MATCH: Final = b'{"type":"match"'
_WANTED: Final = (_MATCH, b'{"type":"context"')
_LARGE: Final = re.compile(
    rb'\{"type":"(?P<kind>match|context)","data":\{'
    rb'"path":(?P<path>\{"(?:text|bytes)":"(?:[^"\\]|\\.)*"\}),'
    rb'"lines":\{"(?P<form>text|bytes)":"'
)
_CHARACTERS: Final = re.compile(rb'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*')
# An unescaped quote ends a string, so no text can contain this.
_BEFORE_NUMBER: Final = b'},"line_number":'
_NUMBER: Final = re.compile(rb"(\d+)\D")
# A character takes at most this much of an event: `\u001b` in text, four bytes in base64.
_BYTES_PER_CHARACTER: Final = 6


class MatchEvent(NamedTuple):
    """One line of a searched file."""

    is_match: bool
    path: str
    number: int
    text: str
    """Without its end; of a very long line only a beginning that is longer than the shown part."""


class _Text(TypedDict, total=False):
    text: str
    bytes: str


class MatchEvents:
    """Parses ripgrep's output."""

    __slots__ = ("_large", "_rest", "_shown_chars")

    def __init__(self, shown_chars: int) -> None:
        """Read at least one character more than `shown_chars` of each line, if it has so many."""
        self._shown_chars = shown_chars
        self._rest = b""
        self._large: _LargeEvent | None = None

    def feed(self, chunk: bytes) -> Iterator[MatchEvent]:
        """Return the events that are complete with this chunk."""
        if self._large is not None:
            end = chunk.find(b"\n")
            self._large.feed(chunk if end < 0 else chunk[:end])
            if end < 0:
                return
            large, self._large = self._large, None
            chunk = chunk[end + 1 :]
            if (event := large.event()) is not None:
                yield event
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest
        for line in lines:
            if line.startswith(_WANTED):
                yield _event(line)
        if len(rest) > MAX_EVENT_BYTES:
            self._rest = b""
            self._large = _LargeEvent(rest, self._shown_chars)


class _LargeEvent:
    """An event that is not kept: its number is found in the bytes that are skipped."""

    __slots__ = ("_head", "_number", "_tail", "_text")

    def __init__(self, beginning: bytes, shown_chars: int) -> None:
        self._head = _LARGE.match(beginning)
        self._text = b""
        self._tail = b""
        self._number: int | None = None
        if self._head is not None:
            start = self._head.end()
            # A whole number of groups of base64, of which each has four characters.
            self._text = beginning[start : start + (shown_chars + 2) * _BYTES_PER_CHARACTER * 4]
            self.feed(beginning[start:])

    def feed(self, data: bytes) -> None:
        if self._number is not None or self._head is None:
            return
        data = self._tail + data
        place = data.find(_BEFORE_NUMBER)
        if place < 0:
            self._tail = data[-len(_BEFORE_NUMBER) :]
            return
        number = _NUMBER.match(data, place + len(_BEFORE_NUMBER))
        if number is None:  # its end comes with the next chunk
            self._tail = data[place:]
            return
        self._number = int(number[1])

    def event(self) -> MatchEvent | None:
        head = self._head
        if head is None or self._number is None:
            return None
        if head["form"] == b"bytes":
            raw = base64.b64decode(self._text.partition(b'"')[0]).decode("utf-8", "replace")
        else:
            characters = _CHARACTERS.match(self._text)
            assert characters is not None  # the pattern also matches an empty text
            raw = orjson.loads('"' + characters[0].decode("utf-8", "replace") + '"')
        path = _text(orjson.loads(head["path"]))
        return MatchEvent(head["kind"] == b"match", path, self._number, _without_end(raw))


def _event(line: bytes) -> MatchEvent:
    data = orjson.loads(line)["data"]
    return MatchEvent(
        line.startswith(_MATCH), _text(data["path"]), data["line_number"], _without_end(_text(data["lines"]))
    )


def _text(written: _Text) -> str:
    text = written.get("text")
    return text if text is not None else base64.b64decode(written.get("bytes", "")).decode("utf-8", "replace")


def _without_end(text: str) -> str:
    return text[:-1].removesuffix("\r") if text[-1:] == "\n" else text.removesuffix("\r")
