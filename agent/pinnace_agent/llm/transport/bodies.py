"""Bodies of requests and of answers, as they pass between the exchange and httpx.

A request's body is handed over by an iterator that needs no closing: httpx makes an async generator of bytes, and one
whose connection breaks while they are written is left before its end, to be closed by the garbage collector at a time
when nothing can be awaited. An answer's body is decoded piece by piece; only encodings of zlib are requested, since a
decoder for anything else would be one more package, and text that comes a word at a time is hardly compressed at all.
"""

import zlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx

ACCEPTED: Final = "gzip, deflate"
# 32 more than the largest window: the head of the data shows which of the two it is.
_EITHER: Final = 32 + zlib.MAX_WBITS


class Undecodable(Exception):
    """A body cannot be decoded. The text is for the user."""


class BodyDecoder:
    """Decodes one body."""

    def __init__(self, encoding: str) -> None:
        """Start at the beginning of a body with this `Content-Encoding`.

        Raises:
            Undecodable: The encoding was not requested.
        """
        name = encoding.strip().lower()
        if name not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise Undecodable(f"its encoding is {name}")
        self._inflater = zlib.decompressobj(_EITHER) if name not in {"", "identity"} else None

    def decode(self, piece: bytes) -> bytes:
        """Return the part of the body that can be decoded now; it may be empty.

        Raises:
            Undecodable: The bytes are not in this encoding.
        """
        if self._inflater is None:
            return piece
        try:
            return self._inflater.decompress(piece)
        except zlib.error as error:
            raise Undecodable(str(error)) from None


def body_stream(data: bytes) -> "httpx.AsyncByteStream":
    """Return a stream of these bytes, which may be sent several times."""
    import httpx

    class Body(httpx.AsyncByteStream):
        def __aiter__(self) -> AsyncIterator[bytes]:
            return _Once(data)

    return Body()


class _Once:
    """Yields bytes, in one piece."""

    def __init__(self, data: bytes) -> None:
        self._left = [data]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()
