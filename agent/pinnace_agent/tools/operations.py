"""What each tool asks of the machine that it works on, so that files and processes can be on another one.

One protocol a tool; a tool works through nothing else. The implementations for this machine are the defaults; an
extension makes a tool with its own, e.g. `ReadTool(operations=...)`. Every path is absolute and already resolved: `~`,
`@` and the working folder are none of an implementation's business. Rules R-TOL-02, R-TOL-05.

Of every method:

- Failures are `OSError`s with the `errno` that the system would give (`FileNotFoundError(errno.ENOENT, ...)`), from
  which the tool makes the text that models know, or a `ToolError` with the whole text of the result. A note added to an
  error (`add_note`) is told as well.
- Cancelling ends it. One that changes something must not leave while the change is still under way.
- It is a task's business to wait: what blocks belongs into a thread.
- One object serves any number of calls at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from pinnace_agent.tools.image_type import ImageType


class ReadOperations(Protocol):
    """What `read` needs. Optional beside it: `StreamsFiles`, `DetectsImages`."""

    async def access(self, path: str) -> None:
        """Raise unless this is a file that can be read; `FileNotFoundError` lets other spellings be tried."""
        ...

    async def read_file(self, path: str) -> bytes:
        """Return the whole content. Not called of an object that can stream."""
        ...


@runtime_checkable
class StreamsFiles(Protocol):
    """Of `read`, for large files: the content piece by piece, so that memory stays the same."""

    async def read_stream(self, path: str, take: Callable[[bytes], None]) -> None:
        """Pass on the content from beginning to end.

        Args:
            path: The file.
            take: Gets one piece after another, in any thread, never two at once; none after this has returned.
        """
        ...


@runtime_checkable
class DetectsImages(Protocol):
    """Of `read`, where somebody else knows what is in a file; without it the tool looks at the content."""

    async def detect_image_type(self, path: str) -> ImageType | None:
        """Return the type of the image in a file, or None if it is to be shown as text."""
        ...


class WriteOperations(Protocol):
    """What `write` needs. Optional beside it: `FollowsLinks`."""

    async def make_folder(self, path: str) -> None:
        """Make a folder and those above it, as far as they are missing."""
        ...

    async def write_file(self, path: str, data: bytes) -> None:
        """Make `data` the content of a file, new or existing. Half of it must never be the content."""
        ...


class EditOperations(Protocol):
    """What `edit` needs. Optional beside it: `FollowsLinks`."""

    async def access(self, path: str) -> None:
        """Raise unless this is a file that can be read and written."""
        ...

    async def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        ...

    async def write_file(self, path: str, data: bytes) -> None:
        """Make `data` the content of the file. Half of it must never be the content."""
        ...


@runtime_checkable
class FollowsLinks(Protocol):
    """Of `write` and `edit`: tells when two paths are one file, so that changes of it wait for each other.

    Without it two paths are one file if they are equal.
    """

    async def real_path(self, path: str) -> str:
        """Return the path with all links followed; of a file that is not there as far as can be.

        Calls that come later wait for the answer, whichever file they change: it must be quick.
        """
        ...


@runtime_checkable
class BindsWrites(FollowsLinks, Protocol):
    """Of `write`: reaches a file by its real path, so that the file changed is the one that was approved."""

    def without_links(self) -> WriteOperations:
        """Return operations to which a link in a path is an error."""
        ...


@runtime_checkable
class BindsEdits(FollowsLinks, Protocol):
    """Of `edit`, the same."""

    def without_links(self) -> EditOperations:
        """Return operations to which a link in a path is an error."""
        ...


class CommandTimedOut(Exception):
    """A command was killed since its time was over. Its output so far has been passed on."""

    def __init__(self, exit_code: int | None = None, exited_after_s: float | None = None) -> None:
        """Tell, if the shell itself was gone already and only what it had left behind was killed, how and when."""
        super().__init__(exit_code, exited_after_s)
        self.exit_code = exit_code
        self.exited_after_s = exited_after_s


class BashOperations(Protocol):
    """What `bash` needs."""

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
        """Run a command and return its exit code, 128 + n if signal n killed it, None if nobody knows.

        Cancelling kills it with everything that it has started; what it wrote until then is still passed on.

        Args:
            command: As the shell reads it.
            cwd: The folder to run in.
            on_data: Gets the output, stdout and stderr as they come, in the task that called.
            timeout_s: Seconds after which it is to be killed, or None.
            env: The whole environment of a command on this machine; what of it makes sense elsewhere is for the
                implementation to say.
            shell_path: The shell that the user's settings name for this machine.

        Raises:
            CommandTimedOut: The time was over.
            OSError: It could not be started or is out of reach.
            ToolError: The same, with the whole text.
        """
        ...


class SearchEnd(NamedTuple):
    """How a program that searches ended."""

    exit_code: int | None
    """Negative when a signal ended it; None when it hangs in the kernel."""
    complaints: str
    """What it wrote to stderr, trimmed; of very much only the beginning."""
    was_stopped: bool
    """Killed by us, since enough was read; then the two above mean nothing."""


class GrepOperations(Protocol):
    """What `grep` needs.

    Files are only ever read by ripgrep, so a search of another machine runs ripgrep there, e.g. by ssh. Where the
    other machine's files can be reached by a path of this one (a mount), derive from the local implementation instead
    and change the path.
    """

    async def is_folder(self, path: str) -> bool:
        """Tell a folder, whose files are searched, from a file, which is. `OSError` if there is neither."""
        ...

    async def search(
        self, arguments: Sequence[str], *, cwd: str, env: Mapping[str, str], take: Callable[[bytes], bool]
    ) -> SearchEnd:
        """Run ripgrep. It has ended when this returns or raises; cancelling kills it.

        Args:
            arguments: Those of `rg`, without the program itself.
            cwd: The folder to run in, on the machine that is searched.
            env: The whole environment of a program on this machine.
            take: Gets what ripgrep writes to stdout; once it returns true it gets no more, and ripgrep is killed.

        Raises:
            OSError: It could not be started.
            ToolError: There is no ripgrep.
        """
        ...


class GlobSearch(NamedTuple):
    """What `find` looks for."""

    pattern: str
    """A glob: with `/` of paths relative to the folder, which may begin at any depth, without of names at any depth."""
    folder: str
    ignore: tuple[str, ...]
    """Names of folders that are not searched, unless they are the folder itself."""
    limit: int
    """More than this need not be looked for, but one more if there is one."""
    env: Mapping[str, str]
    """The whole environment of a program on this machine."""


class FindOperations(Protocol):
    """What `find` needs: a search of its own, which replaces fd entirely."""

    async def exists(self, path: str) -> bool:
        """Tell whether there is anything."""
        ...

    async def glob(self, search: GlobSearch, take: Callable[[str], bool]) -> None:
        """Search, and pass on each path found; what .gitignore names should be left out.

        Args:
            search: What to look for. A folder that is none is a `NotADirectoryError`.
            take: Gets a path relative to the folder, with `/` at the end of a folder; what is no UTF-8 as surrogate
                escapes. Once it returns true no more is wanted.
        """
        ...


class LsOperations(Protocol):
    """What `ls` needs."""

    async def is_folder(self, path: str) -> bool:
        """Tell whether this is a folder. `OSError` if there is nothing."""
        ...

    async def entry_names(self, path: str) -> list[str]:
        """Return the names in a folder, in any order, without `.` and `..`."""
        ...

    async def are_folders(self, path: str, names: Sequence[str]) -> list[bool | None]:
        """Tell of each of these names in a folder whether it is one, through links; None leaves it out of the list.

        Asked of all at once, so that another machine needs one exchange of messages.
        """
        ...
