"""AWS's event stream encoding: bytes, cut anywhere, to frames.

Pure, and linear in the size of the stream however it is cut. A frame is a prelude (the length of the frame, the length
of its headers, a checksum of both), headers, a payload, and a checksum of everything before. A length is believed only
after its checksum, so that a damaged one is an error and never waited for. Independent of what a frame means. Source:
the event stream encoding of the Smithy specification (`application/vnd.amazon.eventstream`).
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

HeaderValue: TypeAlias = bool | int | bytes | str

# AWS's own clients take payloads of 24 MiB at most, and headers of 128 KiB.
MAX_FRAME_BYTES: Final = 24 * 1024 * 1024 + 128 * 1024
MAX_HEADERS_BYTES: Final = 128 * 1024

_PRELUDE: Final = struct.Struct(">III")
_CHECKSUM: Final = struct.Struct(">I")
_CHECKED_PRELUDE_BYTES: Final = 8
_LEAST_FRAME_BYTES: Final = _PRELUDE.size + _CHECKSUM.size
# The types of header values by their numbers.
_TRUE, _FALSE, _BYTES, _STRING, _UUID = 0, 1, 6, 7, 9
_NUMBERS: Final = {2: struct.Struct(">b"), 3: struct.Struct(">h"), 4: struct.Struct(">i"), 5: struct.Struct(">q")}
_TIMESTAMP: Final = 8
_LENGTH: Final = struct.Struct(">H")
_UUID_BYTES: Final = 16


class FrameDamaged(Exception):
    """The bytes are no event stream, or were changed on the way. The text names the part."""


class Frame(NamedTuple):
    """One message of a stream."""

    headers: Mapping[str, HeaderValue]
    """Timestamps are milliseconds since the epoch, UUIDs their bytes."""
    payload: bytes


class FrameReader:
    """Takes bytes of the network and yields the frames that they complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._length = 0  # of the frame at the beginning, once its prelude is checked; 0: not yet
        self._headers_length = 0

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Take some bytes and yield the frames that they complete, each before what follows it is looked at.

        Raises:
            FrameDamaged: The reader can't be used any more.
        """
        buffer = self._buffer
        buffer += chunk
        while True:
            if not self._length and len(buffer) >= _PRELUDE.size:
                self._read_prelude()
            if not self._length or len(buffer) < self._length:
                return
            data = bytes(buffer[: self._length])
            del buffer[: self._length]
            frame = _frame(data, self._headers_length)
            self._length = 0
            yield frame

    def _read_prelude(self) -> None:
        length, headers_length, checksum = _PRELUDE.unpack_from(self._buffer)
        if crc32(self._buffer[:_CHECKED_PRELUDE_BYTES]) != checksum:
            raise FrameDamaged("the checksum of a prelude is wrong")
        if not _LEAST_FRAME_BYTES <= length <= MAX_FRAME_BYTES:
            raise FrameDamaged(f"a frame of {length} bytes")
        if headers_length > min(MAX_HEADERS_BYTES, length - _LEAST_FRAME_BYTES):
            raise FrameDamaged(f"headers of {headers_length} bytes in a frame of {length}")
        self._length, self._headers_length = length, headers_length


def _frame(data: bytes, headers_length: int) -> Frame:
    end = len(data) - _CHECKSUM.size
    if crc32(data[:end]) != _CHECKSUM.unpack_from(data, end)[0]:
        raise FrameDamaged("the checksum of a frame is wrong")
    begin = _PRELUDE.size + headers_length
    return Frame(_headers(data[_PRELUDE.size : begin]), data[begin:end])


def _headers(data: bytes) -> dict[str, HeaderValue]:
    """Read headers that a checksum has confirmed: what is wrong in them was sent so."""
    headers: dict[str, HeaderValue] = {}
    place = 0
    try:
        while place < len(data):
            name, place = _sized(data, place + 1, data[place])
            value, place = _value(data, place + 1, data[place])
            headers[name.decode()] = value
    except (IndexError, struct.error, UnicodeDecodeError):
        raise FrameDamaged("headers that cannot be read") from None
    return headers


def _value(data: bytes, place: int, kind: int) -> tuple[HeaderValue, int]:
    """Return the value at a place, and the place after it."""
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind in (_BYTES, _STRING):
        content, end = _sized(data, place + _LENGTH.size, _LENGTH.unpack_from(data, place)[0])
        return (content.decode() if kind == _STRING else content), end
    if kind == _UUID:
        return _sized(data, place, _UUID_BYTES)
    number = _NUMBERS[5] if kind == _TIMESTAMP else _NUMBERS.get(kind)
    if number is None:
        raise FrameDamaged(f"a header of the unknown type {kind}")
    return int(number.unpack_from(data, place)[0]), place + number.size


def _sized(data: bytes, begin: int, size: int) -> tuple[bytes, int]:
    end = begin + size
    if end > len(data):
        raise IndexError
    return data[begin:end], end
