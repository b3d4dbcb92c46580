"""A disk that keeps what was flushed, and of the rest what the seed decides.

It has the functions of `os` that change files, and works on real files below one folder: they are what the running
process sees, the page cache. Beside them it records which changes have reached the disk:

- The content of a file is there up to its last `fsync` or `fdatasync`. Of later writes a crash keeps a beginning, the
  last of which may be torn; or, with the size reordered against the data, zeros in their place.
- The names in a folder are there up to the folder's last `fsync`; of later ones a crash keeps a beginning, in their
  order, as journals do. Names and contents are independent: a renamed file may be empty.
- A flush that fails drops what it could not write, as Linux does: a later flush of the same file succeeds, and writes
  of it the pages alone that were changed again.

Writes may be short or fail (ENOSPC, EIO), and so may flushes. A crash of the process alone loses nothing of that; one
of the machine loses it (`Disk.lose_power`). Slow flushes are a matter of threads (`scheduling`). Descriptors are real,
so `os.fstat`, `os.pread` and locks work. Not simulated: damage to what was flushed, hard links to other folders, reads
that fail.
"""

import errno
import os
import random
import shutil
from collections.abc import Callable, Container
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

Data = bytes | bytearray | memoryview
_PAGE_BYTES: Final = 4096
Place = str | os.PathLike[str]


class DiskFaults(NamedTuple):
    """How often operations fail; probabilities."""

    no_space: float = 0.0
    write_error: float = 0.0
    flush_error: float = 0.0
    short_write: float = 0.0


class _Change(NamedTuple):
    """A change of a file's content."""

    offset: int
    data: bytes | None
    """None: the file is cut at the offset."""

    @property
    def pages(self) -> range:
        """The pages that it changes."""
        return range(self.offset // _PAGE_BYTES, (self.offset + len(self.data or b"") - 1) // _PAGE_BYTES + 1)

    def on(self, pages: Container[int]) -> "_Change":
        """Return what it comes to if only these pages reach the disk: zeros elsewhere."""
        if self.data is None:
            return self
        data = bytearray(self.data)
        for page in self.pages:
            if page not in pages:
                start = max(0, page * _PAGE_BYTES - self.offset)
                end = min(len(data), (page + 1) * _PAGE_BYTES - self.offset)
                data[start:end] = bytes(end - start)
        return self._replace(data=bytes(data))


class _File:
    """A file: what is on the disk, and the changes since."""

    def __init__(self, number: int, content: bytes = b"") -> None:
        self.number = number
        self.kept = bytearray(content)
        self.changes: list[_Change] = []
        self.dropped = 0
        """So many changes, the first ones, a flush has failed to write: the kernel takes them for written."""
        self.writers: list[int] = []
        """The processes that have written, each once for all that it has written in a row."""

    def flush(self) -> None:
        pages = {page for change in self.changes[self.dropped :] for page in change.pages} if self.dropped else ()
        for number, change in enumerate(self.changes):
            _apply(self.kept, change if number >= self.dropped else change.on(pages))
        self.changes.clear()
        self.dropped = 0

    def after_crash(self, draws: random.Random) -> bytes:
        content = bytearray(self.kept)
        if not self.changes:
            return bytes(content)
        how = draws.random()
        count = len(self.changes) if how < 0.15 else 0 if how < 0.4 else draws.randrange(len(self.changes) + 1)
        for change in self.changes[:count]:
            _apply(content, change, is_data_lost=how > 0.9 and draws.random() < 0.5)
        if count < len(self.changes) and how >= 0.4:
            torn = self.changes[count]
            if torn.data is not None:
                _apply(content, torn._replace(data=torn.data[: draws.randrange(len(torn.data) + 1)]))
        return bytes(content)


def _apply(content: bytearray, change: _Change, *, is_data_lost: bool = False) -> None:
    if change.data is None:
        del content[change.offset :]
        return
    data = bytes(len(change.data)) if is_data_lost else change.data
    if len(content) < change.offset:
        content.extend(bytes(change.offset - len(content)))
    content[change.offset : change.offset + len(data)] = data


class _Folder:
    """A folder: the names on the disk, and the changes since."""

    def __init__(self) -> None:
        self.kept: dict[str, _File | _Folder] = {}
        # A name that goes, and one that comes with what it names.
        self.changes: list[tuple[str | None, str | None, _File | _Folder | None]] = []

    def flush(self) -> None:
        self.kept = self._names(len(self.changes))
        self.changes.clear()

    def after_crash(self, draws: random.Random) -> "dict[str, _File | _Folder]":
        how = draws.random()
        count = len(self.changes) if how < 0.3 else 0 if how < 0.6 else draws.randrange(len(self.changes) + 1)
        return self._names(count)

    def now(self) -> "dict[str, _File | _Folder]":
        return self._names(len(self.changes))

    def _names(self, count: int) -> "dict[str, _File | _Folder]":
        names = dict(self.kept)
        for gone, come, file in self.changes[:count]:
            if gone is not None:
                names.pop(gone, None)
            if come is not None and file is not None:
                names[come] = file
        return names


class Disk:
    """The disk of one history; it outlives all processes."""

    def __init__(self, root: Path, draws: random.Random, faults: DiskFaults, note: Callable[[str], None]) -> None:
        """Begin empty.

        Args:
            root: An empty folder; what is elsewhere is passed to `os`.
            draws: Decides.
            faults: How often operations fail.
            note: Takes a line for each change.
        """
        self.faults = faults
        self.operations = 0
        """Changes and flushes until now, of all processes."""
        self.failures = 0
        """Operations that have failed until now, of all processes."""
        self.on_operation: Callable[[ProcessDisk], None] = _nothing
        """Called before each, with the process; it may call `stop`."""
        self.on_second_writer: Callable[[str], None] = _nothing
        """Called with the name of a file into which a process writes again after another one has."""
        self.root = os.path.realpath(root)
        self.draws = draws
        self.note = note
        self.files: dict[tuple[int, int], _File] = {}
        self.folders: dict[str, _Folder] = {self.root: _Folder()}
        self._count = 0
        self._processes = 1000

    def begin(self) -> "ProcessDisk":
        """Return the disk as a new process has it."""
        self._processes += 1
        return ProcessDisk(self, self._processes)

    def new_file(self, status: os.stat_result) -> "_File":
        """Record a file that was made."""
        self._count += 1
        file = self.files[_identity(status)] = _File(self._count)
        return file

    def lose_power(self) -> None:
        """Make the files those that a crash of the machine leaves; after `close_all` of every process."""
        former, self.folders, self.files = self.folders[self.root], {}, {}
        shutil.rmtree(self.root)
        self._restore(self.root, former)
        self.note(f"power {' '.join(f'{name}:{size}' for name, size in self._sizes())}")

    def contents(self, folder: str = "") -> dict[str, bytes]:
        """Return the files in a folder as a process sees them: path below the root -> content."""
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self._paths(folder)}

    def _paths(self, folder: str = "") -> list[Path]:
        return sorted(path for path in Path(self.root, folder).rglob("*") if path.is_file())

    def _sizes(self) -> list[tuple[str, int]]:
        return [(str(path.relative_to(self.root)), path.stat().st_size) for path in self._paths()]

    def _restore(self, path: str, former: _Folder) -> _Folder:
        os.mkdir(path, 0o700)
        folder = self.folders[path] = _Folder()
        folder.kept = former.after_crash(self.draws)
        for name, file in folder.kept.items():
            place = os.path.join(path, name)
            if isinstance(file, _Folder):
                folder.kept[name] = self._restore(place, file)
                continue
            content = file.after_crash(self.draws)
            Path(place).write_bytes(content)
            os.chmod(place, 0o600)
            folder.kept[name] = self.files[_identity(os.stat(place))] = _File(file.number, content)
        return folder


class ProcessDisk:
    """The disk as one process has it, which changes nothing after its crash."""

    def __init__(self, disk: Disk, pid: int) -> None:
        """Open nothing; for `Disk.begin`."""
        self.pid = pid
        self.is_stopped = False
        self.device = disk
        self._draws = disk.draws
        self._open: dict[int, _File | str | None] = {}  # a path: a folder; None: what is not recorded

    def stop(self) -> None:
        """The process has crashed: what it still does has no effect."""
        self.is_stopped = True

    def close_all(self) -> None:
        """Close what the process had open, when nothing of it runs any more."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()

    @property
    def open_count(self) -> int:
        """How many descriptors it has open."""
        return len(self._open)

    # The functions of `os`.

    def open(self, path: Place, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """As `os.open`."""
        self._alive()
        folder, name = self._place(path, dir_fd)
        folders = self.device.folders
        if folder not in folders:
            return self._opened(os.open(path, flags, mode, dir_fd=dir_fd), None)
        is_new = bool(flags & os.O_CREAT) and not os.path.lexists(os.path.join(folder, name))
        if is_new:
            self._operate(f"make {name}", no_space=True)
        elif flags & os.O_TRUNC and os.path.isfile(os.path.join(folder, name)):
            self._operate(f"cut {name} at 0")
        descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
        status = os.fstat(descriptor)
        if os.path.join(folder, name) in folders or name in (".", ""):
            return self._opened(descriptor, os.path.normpath(os.path.join(folder, name)))
        if is_new:
            folders[folder].changes.append((None, name, self.device.new_file(status)))
        file = self.device.files.get(_identity(status))
        if file is not None and not is_new and flags & os.O_TRUNC:
            file.changes.append(_Change(0, None))
        return self._opened(descriptor, file)

    def close(self, fd: int, /) -> None:
        """As `os.close`; also when the process has crashed."""
        if fd not in self._open:
            self._raise(errno.EBADF)
        del self._open[fd]
        os.close(fd)

    def write(self, fd: int, data: Data, /) -> int:
        """As `os.write`."""
        file = self._file(fd)
        if file is None:
            return os.write(fd, data)
        content = self._part(file, bytes(data))
        count = os.write(fd, content)
        # The write has moved the position, also of a file that is opened for appending.
        file.changes.append(_Change(os.lseek(fd, 0, os.SEEK_CUR) - count, content[:count]))
        return count

    def pwrite(self, fd: int, data: Data, offset: int, /) -> int:
        """As `os.pwrite`."""
        file = self._file(fd)
        if file is None:
            return os.pwrite(fd, data, offset)
        content = self._part(file, bytes(data))
        file.changes.append(_Change(offset, content))
        return os.pwrite(fd, content, offset)

    def ftruncate(self, fd: int, length: int, /) -> None:
        """As `os.ftruncate`."""
        file = self._file(fd)
        if file is not None:
            self._operate(f"cut {file.number} at {length}")
            file.changes.append(_Change(length, None))
        os.ftruncate(fd, length)

    def fsync(self, fd: int) -> None:
        """As `os.fsync`."""
        self._alive()
        opened = self._open.get(fd)
        if isinstance(opened, str):
            self._operate(f"flush {os.path.basename(opened)}/")
            self.device.folders[opened].flush()
        elif opened is not None:
            self._operate(f"flush {opened.number}")
            if self._draws.random() < self.device.faults.flush_error:
                opened.dropped = len(opened.changes)
                self._fail(errno.EIO)
            opened.flush()
        else:
            os.fsync(fd)

    def fdatasync(self, fd: int) -> None:
        """As `os.fdatasync`."""
        self.fsync(fd)

    def rename(self, src: Place, dst: Place, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        """As `os.rename`, within one folder."""
        self._alive()
        folder, name = self._place(src, src_dir_fd)
        if folder in self.device.folders:
            _, other = self._place(dst, dst_dir_fd)
            self._operate(f"rename {name} {other}")
            self.device.folders[folder].changes.append((name, other, self.device.folders[folder].now().get(name)))
        os.rename(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def link(
        self,
        src: Place,
        dst: Place,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """As `os.link`, within one folder."""
        self._alive()
        folder, name = self._place(src, src_dir_fd)
        _, other = self._place(dst, dst_dir_fd)
        if folder in self.device.folders:
            self._operate(f"link {name} {other}")
        os.link(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        if folder in self.device.folders:
            self.device.folders[folder].changes.append((None, other, self.device.folders[folder].now().get(name)))

    def unlink(self, path: Place, *, dir_fd: int | None = None) -> None:
        """As `os.unlink`."""
        self._alive()
        folder, name = self._place(path, dir_fd)
        is_there = name in self.device.folders[folder].now() if folder in self.device.folders else False
        if is_there:
            self._operate(f"unlink {name}")
        os.unlink(path, dir_fd=dir_fd)
        if is_there:
            self.device.folders[folder].changes.append((name, None, None))

    def mkdir(self, path: Place, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """As `os.mkdir`."""
        self._alive()
        folder, name = self._place(path, dir_fd)
        is_recorded = folder in self.device.folders
        if is_recorded and not os.path.lexists(os.path.join(folder, name)):
            self._operate(f"mkdir {name}", no_space=True)
        os.mkdir(path, mode, dir_fd=dir_fd)
        if is_recorded:
            made = self.device.folders[os.path.join(folder, name)] = _Folder()
            self.device.folders[folder].changes.append((None, name, made))

    def rmdir(self, path: Place, *, dir_fd: int | None = None) -> None:
        """As `os.rmdir`. A crash may keep the folder, with the names whose removal it has not kept."""
        self._alive()
        folder, name = self._place(path, dir_fd)
        is_recorded = os.path.join(folder, name) in self.device.folders
        if is_recorded:
            self._operate(f"rmdir {name}")
        os.rmdir(path, dir_fd=dir_fd)
        if is_recorded:
            self.device.folders[folder].changes.append((name, None, None))
            del self.device.folders[os.path.join(folder, name)]

    def getpid(self) -> int:
        """Return the number of the process: one more in each life."""
        return self.pid

    def urandom(self, size: int, /) -> bytes:
        """Return bytes that the seed decides."""
        return self._draws.randbytes(size)

    # Decisions.

    def _place(self, path: Place, dir_fd: int | None) -> tuple[str, str]:
        above = os.readlink(f"/proc/self/fd/{dir_fd}") if dir_fd is not None else os.getcwd()
        whole = os.path.normpath(os.path.join(above, os.fspath(path)))
        if whole == self.device.root:
            return self.device.root, "."
        return os.path.dirname(whole), os.path.basename(whole)

    def _opened(self, descriptor: int, what: _File | str | None) -> int:
        self._open[descriptor] = what
        return descriptor

    def _file(self, descriptor: int) -> _File | None:
        self._alive()
        opened = self._open.get(descriptor)
        return opened if isinstance(opened, _File) else None

    def _part(self, file: _File, data: bytes) -> bytes:
        if len(data) > 1 and self._draws.random() < self.device.faults.short_write:
            data = data[: self._draws.randrange(1, len(data))]
        self._operate(f"write {file.number} {len(data)} bytes", no_space=True)
        if file.writers[-1:] != [self.pid]:
            if self.pid in file.writers:
                self.device.on_second_writer(str(file.number))
            file.writers.append(self.pid)
        if self._draws.random() < self.device.faults.write_error:
            self._fail(errno.EIO)
        return data

    def _alive(self) -> None:
        if self.is_stopped:
            self._raise(errno.EIO)

    def _operate(self, what: str, *, no_space: bool = False) -> None:
        self.device.operations += 1
        self.device.on_operation(self)
        self._alive()
        self.device.note(what)
        if no_space and self._draws.random() < self.device.faults.no_space:
            self._fail(errno.ENOSPC)

    def _fail(self, number: int) -> NoReturn:
        self.device.failures += 1
        self.device.note(f"fails: {errno.errorcode[number]}")
        self._raise(number)

    @staticmethod
    def _raise(number: int) -> NoReturn:
        raise OSError(number, os.strerror(number))


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _nothing(_: object) -> None:
    """Do nothing."""


EMPTY_FAULTS: Final = DiskFaults()
"""Nothing fails."""
