"""The folder that commands of one process see as `/tmp`, and the marks of processes that share a working folder.

One for each process, below one for each user among the temporary files; both for the user alone. A lock shows which
folders are in use: those of processes that were killed are removed by a later start. Blocking.
"""

import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Final

from pinnace_agent.files.protected import is_inside
from pinnace_agent.sandbox.gate import Gates

_REMOVAL_S: Final = 0.3
"""How long the end of a process may take for it; the rest is removed by a later start."""
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateFolder:
    """The private folder of this process."""

    def __init__(self, working_folder: str) -> None:
        """Create it.

        Raises:
            OSError: It can't be made: there is no room, or the temporary files are read-only.
        """
        base = os.path.join(tempfile.gettempdir(), f"pinnace-{os.geteuid()}-sandbox")
        try:
            self._base = _open_own(base)
        except PermissionError:
            # Another user has made one of that name.
            base = tempfile.mkdtemp(prefix=f"pinnace-{os.geteuid()}-sandbox-")
            self._base = _open_own(base)
        self.base = os.path.realpath(base)
        """The folder of all of them."""
        _remove_abandoned(self.base)
        self.path, self._lock = _make_private(self.base)
        """The folder on this machine."""
        self._gates_path, self._gates_lock = _make_private(self.base)
        self.gates = Gates(self._gates_path)
        """Of the programs that are started with this folder; no command sees theirs but its own."""
        self._owner = os.getpid()
        self._users: dict[str, int] = {}
        """By folder that commands can write, the file that all processes have locked whose commands can."""
        self._left: set[str] = set()
        self.uses(working_folder)

    def uses(self, *folders: str) -> None:
        """Note folders that commands of this process can write, until its end; they are resolved.

        Raises:
            OSError: No descriptor is left.
        """
        for each in folders:
            if each in self._users:
                continue
            mark = sha256(os.fsencode(each)).hexdigest()[:16]
            users = os.open(f"folder-{mark}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=self._base)
            fcntl.flock(users, fcntl.LOCK_SH)
            self._users[each] = users

    def leaves(self, folders: Iterable[str]) -> None:
        """Remember empty folders that the sandbox makes in the folders that are used, as mount points."""
        self._left.update(folders)

    def close(self) -> None:
        """Remove it, and the empty mount points where no other process uses the folder. In a child: nothing.

        A mount point that is removed while a command of another process runs would no longer protect that name.
        """
        if os.getpid() != self._owner or self._lock < 0:
            return
        for folder, users in self._users.items():
            with suppress(OSError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Deeper ones, of submodules, may be those of a process that works there: they stay, empty.
                for each in self._left:
                    if os.path.dirname(each) == folder or each.startswith(f"{folder}/.git/"):
                        with suppress(OSError):  # in use by now, or never made
                            os.rmdir(each)
            os.close(users)
        deadline_s = time.monotonic() + _REMOVAL_S
        self.gates.close()
        for path, lock in ((self._gates_path, self._gates_lock), (self.path, self._lock)):
            _remove(path, deadline_s)
            os.close(lock)
        os.close(self._base)
        self._lock = -1


def _make_private(base: str) -> tuple[str, int]:
    """Return a new folder and its lock. Another process may remove one that is not locked yet.

    Raises:
        OSError: It can't be made.
    """
    while True:
        path = tempfile.mkdtemp(prefix="private-", dir=base)
        try:
            lock = os.open(path, _FLAGS)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_SH)
        if os.path.exists(path):
            return path, lock
        os.close(lock)


def _open_own(path: str) -> int:
    """Open a folder that only this user can enter, and create it first if it does not exist.

    Raises:
        PermissionError: It is another user's, or a link.
        OSError: It can't be made.
    """
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EACCES):
            raise PermissionError(f"{path} is no folder of this user") from None
        raise
    status = os.fstat(handle)
    if status.st_uid != os.geteuid():
        os.close(handle)
        raise PermissionError(f"{path} belongs to another user")
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.fchmod(handle, 0o700)
    return handle


def _remove_abandoned(base: str) -> None:
    deadline_s = time.monotonic() + _REMOVAL_S
    with suppress(OSError):
        for entry in os.scandir(base):
            if not entry.name.startswith("private-") or not entry.is_dir(follow_symlinks=False):
                continue
            _unlock(entry.path)
            with suppress(OSError):
                handle = os.open(entry.path, _FLAGS)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(entry.path, deadline_s)
                finally:
                    os.close(handle)


def _remove(path: str, deadline_s: float) -> None:
    """Remove a folder, as far as the time allows; what commands have made unreadable is made readable.

    What can't be removed stays: a later start tries again.
    """
    unlocked: set[str] = set()
    has_unlocked = False

    def unlock(_function: object, failed: str, _error: object) -> None:
        nonlocal has_unlocked
        if time.monotonic() > deadline_s:
            raise TimeoutError
        for each in (os.path.dirname(failed), failed):
            if is_inside(each, path) and each not in unlocked:
                unlocked.add(each)
                has_unlocked = _unlock(each) or has_unlocked

    with suppress(OSError):  # TimeoutError, too
        while os.path.lexists(path):
            has_unlocked = False
            shutil.rmtree(path, onerror=unlock)
            if not has_unlocked or time.monotonic() > deadline_s:
                return


def _unlock(path: str) -> bool:
    """Let the owner enter a folder; return whether it could not be entered before."""
    with suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) & 0o700 != 0o700:
            os.chmod(path, 0o700)
            return True
    return False
