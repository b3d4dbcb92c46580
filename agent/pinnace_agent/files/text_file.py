"""Reads text files that anybody may have put where they are: instructions, prompt templates, skills.

A read never waits for anybody: what is no regular file is refused, and of a large file no more is read than its limit.
With a `Reach` only what may be opened is read (`opener`); without one the caller answers for the path. Bytes that are
no UTF-8 are replaced, and a byte order mark is left out. Must not know what the files mean.
"""

import errno
import os
import re
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # loaded where somebody else than the user names a file
    from pinnace_agent.files.opener import Reach

# Some sixty thousand tokens: more than most models can be told, and a hundred times what people write.
MAX_TEXT_BYTES: Final = 256 * 1024
# Of terminals, and what ends a line there: a name may not say what a message looks like.
_CONTROL: Final = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


class TextFileError(Exception):
    """A file that can't be read as it should; the text says why, without its name."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        super().__init__(text)
        self.text = text


class TextFile(NamedTuple):
    """What was read."""

    text: str
    left_out_bytes: int = 0
    """How much of its end was not."""


def is_regular(path: str) -> bool:
    """Tell whether there is a file with contents, or a link to one."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


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


def printable(text: str) -> str:
    """Return what may be shown at a terminal and sent to a model: a name or a message, in one line."""
    return text if text.isprintable() else re.sub(_CONTROL, "\ufffd", text)


def _read(path: str, wanted_bytes: int) -> tuple[bytes, int]:
    # Before it is opened: to open a device may do something. Without waiting: it may have been replaced meanwhile.
    _check(os.stat(path))
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(file, "rb", closefd=True) as stream:
        status = os.fstat(file)
        _check(status)
        return stream.read(wanted_bytes), status.st_size


def _read_within(path: str, wanted_bytes: int, reach: "Reach") -> tuple[bytes, int]:
    from pinnace_agent.files.opener import FileRefused, read_file

    try:
        data, status = read_file(path, reach, wanted_bytes)
    except FileRefused as error:
        raise TextFileError(error.text) from None
    return data, status.st_size


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise TextFileError("is no regular file")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").removeprefix("\ufeff")
