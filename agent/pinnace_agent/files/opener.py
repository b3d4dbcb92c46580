"""The one opener of files that a repository, a session or a model can name.

A path is resolved once, the result is checked (protected places, allowed folders), and what is opened is that result:
from an allowed folder down, one component after another, none of which may be a link by then. So a link that is put in
place between the check and the opening leads nowhere. Only regular files are opened, never waiting for a writer, and
no more is read than requested.

Limits: a hard link to a file outside of an allowed folder is a file inside of it, and so is what is
mounted there.
"""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from pinnace_agent.files.protected import Places, Protection, is_inside, protection_of
from pinnace_agent.files.regular_file import NotRegular, open_regular

# To pass through a folder needs no right to list it, where the system knows the difference.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileRefused(Exception):
    """A file that must not be opened. The text is the reason, without the name: `leads to ..., which ...`."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        super().__init__(text)
        self.text = text


class Reach(NamedTuple):
    """What may be opened."""

    refused: frozenset[Protection]
    """Never: places that are protected for one of these reasons."""
    places: Places
    roots: tuple[str, ...] | None = None
    """Resolved folders, in one of which the file must be; None: anywhere."""
    owners: frozenset[int] | None = None
    """Users whose files may be opened, and whose links followed; None: everybody's."""
    refuses_shared: bool = False
    """Whether a file that anybody may write is refused."""


class OpenedFile(NamedTuple):
    """A regular file, open for reading."""

    descriptor: int
    real_path: str
    """Where it is, with all links resolved."""
    status: os.stat_result
    """Of what is open."""


def resolve(path: str, reach: Reach) -> str:
    """Return the real path of something that is there and may be opened. Opens nothing.

    Raises:
        FileRefused: It must not be opened.
        OSError: It is not there or out of reach, e.g. a loop of links.
    """
    try:
        real = os.path.realpath(path, strict=True)
        if reach.owners is not None:
            _check_owner(os.lstat(path), reach)
    except ValueError:
        raise FileRefused("is no path of a file") from None
    protection = protection_of(real, reach.places)
    if protection is not None and protection in reach.refused:
        raise FileRefused(protection.value if real == path else f"leads to {real}, which {protection.value}")
    if reach.roots is not None and not any(is_inside(real, root) for root in reach.roots):
        raise FileRefused(f"leads to {real}, which is outside of {_shown(reach.roots)}")
    return real


@contextmanager
def open_file(path: str, reach: Reach) -> Generator[OpenedFile, None, None]:
    """Open a regular file for reading, and close it at the end of the block.

    Raises:
        FileRefused: It must not be opened, or is no regular file.
        IsADirectoryError: It is a folder.
        OSError: It is not there, can't be read, or was replaced by a link meanwhile.
    """
    real = resolve(path, reach)
    folder = open_folder(os.path.dirname(real), _root_of(real, reach.roots))
    try:
        descriptor, status = open_regular(os.path.basename(real), folder=folder)
    except NotRegular as error:
        if error.is_folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
        raise FileRefused(str(error)) from None
    finally:
        os.close(folder)
    try:
        _check_owner(status, reach)
        if Protection.PROCESS in reach.refused and status.st_dev == _device_of("/proc"):
            _check_elsewhere_mounted(real)
        yield OpenedFile(descriptor, real, status)
    finally:
        os.close(descriptor)


def read_file(path: str, reach: Reach, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return at most so many bytes from the beginning of a regular file, and its status.

    Raises:
        FileRefused: It must not be opened, or is no regular file.
        OSError: It can't be read.
    """
    with open_file(path, reach) as file, open(file.descriptor, "rb", closefd=False) as stream:
        return stream.read(max_bytes), file.status


class FilePlace(NamedTuple):
    """Where a file is: a name in a folder that is open, so that replacing the folder has no effect."""

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
        """Return whether this user has these rights (`os.R_OK`, `os.W_OK`) to what is there."""
        return os.access(self.name, rights, dir_fd=self.folder)


@contextmanager
def place_of(real: str) -> Generator[FilePlace, None, None]:
    """Open the folder of a file, from the root down, for as long as the block lasts.

    Args:
        real: The file's real path: absolute, and none of its components is a link.

    Raises:
        OSError: The folder is not there or can't be reached, or there is a link on the way.
    """
    folder = open_folder(os.path.dirname(real))
    try:
        yield FilePlace(folder, os.path.basename(real) or ".")
    finally:
        os.close(folder)


def open_folder(real: str, root: str = "/", *, makes_missing: bool = False) -> int:
    """Open a folder by its real path: from `root` down, and no component may be a link.

    Args:
        real: The folder's real path.
        root: Where the way to it begins.
        makes_missing: Whether folders on the way that are not there are made.

    Returns:
        A descriptor for `dir_fd` of calls such as `os.open` and `os.stat`; it may be good for nothing else (O_PATH).
        The caller closes it. It stays the same folder whatever is put in its place.

    Raises:
        OSError: It is not there, is no folder, or one of the components is a link (NotADirectoryError).
    """
    folder = os.open(root, _FOLDER)
    try:
        for name in os.path.relpath(real, root).split("/"):
            if name == ".":
                continue
            try:
                below = os.open(name, _FOLDER, dir_fd=folder)
            except FileNotFoundError:
                if not makes_missing:
                    raise
                with suppress(FileExistsError):  # another call has made it meanwhile
                    os.mkdir(name, dir_fd=folder)
                below = os.open(name, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = below
    except BaseException:
        os.close(folder)
        raise
    return folder


def _root_of(real: str, roots: tuple[str, ...] | None) -> str:
    """Return where the way to a file begins: the allowed folder, for which the caller is responsible."""
    return next((root for root in roots or () if real != root and is_inside(real, root)), "/")


def _check_owner(status: os.stat_result, reach: Reach) -> None:
    if reach.owners is not None and status.st_uid not in reach.owners:
        raise FileRefused("belongs to another user")
    if reach.refuses_shared and stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IWOTH:
        raise FileRefused("may be written by anybody")


def _check_elsewhere_mounted(real: str) -> None:
    """Refuse files of /proc that are mounted in another place, where names mean nothing."""
    if not is_inside(real, "/proc"):
        raise FileRefused(f"leads to {real}, which {Protection.PROCESS.value}")


def _device_of(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def _shown(roots: tuple[str, ...]) -> str:
    return " and ".join(roots)
