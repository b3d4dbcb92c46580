"""Opens regular files for reading: never waits for a writer, and never opens a device or a pipe.

Imports nothing else. Which files may be opened is decided by the caller (`opener`).
"""

import os
import stat
from typing import Final

READING: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotRegular(Exception):
    """A file without content of its own: a folder, pipe, socket or device."""

    def __init__(self, status: os.stat_result) -> None:
        """Keep what kind of file it is."""
        super().__init__("is no regular file")
        self.is_folder = stat.S_ISDIR(status.st_mode)


def is_regular(path: str) -> bool:
    """Return whether there is a regular file, or a link to one."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def open_regular(name: str, *, folder: int | None = None) -> tuple[int, os.stat_result]:
    """Open a regular file for reading and return its descriptor and status.

    Args:
        name: Its path; links are followed.
        folder: An open folder in which `name` is a name, and no link.

    Raises:
        NotRegular: It is something else.
        OSError: It can't be opened.
        ValueError: It is no path.
    """
    follows_links = folder is None
    # Checked before it is opened, since opening a device may do something, and once more, since it may be another file.
    _check(os.stat(name or ".", dir_fd=folder, follow_symlinks=follows_links))
    descriptor = os.open(name, READING if follows_links else READING | os.O_NOFOLLOW, dir_fd=folder)
    status = os.fstat(descriptor)
    try:
        _check(status)
    except NotRegular:
        os.close(descriptor)
        raise
    return descriptor, status


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(status)
