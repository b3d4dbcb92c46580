"""Opens a path with no link on the way: what a path means when a policy is resolved, and what it means inside.

A path of a policy is resolved once. A command that runs meanwhile can put a link in the place of any folder that it can
write, so whatever is done with the path later is compared with the file or folder that was there, by its identity.
Linux only. Blocking.
"""

import ctypes
import errno
import os
import stat
from functools import cache
from typing import Final, NamedTuple

_OPENAT2: Final = 437
_NO_LINKS: Final = 0x04 | 0x02  # RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS
_ROOT: Final = -100  # AT_FDCWD: an absolute path needs no other
_FLAGS: Final = os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW
# An older kernel, or a container that knows no such call.
_UNKNOWN: Final = frozenset({errno.ENOSYS, errno.EPERM})


class Identity(NamedTuple):
    """What distinguishes a file or folder from every other one that exists."""

    device: int
    inode: int


class OpenedPath(NamedTuple):
    """What is at a path."""

    identity: Identity
    is_null: bool
    """Whether it is `/dev/null`, behind which files are hidden."""
    is_read_only: bool
    """Whether its mount is."""


class LinkOnTheWay(OSError):
    """A path leads through a link, or is one."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW: Final = _How(_FLAGS, 0, _NO_LINKS)


def open_without_links(path: str, root: int | None = None) -> int:
    """Open a path for its identity alone, and return the descriptor, which is the caller's.

    Args:
        path: Absolute.
        root: The folder that `/` is; None: that of this process.

    Raises:
        LinkOnTheWay: There is a link on the way, or at its end.
        OSError: It can't be reached.
    """
    try:
        found = _open(path.strip("/") or ".", _ROOT if root is None else root)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link(path) from None
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from None
    if stat.S_ISLNK(os.fstat(found).st_mode):
        os.close(found)
        raise _link(path)
    return found


def identity_of(path: str) -> Identity:
    """Return what is at a path, to which no link leads.

    Raises:
        LinkOnTheWay: There is a link on the way, or at its end.
        OSError: It can't be reached.
    """
    descriptor = open_without_links(path)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return Identity(status.st_dev, status.st_ino)


def look_at(path: str, root: int | None = None) -> OpenedPath:
    """Return what is at a path, to which no link leads.

    Raises:
        LinkOnTheWay: There is a link on the way, or at its end.
        OSError: It can't be reached.
    """
    descriptor = open_without_links(path, root)
    try:
        status = os.fstat(descriptor)
        flags = os.fstatvfs(descriptor).f_flag
    finally:
        os.close(descriptor)
    is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3)
    return OpenedPath(Identity(status.st_dev, status.st_ino), is_null, bool(flags & os.ST_RDONLY))


def _link(path: str) -> LinkOnTheWay:
    return LinkOnTheWay(errno.ELOOP, f"{path} is a link, or leads through one", path)


def _open(path: str, start: int) -> int:
    name = f"/{path}" if start == _ROOT else path
    if has_openat2():
        found: int = _libc().syscall(_OPENAT2, start, os.fsencode(name), ctypes.byref(_HOW), ctypes.sizeof(_HOW))
        if found >= 0:
            return found
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return _open_by_steps(name, start)


def _open_by_steps(path: str, start: int) -> int:
    """Open each folder on the way by itself: a link can't be opened as a folder."""
    parts = [each for each in path.split("/") if each not in ("", ".")]
    current = os.open("/", _FLAGS) if start == _ROOT else os.dup(start)
    for place, part in enumerate(parts):
        try:
            following = os.open(part, _FLAGS, dir_fd=current)
        finally:
            os.close(current)
        current = following
        if place < len(parts) - 1 and stat.S_ISLNK(os.fstat(current).st_mode):
            os.close(current)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return current


@cache
def has_openat2() -> bool:
    """Return whether the kernel can follow a whole path without links; else each folder is opened by itself."""
    found: int = _libc().syscall(_OPENAT2, _ROOT, b"/", ctypes.byref(_HOW), ctypes.sizeof(_HOW))
    if found < 0:
        return ctypes.get_errno() not in _UNKNOWN
    os.close(found)
    return True


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
