"""The blocking calls of the file tools, as data: for a thread of the agent, or for the helper of a sandbox.

What the tools do with files is decided here, once, so that it is the same with and without a sandbox. Has no access to
the agent, to trio or to texts of results: the helper of a sandbox (`sandbox/file_program`) loads this module and what
it imports, in a process of its own. Rules R-TOL-02, R-TOL-03.

Failures are `OSError`, or `CallRefused` where the system has no error for the refusal.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from io import FileIO
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from pinnace_agent.files.atomic_file import overwrite_file
from pinnace_agent.files.opener import FileRefused, Reach, open_file, open_folder, place_of
from pinnace_agent.files.protected import OF_PROCESSES, Places, Protection, protection_of

CHUNK_BYTES: Final = 256 * 1024
"""Large enough that counting lines costs no more than reading, small enough to react to a cancellation at once."""

_REACH: Final = Reach(OF_PROCESSES, Places())


class CallRefused(Exception):
    """A call that is refused although the system would perform it; the text is the whole reason, for the model."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        super().__init__(text)
        self.text = text


CallName: TypeAlias = Literal[
    "check readable",
    "check editable",
    "check writable",
    "content",
    "beginning",
    "stream",
    "replace",
    "exists",
    "make folder",
    "real path",
    "is folder",
    "entry names",
    "are folders",
    "searchable",
    "in repository",
]

CHANGING: Final[frozenset[CallName]] = frozenset({"replace", "make folder"})
"""The calls that change files: they are awaited when their caller is cancelled."""

Answer: TypeAlias = bool | int | str | bytes | list[str] | list[bool | None] | None


class FileCall(NamedTuple):
    """One call. Fields that its name does not need have no effect."""

    name: CallName
    path: str
    """Absolute."""
    follows_links: bool = True
    """If not, a link anywhere in the path is an error."""
    names: Sequence[str] = ()
    """Names in a folder."""
    max_bytes: int = 0
    data: bytes = b""
    """The content to write."""


def perform(  # noqa: PLR0911  # a case each
    call: FileCall, take: Callable[[bytes], object], check: Callable[[], object]
) -> Answer:
    """Perform a call.

    Args:
        call: The call.
        take: Receives the pieces of `stream`.
        check: Called now and then by calls that change nothing; what it raises ends the call.

    Raises:
        CallRefused: It is refused.
        OSError: The system refuses it.
        ValueError: The path is none.
    """
    path = call.path
    match call.name:
        case "check readable":
            _check_readable(path)
        case "check editable":
            return _check_editable(path)
        case "check writable":
            _check_writable(path)
        case "content":
            return _content(path)
        case "beginning":
            return _beginning(path, call.max_bytes, call.follows_links, check)
        case "stream":
            _stream(path, take, check)
        case "replace":
            _replace(path, call.data, call.follows_links)
        case "exists":
            return os.path.lexists(path)
        case "make folder":
            _make_folder(path, call.follows_links)
        case "real path":
            return real_path(path)
        case "is folder":
            return _is_folder(path)
        case "entry names":
            return os.listdir(path)
        case "are folders":
            return _are_folders(path, call.names, check)
        case "searchable":
            return _is_folder_to_search(path)
        case "in repository":
            return any(os.path.lexists(os.path.join(folder, ".git")) for folder in _upwards(path))
        case _:
            assert_never(call.name)
    return None


def refuse_process_files(path: str) -> None:
    """Raise if a path leads to a file that exposes a process; the file need not exist.

    Raises:
        CallRefused: It does.
        ValueError: It is no path.
    """
    real = os.path.realpath(path)
    if protection_of(real, Places()) in OF_PROCESSES:
        where = "" if real == path else f"leads to {real}, which "
        raise CallRefused(f"Not opened: {path} {where}{Protection.PROCESS.value}")


@contextmanager
def opened(path: str) -> Generator[FileIO, None, None]:
    """Open a regular file for reading, without a buffer.

    Raises:
        CallRefused: It exposes a process.
        OSError: It is no regular file, or can't be read.
    """
    try:
        with open_file(path, _REACH) as file, open(file.descriptor, "rb", buffering=0, closefd=False) as stream:
            yield stream
    except FileRefused as error:
        raise CallRefused(f"Not opened: {path} {error.text}") from error


def _check_readable(path: str) -> None:
    """Raise unless this is a regular file that can be read."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        # A pipe or a device may never end, and reading from it may take data meant for another process.
        raise CallRefused(f"Not a file with content, but a pipe, socket or device: {path}")
    refuse_process_files(path)
    _check_access(path, os.R_OK)


def _check_editable(path: str) -> int:
    """Raise unless this is a regular file that can be read and written; return its size."""
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
    return status.st_size


def _check_writable(path: str) -> None:
    """Raise unless a file can be written, or created below the nearest folder that exists."""
    real = real_path(path)
    while not os.path.lexists(real):
        real = os.path.dirname(real)
    _check_access(real, os.W_OK)


def _content(path: str) -> bytes:
    """Return the whole content of a file."""
    with opened(path) as file:
        return file.readall()


def _beginning(path: str, max_bytes: int, follows_links: bool, check: Callable[[], object]) -> bytes:
    """Return at most so many bytes of a file.

    Args:
        path: Absolute.
        max_bytes: How many.
        follows_links: If not, a link anywhere in the path is an error.
        check: Called between two reads; what it raises ends the call.
    """
    if follows_links:
        with opened(path) as file:
            return _bounded(file, max_bytes, check)
    with place_of(path) as place:
        _check_regular(place.status())
        with open(place.open(os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
            _check_regular(os.fstat(file.fileno()))
            return _bounded(file, max_bytes, check)


def _stream(path: str, take: Callable[[bytes], object], check: Callable[[], object]) -> None:
    """Pass the content of a file to `take`, piece by piece; `check` is called before each."""
    with opened(path) as file:
        while piece := file.read(CHUNK_BYTES):
            check()
            take(piece)


def _replace(path: str, data: bytes, follows_links: bool) -> None:
    """Replace or create a file; see `overwrite_file`."""
    refuse_process_files(path)
    try:
        overwrite_file(path, data, follows_links=follows_links)
    except PermissionError as error:
        if _is_read_only(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path) from error
        raise


def _make_folder(path: str, follows_links: bool) -> None:
    """Create a folder and its missing parents; without following links, a link on the way is an error."""
    if follows_links:
        os.makedirs(path, exist_ok=True)
    else:
        os.close(open_folder(path, makes_missing=True))


def real_path(path: str) -> str:
    """Return a path with all links followed, as far as it exists."""
    try:
        return os.path.realpath(path, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.realpath(path)


def _is_folder(path: str) -> bool:
    """Return whether this is a folder; raise if nothing is there."""
    found = stat.S_ISDIR(os.stat(path).st_mode)
    refuse_process_files(path)
    return found


def _is_folder_to_search(path: str) -> bool:
    """Return whether this is a folder; raise unless it is one or a regular file."""
    is_folder = _is_folder(path)
    if not is_folder and not os.path.isfile(path):
        # A pipe or a device may never end.
        raise CallRefused(f"Not a file with content, but a pipe, socket or device: {path}")
    return is_folder


def _upwards(folder: str) -> Generator[str]:
    while folder != "/":
        yield folder
        folder = os.path.dirname(folder)
    yield folder


def _are_folders(path: str, names: Sequence[str], check: Callable[[], object]) -> list[bool | None]:
    """Return which of the names are folders; None for a broken link, or a file that was removed meanwhile."""
    found: list[bool | None] = []
    for name in names:
        check()
        try:
            found.append(stat.S_ISDIR(os.stat(os.path.join(path, name)).st_mode))
        except OSError:
            found.append(None)
    return found


def _check_access(path: str, rights: int) -> None:
    if os.access(path, rights):
        return
    number = errno.EROFS if rights & os.W_OK and _is_read_only(path) else errno.EACCES
    raise OSError(number, os.strerror(number), path)


def _is_read_only(path: str) -> bool:
    """Return whether a path is on a read-only mount, which refuses writing whatever the file's mode."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _bounded(file: FileIO, max_bytes: int, check: Callable[[], object]) -> bytes:
    data = bytearray()
    while piece := file.read(min(CHUNK_BYTES, max_bytes - len(data))):
        check()
        data += piece
    return bytes(data)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
