"""What the bytes of an image show without decoding it: its type, its size, and whether its end is there.

The type is recognised by content alone, never by name. Pure, and no decoder: a wrong size or end costs a decoding,
never a result. Rule R-TOL-05.
"""

from typing import Final, Literal, NamedTuple, assert_never

SNIFF_BYTES: Final = 4100
"""How much of a file is looked at: an animated PNG says that it is one among its first chunks."""

ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp", "image/bmp"]

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_BMP_HEADER_SIZES: Final = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
_BMP_DEPTHS: Final = frozenset({1, 4, 8, 16, 24, 32})


def image_type(head: bytes) -> ImageType | None:
    """Return the type of the image that begins with `head`, or None if it is none that can be shown."""
    # JPEG-LS begins as JPEG does, with F7 as the fourth byte, and no model takes it.
    if head.startswith(b"\xff\xd8\xff") and head[3:4] != b"\xf7":
        return "image/jpeg"
    if head.startswith(_PNG_SIGNATURE):
        return "image/png" if _is_still_png(head) else None
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return "image/bmp" if _is_bmp(head) else None


def _is_still_png(head: bytes) -> bool:
    if head[8:16] != b"\x00\x00\x00\rIHDR":
        return False
    offset = 8
    while offset + 8 <= len(head):
        kind = head[offset + 4 : offset + 8]
        if kind == b"acTL":
            return False  # an animation
        if kind == b"IDAT":
            return True
        offset += 12 + int.from_bytes(head[offset : offset + 4], "big")
    return True


def _is_bmp(head: bytes) -> bool:
    """Look at the fields as well: text may begin with the letters BM."""
    if not head.startswith(b"BM") or len(head) < 26:
        return False
    header_size = int.from_bytes(head[14:18], "little")
    # The oldest header has 16-bit sizes, so its other fields come four bytes earlier.
    planes = 22 if header_size == 12 else 26
    return (
        header_size in _BMP_HEADER_SIZES
        and int.from_bytes(head[planes : planes + 2], "little") == 1
        and int.from_bytes(head[planes + 2 : planes + 4], "little") in _BMP_DEPTHS
    )


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
    """Return whether the end of the format is in its place; otherwise the file was cut, or has much behind it."""
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
