"""The body of a request, as httpx takes it.

httpx makes an async generator of bytes. One whose connection breaks while they are written is left before its end, and
closed by the garbage collector, at a time when nothing can be awaited. So the bytes are handed over by an iterator that
needs no closing. Must not know what is in them.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx


def body_stream(data: bytes) -> "httpx.AsyncByteStream":
    """Return a stream of these bytes, which may be sent several times."""
    import httpx

    class Body(httpx.AsyncByteStream):
        def __aiter__(self) -> AsyncIterator[bytes]:
            return _Once(data)

    return Body()


class _Once:
    """Gives bytes, in one piece."""

    def __init__(self, data: bytes) -> None:
        self._left = [data]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()
