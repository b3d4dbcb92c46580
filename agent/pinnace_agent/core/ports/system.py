"""The operating system, as what an agent keeps sees it: the calls that change session files, and what is random.

The module `os` is one. Another one may stand in its place for an agent in a program (`Surroundings.system`), so that a
disk can fail, be slow or forget what was not flushed. What only reads files is not in it, nor are locks, nor what a
lease says to people. Descriptors are those of the process: `os.fstat` and `os.pread` work with them.
"""

import os
from typing import Protocol

Data = bytes | bytearray | memoryview
Place = str | os.PathLike[str]


class System(Protocol):
    """The functions of `os` by the same names, with the same errors; each may be called in any thread."""

    def open(self, path: Place, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Open a file or a folder, or make a file."""
        ...

    def close(self, fd: int, /) -> None:
        """Close a descriptor that `open` has returned."""
        ...

    def write(self, fd: int, data: Data, /) -> int:
        """Write at the descriptor's position, or at the end of a file opened so; return how much was written."""
        ...

    def pwrite(self, fd: int, data: Data, offset: int, /) -> int:
        """Write at a place; return how much was written."""
        ...

    def ftruncate(self, fd: int, length: int, /) -> None:
        """Cut a file."""
        ...

    def fsync(self, fd: int) -> None:
        """Bring the content of a file, or the names in a folder, to the disk."""
        ...

    def fdatasync(self, fd: int) -> None:
        """Bring the content of a file to the disk."""
        ...

    def rename(self, src: Place, dst: Place, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        """Give a file another name, in the place of what has it."""
        ...

    def link(
        self,
        src: Place,
        dst: Place,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """Give a file a second name, which nothing may have."""
        ...

    def unlink(self, path: Place, *, dir_fd: int | None = None) -> None:
        """Take a name away."""
        ...

    def mkdir(self, path: Place, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """Make a folder."""
        ...

    def rmdir(self, path: Place, *, dir_fd: int | None = None) -> None:
        """Remove a folder, which must be empty."""
        ...

    def getpid(self) -> int:
        """Return the number of the process, for the client."""
        ...

    def urandom(self, size: int, /) -> bytes:
        """Return random bytes, for identities and names of files."""
        ...
