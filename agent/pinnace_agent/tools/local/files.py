"""Files of this machine, for the tools: each operation is one call (`files/tool_calls`), in a thread or in the sandbox.

Builds no texts of results, except where the system has no error for a refusal. Rules R-TOL-02, R-TOL-03.
"""

import copy
import os
from collections.abc import Callable, Sequence
from typing import Final, Self, TypeVar

import trio

from pinnace_agent.files.protected import is_inside
from pinnace_agent.files.tool_calls import Answer, FileCall
from pinnace_agent.shell.truncation import format_size
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.local.file_calls import FILE_CALLS
from pinnace_spec.rules.limits import MAX_EDIT_BYTES

_T = TypeVar("_T", bool, int, str, bytes)


class LocalRead:
    """`ReadOperations` of this machine, with streams."""

    async def access(self, path: str) -> None:
        """Raise unless this is a regular file."""
        await FILE_CALLS.perform(FileCall("check readable", path))

    async def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        return _of(bytes, await FILE_CALLS.perform(FileCall("content", path)))

    async def read_stream(self, path: str, take: Callable[[bytes], None]) -> None:
        """Pass on the content from beginning to end, in one thread."""
        await FILE_CALLS.perform(FileCall("stream", path), take)


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
        await FILE_CALLS.perform(FileCall("replace", path, self._follows_links, data=data))

    async def real_path(self, path: str) -> str:
        """Return the path with all links followed."""
        return _of(str, await FILE_CALLS.perform(FileCall("real path", path)))


class LocalWrite(_LocalChanges):
    """`WriteOperations` of this machine."""

    async def exists(self, path: str) -> bool:
        """Return whether something of this path is there, also a link that leads nowhere."""
        return _of(bool, await FILE_CALLS.perform(FileCall("exists", path)))

    async def make_folder(self, path: str) -> None:
        """Create a folder and its missing parents."""
        await FILE_CALLS.perform(FileCall("make folder", path, self._follows_links))


class LocalEdit(_LocalChanges):
    """`EditOperations` of this machine."""

    async def access(self, path: str) -> None:
        """Raise unless this is a regular file that can be read and written, and not too large (R-LIM-04)."""
        check_edit_size(path, _of(int, await FILE_CALLS.perform(FileCall("check editable", path))))

    async def read_file(self, path: str) -> bytes:
        """Return the whole content, or enough of it to detect that it is too large."""
        call = FileCall("beginning", path, self._follows_links, max_bytes=MAX_EDIT_BYTES + 1)
        return _of(bytes, await FILE_CALLS.perform(call))


class LocalLs:
    """`LsOperations` of this machine."""

    async def is_folder(self, path: str) -> bool:
        """Return whether this is a folder."""
        return _of(bool, await FILE_CALLS.perform(FileCall("is folder", path)))

    async def entry_names(self, path: str) -> list[str]:
        """Return the names in a folder."""
        names = await FILE_CALLS.perform(FileCall("entry names", path))
        assert isinstance(names, list)
        return [name for name in names if isinstance(name, str)]

    async def are_folders(self, path: str, names: Sequence[str]) -> list[bool | None]:
        """Return which of the names are folders; None for a broken link, or a file that was removed meanwhile."""
        found = await FILE_CALLS.perform(FileCall("are folders", path, names=names))
        assert isinstance(found, list)
        return [each for each in found if not isinstance(each, str)]


LOCAL_READ: Final = LocalRead()
LOCAL_WRITE: Final = LocalWrite()
LOCAL_EDIT: Final = LocalEdit()
LOCAL_LS: Final = LocalLs()


async def check_client_write(path: str) -> None:
    """Raise unless the sandbox allows writing a file that the client is about to write; without one always allowed.

    Raises:
        OSError: It does not.
    """
    if FILE_CALLS.is_sandboxed:
        await FILE_CALLS.perform(FileCall("check writable", path))


async def is_same_outside(path: str, folder: str) -> bool:
    """Return whether a path is the same file in the sandbox as for a client; without a sandbox always.

    It is in the working folder. Elsewhere, such as in `/tmp`, a folder may be another one in the sandbox, and what a
    client has of it is outside.
    """
    if not FILE_CALLS.is_sandboxed:
        return True
    real, root = await trio.to_thread.run_sync(lambda: (os.path.realpath(path), os.path.realpath(folder)))
    return is_inside(real, root)


async def may_be_hidden(path: str) -> bool:
    """Return whether a file that is missing in the working folder may be hidden by the sandbox; without one: no.

    Nothing is hidden where the sandbox would make the file: what is hidden there is there, but empty, or in a folder
    that can't be written.
    """
    if not FILE_CALLS.is_sandboxed:
        return False
    try:
        await FILE_CALLS.perform(FileCall("check writable", path))
    except OSError:
        return True
    return False


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


def _of(kind: type[_T], answer: Answer) -> _T:
    assert isinstance(answer, kind), answer
    return answer
