"""A stream without a buffer that writes whole what it is given, as PYTHONUNBUFFERED asks for one.

Python takes the part that such a stream writes before a signal for the whole, and drops the rest in silence. Loaded
where the variable is set.
"""

from io import FileIO, TextIOWrapper
from typing import TextIO

from typing_extensions import Buffer


def without_buffer(stream: TextIO) -> TextIO:
    """Return a stream to the same file."""
    whole = _WholeFile(stream.fileno(), "wb", closefd=False)
    return TextIOWrapper(whole, stream.encoding, stream.errors, "\n", write_through=True)


class _WholeFile(FileIO):
    """A file without a buffer."""

    def write(self, data: Buffer) -> int:
        """Write all of it.

        Raises:
            OSError: It can't be written; also BlockingIOError, if the file does not wait.
        """
        left = whole = memoryview(data).cast("B")
        while left:
            # None: it would have to wait. The types of the standard library leave that out.
            written: int | None = super().write(left)
            if written is None:
                raise BlockingIOError
            left = left[written:]
        return len(whole)
