"""The operations that each tool requires of its machine, so that files and processes may be on another one.

One protocol for each tool, which works through nothing else. The defaults are the implementations for this machine;
an extension creates a tool with its own, e.g. `ReadTool(operations=...)`. Every path is absolute and resolved: `~`, `@`
and the working folder are handled before. Rules R-TOL-02, R-TOL-05.

For every method:

- A failure is an `OSError` with the `errno` that the system would return (`FileNotFoundError(errno.ENOENT, ...)`), from
  which the tool builds the text that models know, or a `ToolError` with the whole text of the result. A note added to
  an error (`add_note`) is a part of the text.
- Cancelling ends it. A method that changes something must not return while the change is still in progress.
- It must not block: blocking calls belong into a thread.
- One object serves any number of concurrent calls.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from pinnace_agent.tools.images.header import ImageType


class ReadOperations(Protocol):
    """The operations of `read`. Optional in addition: `StreamsFiles`, `DetectsImages`."""

    async def access(self, path: str) -> None:
        """Raise unless this is a readable file; after `FileNotFoundError` other spellings are tried."""
        ...

    async def read_file(self, path: str) -> bytes:
        """Return the whole content. Not called on an object that can stream."""
        ...


@runtime_checkable
class StreamsFiles(Protocol):
    """Optional for `read`: reads large files piece by piece, in constant memory."""

    async def read_stream(self, path: str, take: Callable[[bytes], None]) -> None:
        """Pass the content to `take`, from beginning to end.

        Args:
            path: The file.
            take: Called with one piece after another, in any thread, never concurrently, and never after the return.
        """
        ...


@runtime_checkable
class DetectsImages(Protocol):
    """Optional for `read`: detects images without reading them; otherwise the tool inspects the content."""

    async def detect_image_type(self, path: str) -> ImageType | None:
        """Return the type of the image in a file, or None to show it as text."""
        ...


class WriteOperations(Protocol):
    """The operations of `write`. Optional in addition: `FollowsLinks`."""

    async def make_folder(self, path: str) -> None:
        """Create a folder and its missing parents."""
        ...

    async def write_file(self, path: str, data: bytes) -> None:
        """Write `data` to a new or existing file, atomically."""
        ...


class EditOperations(Protocol):
    """The operations of `edit`. Optional in addition: `FollowsLinks`."""

    async def access(self, path: str) -> None:
        """Raise unless this is a readable and writable file."""
        ...

    async def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        ...

    async def write_file(self, path: str, data: bytes) -> None:
        """Write `data` to the file, atomically."""
        ...


@runtime_checkable
class FollowsLinks(Protocol):
    """Optional for `write` and `edit`: identifies paths of one file, so that changes of it wait for each other.

    Without it two paths are one file only if they are equal.
    """

    async def real_path(self, path: str) -> str:
        """Return the path with all links followed, as far as it exists.

        Later calls wait for it, whichever file they change, so it must be quick.
        """
        ...


@runtime_checkable
class SeesFiles(Protocol):
    """Optional for `write`: whether a file is there, so that the result says whether it was created."""

    async def exists(self, path: str) -> bool:
        """Return whether something of this path is there, also a link that leads nowhere."""
        ...


@runtime_checkable
class BindsWrites(FollowsLinks, Protocol):
    """Optional for `write`: opens files without following links, so that only the approved file is changed."""

    def without_links(self) -> WriteOperations:
        """Return operations to which a link in a path is an error."""
        ...


@runtime_checkable
class BindsEdits(FollowsLinks, Protocol):
    """Optional for `edit`: the same."""

    def without_links(self) -> EditOperations:
        """Return operations to which a link in a path is an error."""
        ...


class ClientFiles(Protocol):
    """Files that the client serves, for one call of `read`, `write` or `edit` without operations of its own.

    Each method decides for itself whether a file is on the disk instead, where the tool then does what it does without
    a client. Cancelling leaves a read at once, and waits shortly for a write.
    """

    async def read(self, path: str) -> bytes | None:
        """Return what the client has of a file; None: it is on the disk."""
        ...

    async def begin_edit(self, path: str) -> bytes | None:
        """Return what the client has of a file that it can also write; None: it is edited on the disk."""
        ...

    async def write(self, path: str, data: bytes, *, is_bound: bool) -> bool:
        """Have the client write a file; return False if it is to be written on the disk, which is not done here.

        Args:
            path: Absolute.
            data: The new content, in UTF-8.
            is_bound: Whether `path` is the real path of a file that was approved, and must not be a link.

        Raises:
            ToolError: It was not written, or it is unknown whether it was.
            ApprovalOutdated: The path leads elsewhere now; nothing was written.
        """
        ...


class CommandTimedOut(Exception):
    """A command was killed after its timeout. Its output so far was passed on."""

    def __init__(self, exit_code: int | None = None, exited_after_s: float | None = None) -> None:
        """Take the exit code and time of a shell that had exited before, leaving processes that were killed."""
        super().__init__(exit_code, exited_after_s)
        self.exit_code = exit_code
        self.exited_after_s = exited_after_s


class BashOperations(Protocol):
    """The operations of `bash`."""

    async def exec(
        self,
        command: str,
        *,
        cwd: str,
        on_data: Callable[[bytes], None],
        timeout_s: float | None,
        env: Mapping[str, str],
        shell_path: str | None,
    ) -> int | None:
        """Run a command and return its exit code, 128 + n if signal n killed it, None if it is unknown.

        Cancelling kills it with all its processes; its output until then is still passed on.

        Args:
            command: Passed to the shell unchanged.
            cwd: The folder to run in.
            on_data: Called with the output of stdout and stderr as it arrives, in the calling task.
            timeout_s: Seconds after which it is killed, or None.
            env: The whole environment of a command on this machine; the implementation decides what of it applies to
                another one.
            shell_path: The shell that the user's settings name for this machine.

        Raises:
            CommandTimedOut: It was killed after its timeout.
            OSError: It could not be started, or the connection was lost.
            ToolError: The same, with the whole text.
        """
        ...


class SearchEnd(NamedTuple):
    """The end of a search program."""

    exit_code: int | None
    """Negative if a signal ended it; None if it hangs in the kernel."""
    complaints: str
    """The beginning of its stderr, trimmed."""
    was_stopped: bool
    """Whether it was killed since enough was read; then the two fields above have no meaning."""


class GrepOperations(Protocol):
    """The operations of `grep`.

    Only ripgrep reads files, so a search of another machine runs ripgrep there, e.g. by ssh. If its files are mounted
    on this machine, derive from the local implementation instead and change the path.
    """

    async def is_folder(self, path: str) -> bool:
        """Return whether the path is a folder; raise `OSError` if it does not exist."""
        ...

    async def search(
        self, arguments: Sequence[str], *, cwd: str, env: Mapping[str, str], take: Callable[[bytes], bool]
    ) -> SearchEnd:
        """Run ripgrep. It has exited when this returns or raises; cancelling kills it.

        Args:
            arguments: The arguments of `rg`, without the program itself.
            cwd: The folder to run in, on the machine that is searched.
            env: The whole environment of a program on this machine.
            take: Called with ripgrep's stdout; once it returns true, it is not called again and ripgrep is killed.

        Raises:
            OSError: It could not be started.
            ToolError: There is no ripgrep.
        """
        ...


class GlobSearch(NamedTuple):
    """A search of `find`."""

    pattern: str
    """A glob: with `/` of paths relative to the folder, which may begin at any depth, without of names at any depth."""
    folder: str
    ignore: tuple[str, ...]
    """Names of folders that are not searched, unless they are the folder itself."""
    limit: int
    """The number of paths to find, and one more if there is one."""
    env: Mapping[str, str]
    """The whole environment of a program on this machine."""
    searches_ignored: bool = False
    """Whether files that ignore files name are searched, too."""


class FindOperations(Protocol):
    """The operations of `find`: a search that replaces fd entirely."""

    async def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        ...

    async def glob(self, search: GlobSearch, take: Callable[[str], bool]) -> None:
        """Search, and pass each path to `take`, without those that .gitignore names.

        Args:
            search: The search. Raise `NotADirectoryError` if its folder is none.
            take: Called with a path relative to the folder, with `/` at the end of a folder, and surrogate escapes for
                bytes that are not UTF-8. Once it returns true, the search ends.
        """
        ...


class LsOperations(Protocol):
    """The operations of `ls`."""

    async def is_folder(self, path: str) -> bool:
        """Return whether the path is a folder; raise `OSError` if it does not exist."""
        ...

    async def entry_names(self, path: str) -> list[str]:
        """Return the names in a folder, in any order, without `.` and `..`."""
        ...

    async def are_folders(self, path: str, names: Sequence[str]) -> list[bool | None]:
        """Return for each name whether it is a folder, following links; None leaves it out of the list.

        Called with all names at once, so that another machine needs one exchange of messages.
        """
        ...
