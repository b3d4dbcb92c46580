"""Writes whole files: a reader, and a crash, find the old content or the new content, never half of it.

A temporary file beside the target takes the content, and then the name of the target in one step. `create_file` and
`replace_file` bring it to the disk first and write for the user alone. `overwrite_file` changes nothing of a file but
its content, as an editor does: it keeps mode, owner, group, extended attributes and hard links, writes in place behind
a copy of the old content where a rename would make another file of it, and does not wait for the disk.

Blocking: call it from a thread. Has no access to what is written or why. Rule R-TOL-03.
"""

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, Self

from pinnace_agent.core.surroundings import system
from pinnace_agent.files.folders import flush_folder
from pinnace_agent.files.opener import FilePlace, place_of

PRIVATE_MODE: Final = 0o600
# Leaves room for the rest of a temporary file's name where a name has 143 bytes at most (encrypted folders).
_STEM_BYTES: Final = 100
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

# A folder that takes no further file, or none under such a name.
_NO_TEMPORARY_FILE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG})
# Nothing can be renamed onto the file: it is a mount point, belongs to another user in a folder like /tmp, or its
# folder is an overlay of several.
_NOT_RENAMED_ONTO: Final = frozenset({errno.EBUSY, errno.EACCES, errno.EPERM, errno.EXDEV})
# Attributes that describe the content: writing in place would lose or renew them as well.
_OF_CONTENT: Final = frozenset({"security.capability", "security.ima", "security.evm"})
# One read and write of a copy: large enough that the calls cost nothing, small enough for any memory.
_COPIED_BYTES: Final = 1024 * 1024


def create_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file that does not exist yet, with mode 0600; it is on the disk when this returns.

    Raises:
        FileExistsError: It exists; nothing was changed.
        OSError: It could not be written. No temporary file stays.
    """
    with _place_of(path) as target, _TemporaryFile(target, PRIVATE_MODE) as temporary:
        temporary.write(chunks)
        temporary.flush()
        temporary.link()
        flush_folder(".", dir_fd=target.folder)


def replace_file(
    path: Path,
    chunks: Iterable[bytes],
    *,
    mode: int | None = None,
    owner: os.stat_result | None = None,
    before_rename: Callable[[], object] = lambda: None,
    folder_flush: Literal["required", "best effort"] = "required",
) -> None:
    """Write a file in the place of another, if there is one; it is on the disk when this returns.

    A process that has the former file open keeps it.

    Args:
        path: A link there is replaced itself.
        chunks: The content.
        mode: None: 0600, less what the umask takes.
        owner: Whose it is to be, if this process may give files away; None: this user's.
        before_rename: Called at the last moment; what it raises leaves everything as it was.
        folder_flush: Whether it is an error that the new name could not be brought to the disk.

    Raises:
        OSError: It could not be written, or its name not be brought to the disk. No temporary file stays.
    """
    with _place_of(path) as target, _TemporaryFile(target, PRIVATE_MODE) as temporary:
        if owner is not None and (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(OSError):  # only root may give files away
                os.fchown(temporary.descriptor, owner.st_uid, owner.st_gid)
        if mode is not None:
            os.fchmod(temporary.descriptor, mode)
        temporary.write(chunks)
        temporary.flush()
        before_rename()
        temporary.rename()
        try:
            flush_folder(".", dir_fd=target.folder)
        except OSError:
            if folder_flush == "required":
                raise


def overwrite_file(path: str, data: bytes, *, follows_links: bool = True) -> None:
    """Make `data` the content of a file, new or existing, and keep everything else about it.

    Symbolic links are followed and stay. Mode, owner, group and extended attributes stay. By rename where possible;
    then every reader finds the old content or the new one. In place if the file has other names (hard links), if the
    file or its folder does not let another file take its place, or if the new file can't be given the owner, mode and
    attributes of the old one: then a reader at the same moment may see half of it, but the old content is kept beside
    it, for the user alone, until all is written. What is no regular file is written to; a pipe without a reader is an
    error.

    Args:
        path: Absolute.
        data: The whole content.
        follows_links: If not, a link anywhere in the path is an error (ELOOP, ENOTDIR), and nothing is written.

    Raises:
        OSError: The file is as it was. If it is not, a note added to the error names the copy of its content.
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
                raise _NotReplaceable
            _write_and_rename(place, data, status)
        except _NotReplaceable:
            _write_in_place(place, target, data)


@contextmanager
def _place_of(path: Path) -> Generator[FilePlace, None, None]:
    """Open the folder of a file, through links too, for as long as the block lasts."""
    folder = os.open(path.parent, _FOLDER)
    try:
        yield FilePlace(folder, path.name)
    finally:
        os.close(folder)


class _TemporaryFile:
    """A new file beside a target. It takes the target's name when it is whole, else it is removed."""

    def __init__(self, target: FilePlace, mode: int) -> None:
        """Make it, under a name that begins with that of the target.

        Args:
            target: What it is to become.
            mode: Less what the umask takes.
        """
        stem = os.fsencode(target.name)[:_STEM_BYTES].decode("utf-8", "ignore")
        self._target = target
        self._place = target._replace(name=f".{stem}.{system().urandom(8).hex()}.tmp")
        self._system = system()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = self._system.open(self._place.name, flags, mode, dir_fd=self._place.folder)
        self._is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._close()
        with suppress(OSError):  # not there after a rename; after `link` it is a second name and nothing else
            self._system.unlink(self._place.name, dir_fd=self._place.folder)

    def write(self, chunks: Iterable[bytes]) -> None:
        """Write the content."""
        waiting = bytearray()
        for chunk in chunks:
            waiting += chunk
            if len(waiting) >= _COPIED_BYTES:
                self._write(waiting)
                waiting = bytearray()
        self._write(waiting)

    def _write(self, data: bytearray) -> None:
        left = memoryview(data)
        while left:
            left = left[self._system.write(self.descriptor, left) :]

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._system.close(self.descriptor)

    def flush(self) -> None:
        """Bring the content to the disk."""
        self._system.fsync(self.descriptor)

    def rename(self) -> None:
        """Take the target's name, and its place if there is one."""
        self._close()  # network file systems report failed writes here
        self._system.rename(
            self._place.name, self._target.name, src_dir_fd=self._place.folder, dst_dir_fd=self._target.folder
        )

    def link(self) -> None:
        """Take the target's name, which nothing may have."""
        self._close()
        self._system.link(
            self._place.name,
            self._target.name,
            src_dir_fd=self._place.folder,
            dst_dir_fd=self._target.folder,
            follow_symlinks=False,
        )


class _NotReplaceable(Exception):
    """A file that is renamed onto this one would not be the same file, or can't be made."""


def _write_and_rename(target: FilePlace, data: bytes, status: os.stat_result | None) -> None:
    try:
        # 0666 under the umask is what a new file gets anywhere else. What is to replace an existing one is private
        # until it has its mode.
        temporary = _TemporaryFile(target, 0o666 if status is None else PRIVATE_MODE)
    except OSError as error:
        if status is not None and error.errno in _NO_TEMPORARY_FILE:
            raise _NotReplaceable from error
        raise
    with temporary:
        temporary.write([data])
        if status is not None:
            _keep_identity(temporary.descriptor, target, status)
        try:
            temporary.rename()
        except OSError as error:
            if status is not None and error.errno in _NOT_RENAMED_ONTO:
                raise _NotReplaceable from error
            raise


def _keep_identity(file: int, target: FilePlace, status: os.stat_result) -> None:
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
        raise _NotReplaceable from error


def _keep_attributes(file: int, target: FilePlace) -> None:
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


def _attributes(target: FilePlace) -> dict[str, bytes]:
    # Writing is allowed, reading may not be.
    rights = os.O_RDONLY if target.is_allowed(os.R_OK) else os.O_WRONLY
    file = target.open(rights | os.O_NONBLOCK)
    try:
        return {name: os.getxattr(file, name) for name in os.listxattr(file)}
    finally:
        os.close(file)


def _write_in_place(place: FilePlace, target: str, data: bytes) -> None:
    # Not truncated at first: the room that the old content has is what it is restored to, also on a full disk.
    file = place.open(os.O_RDWR)
    try:
        backup = _Backup(target, file, place.folder)
        try:
            os.lseek(file, 0, os.SEEK_SET)
            _write_all(file, data)
            os.ftruncate(file, len(data))
        except BaseException as error:
            backup.restore(file, error)
            raise
        backup.remove()
    finally:
        os.close(file)


class _Backup:
    """A copy of a file that is written in place, for the user alone. Exactly one of `remove` and `restore` ends it.

    It is beside the file where its folder takes one, else in a private folder among the system's temporary files;
    a crash leaves it there.
    """

    def __init__(self, path: str, file: int, folder: int) -> None:
        """Copy a file; when this returns the copy is whole.

        Args:
            path: The file, for the name of the copy and for the error text.
            file: The same, open for reading and writing.
            folder: Its folder, open.

        Raises:
            OSError: There is no room for a copy, nowhere. Nothing is left behind.
        """
        self._path = path
        self._private: str | None = None
        """The private folder, if there is one."""
        self._name = f".{os.path.basename(path)}.{os.urandom(4).hex()}.backup"
        self._folder = os.dup(folder)
        """Where the copy is, open."""
        try:
            self._copy_from(file)
        except OSError:
            # No further file there, no such long name, or no room.
            os.close(self._folder)
            self._private = tempfile.mkdtemp(prefix="pinnace-backup-")
            self._name = "content"
            self._folder = os.open(self._private, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._copy_from(file)
            except BaseException:
                os.close(self._folder)
                os.rmdir(self._private)
                raise

    def remove(self) -> None:
        """Remove the copy: the new content is written."""
        # What can't be removed takes room, but does no harm to what was written.
        with suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder)
            if self._private is not None:
                os.rmdir(self._private)
        os.close(self._folder)

    def restore(self, file: int, error: BaseException) -> None:
        """Write the old content back after `error`. If that fails too a note added to it names the copy."""
        try:
            copy = os.open(self._name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
            try:
                os.ftruncate(file, _copy(copy, file))
            finally:
                os.close(copy)
        except OSError as second:
            kept_at = os.path.join(self._private or os.path.dirname(self._path), self._name)
            error.add_note(f"The content of {self._path} is damaged ({second}). What it held before is in {kept_at}")
            os.close(self._folder)
        else:
            self.remove()

    def _copy_from(self, file: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        made = os.open(self._name, flags, PRIVATE_MODE, dir_fd=self._folder)
        try:
            _copy(file, made)
        except BaseException:
            os.unlink(self._name, dir_fd=self._folder)
            raise
        finally:
            os.close(made)


def _copy(source: int, target: int) -> int:
    """Copy a file over another one from its beginning; return its size."""
    size = os.lseek(source, 0, os.SEEK_SET)
    os.lseek(target, 0, os.SEEK_SET)
    while piece := os.read(source, _COPIED_BYTES):
        _write_all(target, piece)
        size += len(piece)
    return size


def _write_to_device(place: FilePlace, data: bytes) -> None:
    try:
        # Without waiting: opening a pipe without a reader, or filling one, would last for ever.
        file = place.open(os.O_WRONLY | os.O_NONBLOCK)
        try:
            _write_all(file, data)
        finally:
            os.close(file)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EAGAIN):
            error.add_note("It is a pipe without a reader, or a socket")
        raise


def _write_all(file: int, data: bytes) -> None:
    """Write all of the data, however little the system takes at a time."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
