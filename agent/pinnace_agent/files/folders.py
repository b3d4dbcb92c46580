"""Makes folders for the user alone, reports modes that let others in, and brings names in folders to the disk.

A new file is lost in a power failure until its name is on the disk too. Blocking.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
_OTHERS_MAY_READ: Final = stat.S_IRGRP | stat.S_IROTH
_OTHERS_MAY_ENTER: Final = stat.S_IXGRP | stat.S_IXOTH
# File systems that can't flush a folder.
_NO_FLUSH: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})


def make_folder(path: Path) -> None:
    """Create a folder and those above it that are missing, for the user alone; what exists keeps its mode.

    Raises:
        OSError: It can't be created, or is no folder.
    """
    missing: list[Path] = []
    existing = path
    while not os.path.lexists(existing):
        missing.append(existing)
        existing = existing.parent
    try:
        for folder in reversed(missing):
            # Another process may make it at the same moment; what is no folder fails in the next step.
            with suppress(FileExistsError):
                folder.mkdir(FOLDER_MODE)
    except ValueError:  # a NUL character, or one that no file name has
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from None
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def flush_folder(folder: Path | str, *, dir_fd: int | None = None) -> None:
    """Bring the names in a folder to the disk, where the file system can do that and the folder may be read."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise
    finally:
        os.close(descriptor)


def loose_modes(path: Path) -> str | None:
    """Return a sentence for people if others may read what lies in a folder, or a file in a folder that they may enter.

    None too if it does not exist, or its mode can't be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            is_loose, wanted = mode & _OTHERS_MAY_READ, "700"
        else:
            is_loose, wanted = mode & _OTHERS_MAY_READ and path.parent.stat().st_mode & _OTHERS_MAY_ENTER, "600"
    except (OSError, ValueError):
        return None
    if not is_loose:
        return None
    return f"other users may read {path} (mode {stat.S_IMODE(mode):03o}); `chmod {wanted}` keeps it private"
