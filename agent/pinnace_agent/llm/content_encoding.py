"""Bodies that a server has compressed, although they stream.

Pure. Decides which encodings are asked for and takes them off, piece by piece. Only what zlib knows: a decoder for
anything else would be one more package, and text that comes a word at a time is hardly compressed at all.
"""

import zlib
from typing import Final

ACCEPTED: Final = "gzip, deflate"
# 32 more than the largest window: the head of the data says which of the two it is.
_EITHER: Final = 32 + zlib.MAX_WBITS


class Undecodable(Exception):
    """A body is not what its encoding says. The text is for the user."""


class BodyDecoder:
    """Takes the encoding off one body."""

    def __init__(self, encoding: str) -> None:
        """Prepare for the value of a `Content-Encoding`.

        Raises:
            Undecodable: It is none that was asked for.
        """
        name = encoding.strip().lower()
        if name not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise Undecodable(f"its encoding is {name}")
        self._inflater = zlib.decompressobj(_EITHER) if name not in {"", "identity"} else None

    def decode(self, piece: bytes) -> bytes:
        """Return what of the body can be read now; it may be nothing.

        Raises:
            Undecodable: These are no such bytes.
        """
        if self._inflater is None:
            return piece
        try:
            return self._inflater.decompress(piece)
        except zlib.error as error:
            raise Undecodable(str(error)) from None
