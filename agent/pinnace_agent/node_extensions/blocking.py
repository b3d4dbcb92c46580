"""Reading and writing descriptors at once: for the few functions of extensions that the agent can't wait for.

The event loop stands still meanwhile, so there is always a deadline. The descriptors may be non-blocking.
"""

import os
import select
import time
from collections import deque
from typing import Final

_CHUNK_BYTES: Final = 64 * 1024


class TooSlow(Exception):
    """The other side did not read or write in time."""


def write_now(descriptor: int, pieces: deque[bytes], deadline: float) -> None:
    """Write all pieces, which are taken out.

    Args:
        descriptor: Where to.
        pieces: What.
        deadline: Until when, by `time.monotonic`.

    Raises:
        TooSlow: It was not read in time; a part may be written.
        OSError: The other side has closed it.
    """
    left = memoryview(b"".join(pieces))
    pieces.clear()
    while left:
        _wait([], [descriptor], deadline)
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            continue


def read_now(descriptor: int, deadline: float) -> bytes:
    """Return some of what can be read; empty: the other side has closed it.

    Raises:
        TooSlow: Nothing came in time.
        OSError: It can't be read.
    """
    while True:
        _wait([descriptor], [], deadline)
        try:
            return os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            continue


def _wait(to_read: list[int], to_write: list[int], deadline: float) -> None:
    readable, writable, _ = select.select(to_read, to_write, [], max(0.0, deadline - time.monotonic()))
    if not readable and not writable:
        raise TooSlow("it took too long")
