"""Writes a whole file so that readers, and a crash, find the old content or the new one, never half of it.

Blocking: belongs into a thread. No fsync: what the model's tools write is as durable as what an editor's user
saves. Must not know the tools. Rule R-TOL-03.
"""

import errno
import os
import stat
from typing import Final

_NO_ROOM_FOR_TEMP: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG})


def replace_file(path: str, data: bytes) -> None:
    """Make `data` the content of a file, new or existing, by renaming a temporary one onto it.

    The temporary file is made in the same folder. Symbolic links are followed and stay; the mode stays. In
    place, and so not atomically, when a rename would do harm or can't be done: the file has other names (hard
    links) or another owner, is no regular file, or its folder can't be written.

    Raises:
        OSError: Nothing was changed, except that a write in place may have been cut short by a full disk.
    """
    target = os.path.realpath(path)
    try:
        status = os.stat(target)
    except FileNotFoundError:
        status = None
    if status is not None and not os.access(target, os.W_OK):
        # A rename needs no right to the file itself; a file that is read-only is so on purpose.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if status is not None and not _is_replaceable(status):
        _write_in_place(target, data)
        return
    try:
        _write_and_rename(target, data, status)
    except _NoTemporaryFile:
        _write_in_place(target, data)


class _NoTemporaryFile(Exception):
    """The folder takes no further file."""


def _is_replaceable(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == os.geteuid()


def _write_and_rename(target: str, data: bytes, status: os.stat_result | None) -> None:
    temporary = os.path.join(os.path.dirname(target), f".pinnace-{os.urandom(8).hex()}.tmp")
    try:
        # 0666 under the umask is what a new file gets anywhere else; an existing one keeps its mode below.
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in _NO_ROOM_FOR_TEMP:
            raise _NoTemporaryFile from error
        raise
    try:
        try:
            if status is not None:
                _keep_access(file, status)
            _write_all(file, data)
        finally:
            os.close(file)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _keep_access(file: int, status: os.stat_result) -> None:
    if status.st_gid != os.fstat(file).st_gid:
        try:
            os.fchown(file, -1, status.st_gid)
        except PermissionError as error:
            raise _NoTemporaryFile from error
    os.fchmod(file, stat.S_IMODE(status.st_mode))


def _write_in_place(target: str, data: bytes) -> None:
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        _write_all(file, data)
    finally:
        os.close(file)


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def encode_text(text: str) -> bytes:
    """Encode as UTF-8; half a character (a lone surrogate, which JSON can carry) becomes U+FFFD."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Through UTF-16, so that two halves which stand side by side become the character that they are.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")
