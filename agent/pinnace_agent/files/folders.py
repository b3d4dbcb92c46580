"""Makes folders for the user alone, reports modes that let others in, and brings names in folders to the disk.

A new file is lost in a power failure until its name is on the disk too. Blocking.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from pinnace_agent.core.surroundings import system

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
                system().mkdir(folder, FOLDER_MODE)
    except ValueError:  # a NUL character, or one that no file name has
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from None
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def flush_folder(folder: Path | str, *, dir_fd: int | None = None) -> None:
    """Bring the names in a folder to the disk, where the file system can do that and the folder may be read."""
    try:
        descriptor = system().open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    except PermissionError:
        return
    try:
        system().fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FLUSH:
            raise
    finally:
        system().close(descriptor)


def folders_to_flush(folder: Path) -> list[Path]:
    """Return the folders that bring a name in `folder` to the disk, and the names of the folders on its way.

    A process that made a folder may have been killed before it could flush the name, so those above count too, as far
    as they are for the user alone, as `make_folder` makes them, and the first one that is not.
    """
    found = [folder]
    while _is_private(folder) and folder.parent != folder:
        folder = folder.parent
        found.append(folder)
    return found


def _is_private(folder: Path) -> bool:
    try:
        status = os.stat(folder)
    except OSError:
        return False
    return status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == FOLDER_MODE


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
