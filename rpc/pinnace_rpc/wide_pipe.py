"""The pipe of stdout, wide while something large is written to it.

Each time that its reader takes something costs both sides a change of process. A pipe belongs to its reader too, so it
gets its width back. Loaded with the first large write. Must not know what is written.
"""

import fcntl
from contextlib import suppress
from typing import Final

# The most that Linux gives by default to whoever asks.
WIDE_PIPE_BYTES: Final = 1024 * 1024


class WidePipe:
    """A pipe, or something else, which stays as it is; so does a pipe that may not be widened."""

    def __init__(self, descriptor: int) -> None:
        """Widen it."""
        self._descriptor = descriptor
        self._width: int | None = None  # that it had, if it has another one now
        with suppress(OSError, AttributeError):  # no pipe; too many wide ones; not Linux
            width = fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
            if width < WIDE_PIPE_BYTES:
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
                self._width = width

    def narrow(self) -> bool:
        """Give it its width back; False if its reader has not yet taken enough of what is in it."""
        if self._width is not None:
            try:
                fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, self._width)
            except OSError:
                return False
        return True
