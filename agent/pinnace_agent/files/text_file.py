"""Reads and encodes texts: instructions, prompt templates, skills, and what tools write.

A read never waits for a writer: what is no regular file is refused, and of a large file no more is read than its limit.
With a `Reach` only what may be opened is read (`opener`); without one the caller is responsible for the path. Bytes
that are no UTF-8 are replaced, and a byte order mark is left out.
"""

import errno
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.files.regular_file import NotRegular, open_regular

if TYPE_CHECKING:  # loaded where a repository or a model names a file
    from pinnace_agent.files.opener import Reach

# Some sixty thousand tokens: more than most models can take, and a hundred times what people write.
MAX_TEXT_BYTES: Final = 256 * 1024


class TextFileError(Exception):
    """A file that can't be read as it should; the text is the reason, without its name."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        super().__init__(text)
        self.text = text


class TextFile(NamedTuple):
    """What was read."""

    text: str
    left_out_bytes: int = 0
    """How much of its end was not."""


def read_text_file(path: str, reach: "Reach | None" = None) -> str:
    """Return the text in a file that is not longer than `MAX_TEXT_BYTES`.

    Raises:
        TextFileError: It is longer, no regular file, must not be read or can't be.
    """
    read = read_beginning(path, reach=reach)
    if read.left_out_bytes:
        raise TextFileError(f"has more than {MAX_TEXT_BYTES // 1024} KiB")
    return read.text


def read_beginning(path: str, max_bytes: int = MAX_TEXT_BYTES, *, reach: "Reach | None" = None) -> TextFile:
    """Return the text in a file, of a longer one what begins it, in whole lines.

    Raises:
        TextFileError: It is no regular file, must not be read or can't be.
    """
    try:
        data, size = _read(path, max_bytes + 1) if reach is None else _read_within(path, max_bytes + 1, reach)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise TextFileError(f"can't be read: {reason or type(error).__name__}") from None
    if len(data) <= max_bytes:
        return TextFile(_decoded(data))
    data = data[: data.rfind(b"\n", 0, max_bytes) + 1] or data[:max_bytes]
    return TextFile(_decoded(data), max(size, max_bytes + 1) - len(data))


def read_regular(path: str, max_bytes: int) -> bytes:
    """Return the whole of a regular file. Never waits for a writer, and of no device reads anything.

    Raises:
        TextFileError: It is no regular file, or is longer.
        OSError: It can't be read; FileNotFoundError if there is none.
        ValueError: It is no path.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    data, _ = _read(path, max_bytes + 1)
    if len(data) > max_bytes:
        raise TextFileError(f"has more than {max_bytes // 1024} KiB")
    return data


def encode_text(text: str) -> bytes:
    """Encode as UTF-8; half a character (a lone surrogate, which JSON can carry) becomes U+FFFD."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Through UTF-16, so that two adjacent halves become the character that they are.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def _read(path: str, wanted_bytes: int) -> tuple[bytes, int]:
    try:
        descriptor, status = open_regular(path)
    except NotRegular as error:
        raise TextFileError(str(error)) from None
    with open(descriptor, "rb", closefd=True) as stream:
        return stream.read(wanted_bytes), status.st_size


def _read_within(path: str, wanted_bytes: int, reach: "Reach") -> tuple[bytes, int]:
    from pinnace_agent.files.opener import FileRefused, read_file

    try:
        data, status = read_file(path, reach, wanted_bytes)
    except FileRefused as error:
        raise TextFileError(error.text) from None
    return data, status.st_size


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").removeprefix("\ufeff")
