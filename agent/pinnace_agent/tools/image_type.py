"""Recognises the image formats that models take, by content alone: a name proves nothing.

Pure. Rule R-TOL-05.
"""

from typing import Final, Literal

SNIFF_BYTES: Final = 4100
"""How much of a file is looked at: an animated PNG says that it is one among its first chunks."""

ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp", "image/bmp"]

_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_BMP_HEADER_SIZES: Final = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
_BMP_DEPTHS: Final = frozenset({1, 4, 8, 16, 24, 32})


def image_type(head: bytes) -> ImageType | None:
    """Return the type of the image that begins with `head`, or None if it is none that can be shown."""
    # JPEG-LS begins as JPEG does, with F7 as the fourth byte, and nobody shows it.
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
