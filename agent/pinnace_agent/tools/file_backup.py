"""Keeps the content of a file that is about to be overwritten, for the user alone, until it is safe.

A copy stands beside the file where its folder takes one, else in a private folder among the system's temporary files;
a crash leaves it there. Blocking: belongs into a thread. Must not know what is written. Rule R-TOL-03.
"""

import os
import tempfile
from contextlib import suppress
from typing import Final

_COPIED_BYTES: Final = 1024 * 1024
"""One read and write of a copy: large enough that the calls cost nothing, small enough for any memory."""


class Backup:
    """The copy of one file. Exactly one of `remove` and `restore` ends it."""

    def __init__(self, path: str, file: int, beside: int) -> None:
        """Copy a file; when this returns the copy is whole.

        Args:
            path: The file, for the name of the copy and what is told of it.
            file: The same, open for reading and writing.
            beside: Its folder, open.

        Raises:
            OSError: There is no room for a copy, nowhere. Nothing is left behind.
        """
        self._path = path
        self._private: str | None = None
        """The private folder, if there is one."""
        self._name = f".{os.path.basename(path)}.{os.urandom(4).hex()}.backup"
        self._folder = os.dup(beside)
        """Where the copy is, open."""
        try:
            self._copy_of(file)
        except OSError:
            # No further file there, no such long name, or no room.
            os.close(self._folder)
            self._private = tempfile.mkdtemp(prefix="pinnace-backup-")
            self._name = "content"
            self._folder = os.open(self._private, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._copy_of(file)
            except BaseException:
                os.close(self._folder)
                os.rmdir(self._private)
                raise

    @property
    def _path_of_copy(self) -> str:
        return os.path.join(self._private or os.path.dirname(self._path), self._name)

    def remove(self) -> None:
        """Remove the copy: it is not needed any more."""
        # What can't be removed takes room, but does no harm to what was written.
        with suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder)
            if self._private is not None:
                os.rmdir(self._private)
        os.close(self._folder)

    def restore(self, file: int, error: BaseException) -> None:
        """Write the old content back after `error`. If that fails too a note added to it says where the copy is."""
        try:
            copy = os.open(self._name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
            try:
                os.ftruncate(file, _copy(copy, file))
            finally:
                os.close(copy)
        except OSError as second:
            error.add_note(
                f"The content of {self._path} is damaged ({second}). What it held before is in {self._path_of_copy}"
            )
            os.close(self._folder)
        else:
            self.remove()

    def _copy_of(self, file: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        made = os.open(self._name, flags, 0o600, dir_fd=self._folder)
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
        write_all(target, piece)
        size += len(piece)
    return size


def write_all(file: int, data: bytes) -> None:
    """Write all of the data, however little the system takes at a time."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
