"""Makes the files that keep long output, where only the user can read them: it may hold secrets.

They go to `pinnace-<uid>` among the system's temporary files, one folder for all processes of the user, since nobody
deletes them: a folder a process would be left behind by each, and where they are would have to be looked for. Blocking,
but for microseconds. Must not know what is written. Rule R-TOL-05.
"""

import os
import stat
import tempfile
from contextlib import suppress
from typing import Final

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_output_file(folder: str | None = None) -> tuple[str, int]:
    """Make `pi-bash-<16 hex>.log` with mode 0600, which was not there before; return its path and descriptor.

    In `folder`, or else in the user's own. Somebody else may have made one of that name, or a link to elsewhere, in a
    folder that all may write to: such a one is not used, but one with a name that nobody could know.

    Raises:
        OSError: It can't be made.
    """
    if folder is not None:
        return _make_file(folder, None)
    # DEVIATION D-30: in a folder of one's own.
    shared = tempfile.gettempdir()
    private = os.path.join(shared, f"pinnace-{os.geteuid()}")
    try:
        handle = _open_private(private)
    except OSError:
        private = tempfile.mkdtemp(prefix=f"pinnace-{os.geteuid()}-", dir=shared)
        handle = _open_private(private)
    try:
        return _make_file(private, handle)
    finally:
        os.close(handle)


def _open_private(path: str) -> int:
    """Open a folder that is the user's and that nobody else may look into, made if it is not there.

    Raises:
        PermissionError: It is another user's.
        OSError: It is a link, or no folder.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    handle = os.open(path, _FOLDER_FLAGS)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(handle, 0o700)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _make_file(folder: str, handle: int | None) -> tuple[str, int]:
    name = f"pi-bash-{os.urandom(8).hex()}.log"
    # Through the folder that was looked at, whatever its path leads to now. O_EXCL: never through a link.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    path = os.path.join(folder, name)
    return path, os.open(path if handle is None else name, flags, 0o600, dir_fd=handle)
