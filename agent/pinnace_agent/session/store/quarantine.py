"""The quarantine file of a session, `<session>.jsonl.damaged`: its lines that can't be read as entries, for people.

The session file keeps them too; the copy shows at once what is damaged, and stays when the file alone is removed.
Rule R-SES-07.
"""

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pinnace_agent.core.surroundings import system
from pinnace_agent.files.folders import flush_folder

_MODE: Final = 0o600
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def quarantine_path(path: Path) -> Path:
    """Return where the damaged lines of a session file are copied to."""
    return path.with_name(f"{path.name}.damaged")


def quarantine(path: Path, lines: Sequence[bytes]) -> Path | None:
    """Copy damaged lines of a session file to its quarantine file; they are on the disk when this returns.

    Lines that are there already are not written again, so a session can be opened any number of times.

    Args:
        path: The session file.
        lines: Without line feeds.

    Returns:
        The quarantine file; None if no line is damaged.

    Raises:
        OSError: Not all could be copied; a later call continues.
    """
    if not lines:
        return None
    copy = quarantine_path(path)
    descriptor, is_new = _open(copy)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(copy))
        if status.st_nlink > 1:
            raise OSError(errno.EMLINK, "has another name (a hard link), so nothing is written to it", str(copy))
        present = _content(descriptor)
        kept = set(present.split(b"\n"))
        # A last line that an earlier call could not finish is no line: what it belongs to is written whole.
        torn = present.rpartition(b"\n")[2]
        kept.discard(torn)
        missing = [line for line in dict.fromkeys(lines) if line not in kept]
        if missing:
            _write_all(descriptor, (b"\n" if torn else b"") + b"\n".join(missing) + b"\n")
            system().fsync(descriptor)
    finally:
        system().close(descriptor)
    if is_new:
        flush_folder(copy.parent)
    return copy


def _open(copy: Path) -> tuple[int, bool]:
    try:
        descriptor = system().open(copy, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError:
        return system().open(copy, _FLAGS), False
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
        left = left[system().write(descriptor, left) :]
