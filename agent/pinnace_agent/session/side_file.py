"""The side file of a session, `<session>.jsonl.damaged`: bytes in it that can't be read as entries, kept for people.

The session file keeps them too; the copy shows at once what is wrong, and stays when the session goes. Must not know
what a session holds. Rule R-SES-07.
"""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_MODE: Final = 0o600
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def keep_damaged(path: Path, lines: Sequence[bytes]) -> Path | None:
    """Copy damaged lines of a session file aside; they are on the disk when this returns.

    Lines that are there already are not written again, so a session can be opened any number of times.

    Args:
        path: The session file.
        lines: Without line feeds.

    Returns:
        The side file; None if there is nothing to keep.

    Raises:
        OSError: Not all could be kept; a later call goes on.
    """
    if not lines:
        return None
    side = path.with_name(f"{path.name}.damaged")
    descriptor, is_new = _open(side)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(side))
        if status.st_nlink > 1:
            raise OSError(errno.EMLINK, "has another name (a hard link), so nothing is written to it", str(side))
        present = _content(descriptor)
        kept = set(present.split(b"\n"))
        # A last line that an earlier call could not finish is no line: what it belongs to is written whole.
        torn = present.rpartition(b"\n")[2]
        kept.discard(torn)
        missing = [line for line in dict.fromkeys(lines) if line not in kept]
        if missing:
            _write_all(descriptor, (b"\n" if torn else b"") + b"\n".join(missing) + b"\n")
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        sync_folder(side.parent)
    return side


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the file system can do that and the folder may be read."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}:
            raise
    finally:
        os.close(descriptor)


def _open(side: Path) -> tuple[int, bool]:
    try:
        descriptor = os.open(side, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError:
        return os.open(side, _FLAGS), False
    with suppress(OSError):  # a file system without modes
        os.fchmod(descriptor, _MODE)  # the umask may have taken rights from us
    return descriptor, True


def _content(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
