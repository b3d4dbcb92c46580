"""Writes a whole file so that readers, and a crash, find the old content or the new one, never half of it.

Decides how: by renaming a temporary file onto it; where that would make another file of it (its other names, its owner)
or can't be done, in place, and then only while a copy of the old content is kept. Blocking: belongs into a thread. No
fsync: what the model's tools write is as durable as what an editor's user saves. Must not know the tools. Rule
R-TOL-03.
"""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from pinnace_agent.files.opener import open_folder
from pinnace_agent.tools.file_backup import Backup, write_all

# A folder that takes no further file, or none under such a name.
_NO_TEMPORARY_FILE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG})

# Nothing can be renamed onto the file: it is mounted, belongs to somebody else in a folder like /tmp, or its folder
# is pieced together from several.
_NOT_RENAMED_ONTO: Final = frozenset({errno.EBUSY, errno.EACCES, errno.EPERM, errno.EXDEV})

# They speak of the content, and writing in place would lose or renew them as well.
_OF_CONTENT: Final = frozenset({"security.capability", "security.ima", "security.evm"})


class Place(NamedTuple):
    """Where a file is: a name in a folder that is open, so that nothing put in the place of the folder counts."""

    folder: int
    """A descriptor, for `dir_fd`."""
    name: str

    def status(self) -> os.stat_result:
        """Return the status of what is there.

        Raises:
            OSError: Nothing is, or a link (ELOOP).
        """
        status = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.name)
        return status

    def open(self, flags: int, mode: int = 0o600) -> int:
        """Open what is there, which must be no link."""
        return os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.folder)

    def is_allowed(self, rights: int) -> bool:
        """Tell whether this user has these rights (`os.R_OK`, `os.W_OK`) to what is there."""
        return os.access(self.name, rights, dir_fd=self.folder)


@contextmanager
def place_of(real: str) -> Generator[Place, None, None]:
    """Open the folder of a file, from the root down, for as long as the block lasts.

    Args:
        real: The file's real path: absolute, and none of its components is a link.

    Raises:
        OSError: The folder is not there or can't be reached, or there is a link on the way.
    """
    folder = open_folder(os.path.dirname(real))
    try:
        yield Place(folder, os.path.basename(real) or ".")
    finally:
        os.close(folder)


def replace_file(path: str, data: bytes, *, follows_links: bool = True) -> None:
    """Make `data` the content of a file, new or existing.

    Symbolic links are followed and stay. Mode, owner, group and extended attributes stay. By rename where that can be;
    then every reader finds the old content or the new one. In place if the file has other names (hard links), if it or
    its folder does not let another file take its place, or if what is said of the file could not be said of that one:
    then a reader at the same moment may see half of it, but the old content is kept beside it, for the user alone,
    until all is written. What is no regular file is written to; a pipe that nobody reads is an error.

    Args:
        path: Absolute.
        data: The whole content.
        follows_links: If not, a link anywhere in the path is an error (ELOOP, ENOTDIR), and nothing is written.

    Raises:
        OSError: The file is as it was. If it is not, a note added to the error says so, and where its content is kept.
    """
    target = os.path.realpath(path) if follows_links else path
    with place_of(target) as place:
        try:
            status = place.status()
        except FileNotFoundError:
            _write_and_rename(place, data, None)
            return
        if not place.is_allowed(os.W_OK):
            # A rename needs no right to the file itself; a file that is read-only is so on purpose.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if not stat.S_ISREG(status.st_mode):
            _write_to_device(place, data)
            return
        try:
            if status.st_nlink > 1:
                raise _OtherFile
            _write_and_rename(place, data, status)
        except _OtherFile:
            _write_in_place(place, target, data)


class _OtherFile(Exception):
    """A file that is renamed onto this one would not be the same file, or can't be made."""


def _write_and_rename(target: Place, data: bytes, status: os.stat_result | None) -> None:
    temporary = target._replace(name=f".pinnace-{os.urandom(8).hex()}.tmp")
    try:
        # 0666 under the umask is what a new file gets anywhere else. What is to replace an existing one is nobody's
        # to read until it has its mode.
        file = temporary.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if status is None else 0o600)
    except OSError as error:
        if status is not None and error.errno in _NO_TEMPORARY_FILE:
            raise _OtherFile from error
        raise
    try:
        try:
            write_all(file, data)
            if status is not None:
                _keep_identity(file, target, status)
        finally:
            os.close(file)
        _rename(temporary, target, status)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary.name, dir_fd=temporary.folder)
        raise


def _rename(temporary: Place, target: Place, status: os.stat_result | None) -> None:
    try:
        os.replace(temporary.name, target.name, src_dir_fd=temporary.folder, dst_dir_fd=target.folder)
    except OSError as error:
        if status is not None and error.errno in _NOT_RENAMED_ONTO:
            raise _OtherFile from error
        raise


def _keep_identity(file: int, target: Place, status: os.stat_result) -> None:
    """Give a new file the owner, attributes and mode of the one that it is to replace."""
    try:
        made = os.fstat(file)
        if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(file, status.st_uid, status.st_gid)
        if hasattr(os, "listxattr"):
            _keep_attributes(file, target)
        os.fchmod(file, stat.S_IMODE(status.st_mode))
    except OSError as error:
        # Only root can give files away; some attributes can't be set by anybody.
        raise _OtherFile from error


def _keep_attributes(file: int, target: Place) -> None:
    try:
        wanted = _attributes(target)
        found = {name: os.getxattr(file, name) for name in os.listxattr(file)}
    except OSError as error:
        if error.errno == errno.ENOTSUP:  # a file system without any
            return
        raise
    for name in found.keys() - wanted.keys():
        os.removexattr(file, name)  # e.g. rights that the folder gives to new files
    for name, value in wanted.items():
        if found.get(name) != value and name not in _OF_CONTENT:
            os.setxattr(file, name, value)


def _attributes(target: Place) -> dict[str, bytes]:
    # Writing is allowed, reading may not be.
    rights = os.O_RDONLY if target.is_allowed(os.R_OK) else os.O_WRONLY
    file = target.open(rights | os.O_NONBLOCK)
    try:
        return {name: os.getxattr(file, name) for name in os.listxattr(file)}
    finally:
        os.close(file)


def _write_in_place(place: Place, target: str, data: bytes) -> None:
    # Not truncated at first: the room that the old content has is what it is restored to, also on a full disk.
    file = place.open(os.O_RDWR)
    try:
        backup = Backup(target, file, place.folder)
        try:
            _overwrite(file, data)
        except BaseException as error:
            backup.restore(file, error)
            raise
        backup.remove()
    finally:
        os.close(file)


def _overwrite(file: int, data: bytes) -> None:
    os.lseek(file, 0, os.SEEK_SET)
    write_all(file, data)
    os.ftruncate(file, len(data))


def _write_to_device(place: Place, data: bytes) -> None:
    try:
        # Without waiting: opening a pipe that nobody reads, or filling one, would last for ever.
        file = place.open(os.O_WRONLY | os.O_NONBLOCK)
        try:
            write_all(file, data)
        finally:
            os.close(file)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EAGAIN):
            error.add_note("It is a pipe that nobody reads, or a socket")
        raise


def encode_text(text: str) -> bytes:
    """Encode as UTF-8; half a character (a lone surrogate, which JSON can carry) becomes U+FFFD."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Through UTF-16, so that two halves which stand side by side become the character that they are.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")
