"""Lines that a user enters while something else may end the question: a login in a browser that has come back.

A thread that waits for a line can't be ended, and Python waits for it at its end: so the descriptor is awaited.
"""

import os
import sys

import trio

_MOST_BYTES = 64 * 1024


async def line(prompt: str) -> str | None:
    """Ask for a line on stderr and read it from stdin; None: stdin has ended. Cancelling leaves what was not read."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    if sys.stdin is None:
        await trio.lowlevel.checkpoint()
        return None
    descriptor = sys.stdin.fileno()
    read = bytearray()
    while not read.endswith(b"\n") and len(read) < _MOST_BYTES:
        try:
            await trio.lowlevel.wait_readable(descriptor)
        except PermissionError:  # a file, which is always readable
            await trio.lowlevel.checkpoint()
        # One byte at a time: what is behind the line belongs to the next question.
        if not (piece := os.read(descriptor, 1)):
            break
        read += piece
    return read.decode("utf-8", "replace").strip() if read else None
