"""A file that several programs may append to: an open descriptor, and what this process knows of the file's end.

Never writes anywhere but at the end, and takes nothing away but the beginning of a line of its own that was cut, while
that is the end. Each write is preceded by one check of the path, so that
changes by other programs are detected: lines that they appended, a deleted file, another one in its place. What is read
here is passed on as bytes. Rules R-SES-06, R-SES-07.
"""

import errno
import fcntl
import os
import stat
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.core.surroundings import system
from pinnace_agent.session.store.durability import Descriptor
from pinnace_spec.rules.limits import MAX_SESSION_BYTES

FILE_MODE: Final = 0o600
_APPENDING: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATING: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Enough of the last line to distinguish a rewritten file from one that only grew: lines carry random ids.
_ENDING_BYTES: Final = 256
# What is not yet known to be on the disk is kept, since a kernel that could not write it may drop it. A turn's entries
# are smaller, and without a caller that waits for the disk the memory for this must be bounded.
_MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
_COPY_BYTES: Final = 1024 * 1024


class FileReplaced(Exception):
    """What is at the path is not the file that was opened, or has lost what was in it. Nothing was written."""


class AppendResult(NamedTuple):
    """What a write did."""

    size: int
    """Bytes of ours in the file, from the first on."""
    between: bytes
    """What another program appended after the check and before our bytes; normally nothing."""


class TooLarge(Exception):
    """A file is larger than a session may be. `text` gives the sizes, without the name of the file."""

    def __init__(self, size: int) -> None:
        """Word it for a file of so many bytes."""
        text = f"it has {size:,} bytes, and a session may have {MAX_SESSION_BYTES:,}"
        super().__init__(text)
        self.text = text


def read_whole(path: Path) -> bytes:
    """Return the content of a file; the memory that it takes is that of the content.

    Raises:
        TooLarge: It is larger than a session may be, or becomes so while it is read.
        OSError: It can't be read.
    """
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_SESSION_BYTES:
            raise TooLarge(size)
        # One piece, unless the file grows meanwhile.
        pieces = [file.read(size)]
        total = len(pieces[0])
        while piece := file.read(min(_COPY_BYTES, MAX_SESSION_BYTES + 1 - total)):
            pieces.append(piece)
            total += len(piece)
            if total > MAX_SESSION_BYTES:
                raise TooLarge(total)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class AppendFile:
    """An open file. `size` is the known part of it; `is_torn` means that its last byte is no line feed."""

    def __init__(self, path: Path, number: int, *, size: int, is_torn: bool) -> None:
        """Take over a descriptor for appending.

        Args:
            path: Where it was opened.
            number: The descriptor.
            size: Bytes of it that the caller knows.
            is_torn: Whether these end without a line feed.

        Raises:
            OSError: It can't be read.
            FileReplaced: It does not hold the bytes that the caller knows.
        """
        self.path: Final = path
        self._system = system()
        self.descriptor = Descriptor(number)
        self.size = size
        self.is_torn = is_torn
        self._open_line = b""  # of another program: begun and not ended
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0
        status = os.fstat(number)
        self._identity = status.st_dev, status.st_ino
        # Unknown, so that the first check compares contents, if something was written since the caller has read.
        self._changed_ns = status.st_mtime_ns if status.st_size == size else -1
        self._ending = self._read(max(0, size - _ENDING_BYTES), min(size, _ENDING_BYTES))
        if size and is_torn != (self._ending[-1:] != b"\n"):
            raise FileReplaced("another program has changed it while it was opened")

    def check_path(self) -> os.stat_result:
        """Check that the path leads to this file.

        Raises:
            FileNotFoundError, NotADirectoryError: Nothing is there.
            FileReplaced: Something else is there, a link for example.
        """
        status = os.stat(self.path, follow_symlinks=False)
        if (status.st_dev, status.st_ino) != self._identity:
            raise FileReplaced("another file is in its place")
        return status

    def check_for_changes(self) -> bytes:
        """Detect what other programs did since the last check or write; return what they appended.

        Raises:
            FileNotFoundError, NotADirectoryError: The path leads nowhere.
            FileReplaced: What was known of the file is no longer there.
        """
        status = self.check_path()
        if status.st_size == self.size and status.st_mtime_ns == self._changed_ns:
            return b""
        if self._read(self.size - len(self._ending), len(self._ending)) != self._ending:
            raise FileReplaced("another program has rewritten it")
        if self.size == 0 and status.st_size:
            raise FileReplaced("another program has begun a session in it")
        if status.st_size > MAX_SESSION_BYTES:
            raise FileReplaced(
                f"another program has made it larger than a session may be ({MAX_SESSION_BYTES:,} bytes)"
            )
        appended = self._read(self.size, status.st_size - self.size)
        self._changed_ns = status.st_mtime_ns
        self._know(appended)
        return appended

    def complete_lines(self, appended: bytes) -> bytes:
        """Return the lines that are complete with what others appended; the rest waits for its end."""
        data = self._open_line + appended
        end = data.rfind(b"\n") + 1
        self._open_line = data[end:]
        return data[:end]

    def write(self, data: bytes) -> AppendResult:
        """Write once, at the end, wherever that is by now. May write less than all.

        Raises:
            OSError: Nothing was written.
            FileReplaced: The file was shortened after the check; the bytes are at its end.
        """
        length = len(data)
        if self.size + length > MAX_SESSION_BYTES:
            # It could not be opened again.
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        number = self.descriptor.number
        count = self._system.write(number, data)
        if count == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        # With O_APPEND the position is set by the write itself, so it shows where our bytes are even if another
        # program was faster.
        start = os.lseek(number, 0, os.SEEK_CUR) - count
        if start < self.size:
            raise FileReplaced("another program has shortened it")
        if start > MAX_SESSION_BYTES:
            raise FileReplaced(
                f"another program has made it larger than a session may be ({MAX_SESSION_BYTES:,} bytes)"
            )
        between = self._read(self.size, start - self.size) if start > self.size else b""
        self._know(between)
        ours = data if count == length else data[:count]
        self._keep(start, ours)
        self._know(ours)
        self._changed_ns = os.fstat(number).st_mtime_ns
        return AppendResult(count, between)

    def take_back(self, count: int) -> bool:
        """Take away the last bytes, which are ours; return whether that was possible: not if others have written since.

        A crash before it finds the line cut, and one after it does not find it.
        """
        number = self.descriptor.number
        try:
            if self.check_path().st_size != self.size or self.check_for_changes():
                return False
            self._system.ftruncate(number, self.size - count)
            self.size -= count
            self._ending = self._read(max(0, self.size - _ENDING_BYTES), min(self.size, _ENDING_BYTES))
            self.is_torn = self.size > 0 and self._ending[-1:] != b"\n"
            self._changed_ns = os.fstat(number).st_mtime_ns
        except (OSError, FileReplaced):
            return False
        while self._kept and self._kept[-1][0] + len(self._kept[-1][1]) > self.size:
            start, data = self._kept.pop()
            self._kept_bytes -= len(data)
            if start < self.size:
                self._keep(start, data[: self.size - start])
        return True

    def line_ended(self) -> None:
        """Forget what another program has begun: a line of ours has ended it."""
        self._open_line = b""

    def forget_kept(self, end: int) -> None:
        """Release bytes that are on the disk: those before `end`."""
        while self._kept and self._kept[0][0] + len(self._kept[0][1]) <= end:
            self._kept_bytes -= len(self._kept.popleft()[1])

    def write_anew(self, *, is_replacing: bool) -> None:
        """Write the whole content to a new file, flush that, put it at the path, and go on with it.

        It is at the path whole or not at all. The open descriptor has the content of a file that was deleted, and the
        memory has what the kernel may have dropped of one that could not be flushed.

        Args:
            is_replacing: Take the place of this file, whose flush has failed. Else nothing must be at the path.

        Raises:
            FileExistsError: Something has come to be at the path.
            FileReplaced: Something else is there.
            OSError: It could not be written. In each case everything is as before.
        """
        temporary = self.path.with_name(f".pinnace-{self._system.urandom(8).hex()}.tmp")
        number = self._system.open(temporary, _CREATING, FILE_MODE)
        try:
            self._copy_to(number)
            if is_replacing:
                self.check_path()
                self._system.rename(temporary, self.path)
            else:
                self._system.link(temporary, self.path)
                with suppress(OSError):  # a second name is all that it is
                    self._system.unlink(temporary)
            status = os.fstat(number)
        except BaseException:
            self._system.close(number)
            with suppress(OSError):
                self._system.unlink(temporary)
            raise
        former, self.descriptor = self.descriptor, Descriptor(number)
        self._identity = status.st_dev, status.st_ino
        self._changed_ns = status.st_mtime_ns if status.st_size == self.size else -1
        former.release()

    def remove_empty(self) -> None:
        """Close a file that was made and in which nothing could be written, and take it away."""
        with suppress(OSError, FileReplaced):
            if self.check_path().st_size == 0:
                self._system.unlink(self.path)
        self.descriptor.release()

    def _copy_to(self, number: int) -> None:
        former = os.fstat(self.descriptor.number)
        _give_access(number, former)
        copied = 0
        # Others may append while the disk is waited for.
        while copied < os.fstat(self.descriptor.number).st_size:
            while data := os.pread(self.descriptor.number, _COPY_BYTES, copied):
                _write_all(number, data, copied)
                copied += len(data)
            for start, kept in self._kept:
                _write_all(number, kept, start)
            self._system.fsync(number)
        flags = fcntl.fcntl(number, fcntl.F_GETFL)
        fcntl.fcntl(number, fcntl.F_SETFL, flags | os.O_APPEND)

    def _know(self, data: bytes) -> None:
        if data:
            self.size += len(data)
            self.is_torn = data[-1:] != b"\n"
            self._ending = (
                data[-_ENDING_BYTES:] if len(data) >= _ENDING_BYTES else (self._ending + data)[-_ENDING_BYTES:]
            )

    def _keep(self, start: int, data: bytes) -> None:
        self._kept.append((start, data))
        self._kept_bytes += len(data)
        while self._kept_bytes > _MAX_KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft()[1])

    def _read(self, start: int, count: int) -> bytes:
        pieces: list[bytes] = []
        while count:
            piece = os.pread(self.descriptor.number, count, start)
            if not piece:
                raise FileReplaced("another program has shortened it")
            pieces.append(piece)
            start += len(piece)
            count -= len(piece)
        return b"".join(pieces)


def open_for_appending(path: Path) -> int:
    """Open an existing file, not through a link.

    Raises:
        OSError: It can't be read and appended to, or is no regular file.
    """
    number = system().open(path, _APPENDING)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        system().close(number)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return number


def create(path: Path) -> AppendFile:
    """Make an empty file for the user alone, whatever the umask.

    Raises:
        OSError: It can't be made (FileExistsError: something is there, if only a link).
    """
    number = system().open(path, _CREATING | os.O_APPEND, FILE_MODE)
    _give_mode(number)
    return AppendFile(path, number, size=0, is_torn=False)


def _give_mode(number: int) -> None:
    with suppress(OSError):  # a file system without modes
        os.fchmod(number, FILE_MODE)  # the umask may have taken rights from us


def _give_access(number: int, former: os.stat_result) -> None:
    """Give a copy the owner of the former file, and no other user access."""
    _give_mode(number)
    if (former.st_uid, former.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(OSError):  # only root may
            os.fchown(number, former.st_uid, former.st_gid)


def _write_all(number: int, data: bytes, start: int) -> None:
    left = memoryview(data)
    while left:
        count = system().pwrite(number, left, start)
        left = left[count:]
        start += count
