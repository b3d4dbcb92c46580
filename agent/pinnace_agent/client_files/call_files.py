"""The files of one call of a tool: which of them the client serves, and what its answers mean.

Text files below the working folder or an additional one, and those that do not exist, go to the client; everything
else is on the disk, and so is a read that the client refuses, or whose text is what the disk held before. A write that
the client refuses fails, since it may be the user's decision.
Implements `ClientFiles` of the tools. Rules R-FIL-01, R-FIL-03, R-FIL-04, R-FIL-06.
"""

import os
import stat
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from pinnace_agent.client_files.requests import ClientRefused, ClientRequests, Unanswered, Unavailable
from pinnace_agent.files.protected import is_inside
from pinnace_agent.tools.base import ApprovalOutdated, ToolError
from pinnace_agent.tools.images.header import SNIFF_BYTES, image_type
from pinnace_agent.tools.local.process_files import opened

MAX_SERVED_BYTES: Final = 8 * 1024 * 1024
"""Of files that go to the client: one record holds all of it, and the official clients of ACP take lines of 32 MiB."""


class CallFiles:
    """The files that one call of a tool reads and writes through the client, where that serves them."""

    def __init__(self, requests: ClientRequests, folders: Sequence[str], call_id: str) -> None:
        """Decide nothing yet.

        Args:
            requests: Reach the client.
            folders: The working folder of the session, and the additional ones.
            call_id: The call.
        """
        self._requests = requests
        self._folders = folders
        self._call_id = call_id

    async def read(self, path: str) -> bytes | None:
        """Return what the client has of a file; None: it is on the disk."""
        if not self._requests.offers("read_text_file") or not await self._is_served(path):
            return None
        served = await self._served(path)
        if served is None:
            return None
        stored = await _stored(path)
        return stored.content if self._requests.common.is_outdated(stored.path, served, stored.content) else served

    async def begin_edit(self, path: str) -> bytes | None:
        """Return what the client has of a file that it can also write; None: it is edited on the disk."""
        # To read the text of an editor and write the disk would lose what the user has typed, and so would the reverse.
        if not self._requests.offers("read_text_file", "write_text_file"):
            return None
        return await self.read(path)

    async def write(self, path: str, data: bytes, *, is_bound: bool) -> bool:
        """Have the client write a file; return False if it is to be written on the disk, which is not done here.

        Args:
            path: Absolute.
            data: The new content, in UTF-8.
            is_bound: Whether `path` is a real path, which was approved, and must still be one.

        Raises:
            ToolError: It was not written, or it is unknown whether it was.
            ApprovalOutdated: The path leads elsewhere now; nothing was written.
        """
        if len(data) > MAX_SERVED_BYTES or not self._requests.offers("write_text_file"):
            return False
        if not await self._is_served(path):
            return False
        if is_bound and await trio.to_thread.run_sync(os.path.realpath, path) != path:
            raise ApprovalOutdated(f"{path} is a link now")
        try:
            await self._requests.write(path, data.decode("utf-8"), self._call_id)
        except (Unavailable, UnicodeDecodeError):
            return False
        except ClientRefused as error:
            raise ToolError(f"{path} was not written: {error}") from error
        except Unanswered as error:
            text = f"It is unknown whether {path} was written: {error}. Read it before you change it again."
            raise ToolError(text) from error
        stored = await _stored(path)
        self._requests.common.written(stored.path, data, stored.content)
        return True

    async def _served(self, path: str) -> bytes | None:
        try:
            return (await self._requests.read(path, self._call_id)).encode("utf-8")
        except (ClientRefused, Unanswered, UnicodeEncodeError):  # a lone surrogate is no text of a file
            return None

    async def _is_served(self, path: str) -> bool:
        return await trio.to_thread.run_sync(partial(_is_served, path, self._folders), abandon_on_cancel=True)


class _Stored(NamedTuple):
    """What the disk has of a file that is served."""

    path: str
    """Its real path."""
    content: bytes | None
    """None: there is none that can be read."""


async def _stored(path: str) -> _Stored:
    return await trio.to_thread.run_sync(_content, path, abandon_on_cancel=True)


def _content(path: str) -> _Stored:
    real = os.path.realpath(path)
    try:
        return _Stored(real, _read(path) if os.path.lexists(path) else None)
    except (OSError, ToolError):
        return _Stored(real, None)


def _is_served(path: str, folders: Sequence[str]) -> bool:
    """Return whether a path leads to a text file below one of the folders, or to none that exists."""
    try:
        real = os.path.realpath(path)
        if not any(is_inside(real, os.path.realpath(folder)) for folder in folders):
            return False
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return not os.path.lexists(path)  # what a broken link stands for is no file of an editor
        return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_SERVED_BYTES and _is_text(path)
    except (OSError, ValueError, ToolError):
        return False  # the disk has the words for it


def _read(path: str) -> bytes:
    with opened(path) as file:
        return file.read(MAX_SERVED_BYTES + 1)


def _is_text(path: str) -> bool:
    content = _read(path)
    if image_type(content[:SNIFF_BYTES]) is not None or len(content) > MAX_SERVED_BYTES or b"\0" in content:
        return False
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
