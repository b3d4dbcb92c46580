"""Reads from the bytes of an image what can be known without decoding it: its size, and whether its end is there.

Pure, and no decoder: a wrong answer costs a look by one that is, never a result. Rule R-TOL-05.
"""

from typing import Final, NamedTuple, assert_never

from pinnace_agent.tools.image_type import ImageType

# Cameras and editors put a little behind the last byte of a picture.
_END_BYTES: Final = 1024
_PNG_END: Final = b"IEND\xaeB`\x82"
# Markers of JPEG without a length, and those whose segment has the size: "start of frame", without DHT, JPG and DAC.
_BARE_MARKERS: Final = frozenset({0x01, *range(0xD0, 0xDA)})
_FRAME_MARKERS: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class ImageSize(NamedTuple):
    """Pixels, before any rotation that metadata ask for."""

    width: int
    height: int


def image_size(data: bytes, found: ImageType) -> ImageSize | None:
    """Return the size that the header claims, or None if it can't be found in these bytes."""
    match found:
        case "image/png":
            size = _big(data, 16, 4), _big(data, 20, 4)
        case "image/gif":
            size = _little(data, 6, 2), _little(data, 8, 2)
        case "image/jpeg":
            size = _jpeg_size(data)
        case "image/webp":
            size = _webp_size(data)
        case "image/bmp":
            size = _bmp_size(data)
        case _:
            assert_never(found)
    return ImageSize(*size) if min(size) > 0 else None


def has_end(data: bytes, found: ImageType) -> bool:
    """Tell whether the end of the format is where it should be; without it the file was cut, or has much behind it."""
    match found:
        case "image/png":
            return _PNG_END in data[-_END_BYTES:]
        case "image/gif":
            return data[-_END_BYTES:].rstrip(b"\0").endswith(b";")
        case "image/jpeg":
            return b"\xff\xd9" in data[-_END_BYTES:]
        case "image/webp":
            return len(data) >= _little(data, 4, 4) + 8
        case "image/bmp":
            return len(data) >= _little(data, 2, 4)
        case _:
            assert_never(found)


def _big(data: bytes, offset: int, length: int) -> int:
    return int.from_bytes(data[offset : offset + length], "big") if len(data) >= offset + length else 0


def _little(data: bytes, offset: int, length: int) -> int:
    return int.from_bytes(data[offset : offset + length], "little") if len(data) >= offset + length else 0


def _jpeg_size(data: bytes) -> tuple[int, int]:
    offset = 2
    while offset + 4 <= len(data) and data[offset] == 0xFF:
        marker = data[offset + 1]
        if marker in _FRAME_MARKERS:
            return _big(data, offset + 7, 2), _big(data, offset + 5, 2)
        if marker == 0xFF:  # a filler
            offset += 1
        elif marker in _BARE_MARKERS:
            offset += 2
        else:
            offset += 2 + max(2, _big(data, offset + 2, 2))
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    if len(data) < 30:
        return 0, 0
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
        case b"VP8L" if data[20:21] == b"\x2f":
            bits = _little(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
        case _:
            return 0, 0


def _bmp_size(data: bytes) -> tuple[int, int]:
    if len(data) < 26:
        return 0, 0
    if _little(data, 14, 4) == 12:
        return _little(data, 18, 2), _little(data, 20, 2)
    height = int.from_bytes(data[22:26], "little", signed=True)  # negative: the rows come from the top
    return _little(data, 18, 4), abs(height)
