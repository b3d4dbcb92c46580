"""The images of a page: each one embedded once, however often and on however many branches it appears.

Pure. An image is what its bytes say, of a format that browsers show and that can't hold a program; anything else is
told in words. Must not know messages.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.llm.json_edge import as_text
from pinnace_agent.tools.image_type import SNIFF_BYTES, image_type

# The formats, by how they begin, that `image_type` leaves to others: an animated PNG.
_PNG: Final = b"\x89PNG\r\n\x1a\n"


class Picture(NamedTuple):
    """One appearance of an image."""

    number: int
    """From 1; 0: it can't be shown."""
    url: str
    """Empty if it is embedded elsewhere, or can't be shown."""
    kind: str
    size_kb: int


class Album:
    """The images of one page."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def picture(self, block: Mapping[str, object]) -> Picture:
        """Return what an image block is shown as; blocks are asked for in the order of the page."""
        data = as_text(block.get("data")) or ""
        kind = _kind(data)
        size_kb = -(-len(data) * 3 // 4096)
        if kind is None:
            return Picture(0, "", as_text(block.get("mimeType")) or "unknown", size_kb)
        digest = hashlib.sha256(data.encode()).digest()
        if digest in self._numbers:
            return Picture(self._numbers[digest], "", kind, size_kb)
        number = self._numbers[digest] = len(self._numbers) + 1
        return Picture(number, f"data:{kind};base64,{data}", kind, size_kb)


def _kind(data: str) -> str | None:
    """Return the type of an image; None unless all of the text is base64 and begins as an image does."""
    try:
        # All of it: what is no base64 could end the attribute that it is put into.
        head = base64.b64decode(data, validate=True)[:SNIFF_BYTES] if data else b""
    except (binascii.Error, ValueError):
        return None
    return "image/png" if head.startswith(_PNG) else image_type(head)
