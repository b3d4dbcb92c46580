"""Files of this machine, for the tools: blocking system calls in threads.

A cancelled call that only reads is abandoned in its thread if it hangs (a dead network disk); one that writes is
awaited, so that the file's lock is held until it has ended. Builds no texts of results, except where the system has no
error for a refusal. Rules R-TOL-02, R-TOL-03.
"""

import copy
import errno
import os
import stat
from collections.abc import Callable, Sequence
from io import FileIO
from typing import Final, Self

import trio

from pinnace_agent.files.atomic_file import overwrite_file
from pinnace_agent.files.opener import open_folder, place_of
from pinnace_agent.shell.truncation import format_size
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.change_queue import real_path
from pinnace_agent.tools.local.process_files import opened, refuse_process_files
from pinnace_spec.rules.limits import MAX_EDIT_BYTES

CHUNK_BYTES: Final = 256 * 1024
"""Large enough that counting lines costs no more than reading, small enough to react to a cancellation at once."""


class LocalRead:
    """`ReadOperations` of this machine, with streams."""

    async def access(self, path: str) -> None:
        """Raise unless this is a regular file."""
        await trio.to_thread.run_sync(_check_readable, path, abandon_on_cancel=True)

    async def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        return await trio.to_thread.run_sync(_content, path, abandon_on_cancel=True)

    async def read_stream(self, path: str, take: Callable[[bytes], None]) -> None:
        """Pass on the content from beginning to end, in one thread."""
        await trio.to_thread.run_sync(_stream, path, take, abandon_on_cancel=True)


class _LocalChanges:
    """The common part of `LocalWrite` and `LocalEdit`."""

    _follows_links = True

    def without_links(self) -> Self:
        """Return the same operations, for which a link in a path is an error."""
        other = copy.copy(self)
        other._follows_links = False
        return other

    async def write_file(self, path: str, data: bytes) -> None:
        """Replace or create a file; see `overwrite_file`."""
        await trio.to_thread.run_sync(_replace, path, data, self._follows_links)

    async def real_path(self, path: str) -> str:
        """Return the path with all links followed."""
        return await real_path(path)


class LocalWrite(_LocalChanges):
    """`WriteOperations` of this machine."""

    async def exists(self, path: str) -> bool:
        """Return whether something of this path is there, also a link that leads nowhere."""
        return await trio.to_thread.run_sync(os.path.lexists, path)

    async def make_folder(self, path: str) -> None:
        """Create a folder and its missing parents."""
        await trio.to_thread.run_sync(_make_folder if self._follows_links else _make_real_folder, path)


class LocalEdit(_LocalChanges):
    """`EditOperations` of this machine. Cancelled reads are abandoned, as in `LocalRead`."""

    async def access(self, path: str) -> None:
        """Raise unless this is a regular file that can be read and written, and not too large (R-LIM-04)."""
        await trio.to_thread.run_sync(_check_editable, path, abandon_on_cancel=True)

    async def read_file(self, path: str) -> bytes:
        """Return the whole content, or enough of it to detect that it is too large."""
        read = _beginning if self._follows_links else _real_beginning
        return await trio.to_thread.run_sync(read, path, abandon_on_cancel=True)


class LocalLs:
    """`LsOperations` of this machine."""

    async def is_folder(self, path: str) -> bool:
        """Return whether this is a folder."""
        return await trio.to_thread.run_sync(_is_folder, path, abandon_on_cancel=True)

    async def entry_names(self, path: str) -> list[str]:
        """Return the names in a folder."""
        return await trio.to_thread.run_sync(os.listdir, path, abandon_on_cancel=True)

    async def are_folders(self, path: str, names: Sequence[str]) -> list[bool | None]:
        """Return which of the names are folders; None for a broken link, or a file that was removed meanwhile."""
        return await trio.to_thread.run_sync(_are_folders, path, names, abandon_on_cancel=True)


LOCAL_READ: Final = LocalRead()
LOCAL_WRITE: Final = LocalWrite()
LOCAL_EDIT: Final = LocalEdit()
LOCAL_LS: Final = LocalLs()


def _check_readable(path: str) -> None:
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        # A pipe or a device may never end, and reading from it may take data meant for another process.
        raise ToolError(f"Not a file with content, but a pipe, socket or device: {path}")
    refuse_process_files(path)
    _check_access(path, os.R_OK)


def _check_editable(path: str) -> None:
    status = os.stat(path)
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        # Reading a pipe could block forever.
        error = OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        error.add_note("It is not a file with content, but a pipe, socket or device")
        raise error
    refuse_process_files(path)
    _check_access(path, os.R_OK | os.W_OK)
    check_edit_size(path, status.st_size)


def check_edit_size(path: str, size: int) -> None:
    """Reject an edit of a file that is too large (R-LIM-04).

    Raises:
        ToolError: It is too large; the text names an alternative.
    """
    if size > MAX_EDIT_BYTES:
        raise ToolError(
            f"File too large to edit: {path} has more than {format_size(MAX_EDIT_BYTES)}. "
            "Use bash with a program that reads it piece by piece, e.g. sed."
        )


def _check_access(path: str, rights: int) -> None:
    if not os.access(path, rights):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def _is_folder(path: str) -> bool:
    is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    refuse_process_files(path)
    return is_folder


def _replace(path: str, data: bytes, follows_links: bool) -> None:
    refuse_process_files(path)
    overwrite_file(path, data, follows_links=follows_links)


def _content(path: str) -> bytes:
    with opened(path) as file:
        return file.readall()


def _beginning(path: str) -> bytes:
    with opened(path) as file:
        return _bounded(file)


def _real_beginning(path: str) -> bytes:
    with place_of(path) as place:
        _check_regular(place.status())
        with open(place.open(os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
            _check_regular(os.fstat(file.fileno()))
            return _bounded(file)


def _bounded(file: FileIO) -> bytes:
    content = bytearray()
    while piece := file.read(min(CHUNK_BYTES, MAX_EDIT_BYTES + 1 - len(content))):
        trio.from_thread.check_cancelled()
        content += piece
    return bytes(content)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def _stream(path: str, take: Callable[[bytes], None]) -> None:
    with opened(path) as file:
        while piece := file.read(CHUNK_BYTES):
            trio.from_thread.check_cancelled()
            take(piece)


def _make_folder(path: str) -> None:
    os.makedirs(path, exist_ok=True)


def _make_real_folder(path: str) -> None:
    os.close(open_folder(path, makes_missing=True))


def _are_folders(path: str, names: Sequence[str]) -> list[bool | None]:
    found: list[bool | None] = []
    for name in names:
        trio.from_thread.check_cancelled()
        try:
            found.append(stat.S_ISDIR(os.stat(os.path.join(path, name)).st_mode))
        except OSError:
            found.append(None)
    return found
