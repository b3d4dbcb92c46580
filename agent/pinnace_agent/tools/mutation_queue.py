"""Lets the calls that change one file go one after another, in call order; different files don't wait.

Must not know what is done to the file. Tools of extensions that write files are expected to use `MUTATIONS`
too. Rule R-TOL-03.
"""

import heapq
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from pinnace_agent.tools.base import ApprovalOutdated, ToolError
from pinnace_agent.tools.paths import os_error_text


@dataclass(slots=True)
class _Line:
    """Those who wait for one file, and who holds it. A `trio.Lock` is fair: first come, first served."""

    lock: trio.Lock = field(default_factory=trio.Lock)
    users: int = 0


async def real_path(path: str) -> str:
    """Return a path of this machine with all links followed; of a file that is not there as far as can be."""
    return await trio.to_thread.run_sync(_real_path, path)


async def unfollowed(path: str) -> str:
    """Return a path as it is: the files are where no links are followed."""
    await trio.lowlevel.checkpoint()
    return path


RealPath = Callable[[str], Awaitable[str]]

NOT_BOUND: Final = (
    "This call was approved for one file of this machine, and the tool's files are elsewhere, so nothing was changed"
)
"""The result of a call that is bound to a file, of a tool that can't be held to it."""


@asynccontextmanager
async def bound_to(bound_path: str | None, path: str, real_path: RealPath) -> AsyncGenerator[None, None]:
    """Change a file in the body only while `path` leads to the file that was approved, by its real path.

    What the body reaches must be `bound_path`, through no link: then a link that is put there meanwhile makes it fail.

    Raises:
        ApprovalOutdated: The path leads elsewhere, before the body or when it failed.
    """
    if bound_path is None:
        yield
        return
    await _require(bound_path, path, real_path)
    try:
        yield
    except (OSError, ToolError):
        await _require(bound_path, path, real_path)
        raise


async def _require(bound_path: str, path: str, real_path: RealPath) -> None:
    try:
        found = await real_path(path)
    except OSError as error:
        raise ApprovalOutdated(str(error)) from error
    if found != bound_path:
        raise ApprovalOutdated(f"{path} leads to {found}, not to {bound_path}")


class MutationQueue:
    """One line for each file that is being changed; a line that nobody stands in is forgotten."""

    def __init__(self) -> None:
        self._arrivals: list[int] = []
        self._moved = trio.lowlevel.ParkingLot()
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def hold(self, path: str, order: int, real_path: RealPath | None = real_path) -> AsyncGenerator[None, None]:
        """Hold a file: nobody else who asks does so until the body has ended, however it ends.

        Calls that start together are served by `order`; trio starts tasks in random order, so the order of
        asking would be luck. Cancelling while waiting gives the place up.

        Args:
            path: Absolute.
            order: `ToolContext.order` of the call.
            real_path: Follows links, so that two names of a file are one line; by default on this machine. None takes
                the path as it is.

        Raises:
            ToolError: The path can't be resolved, e.g. a loop of links. A file that is not there yet is no error.
        """
        key, line = await self._register(path, order, real_path)
        try:
            async with line.lock:
                yield
        finally:
            line.users -= 1
            if not line.users:
                del self._lines[key]

    async def _register(self, path: str, order: int, real_path: RealPath | None) -> tuple[str, _Line]:
        heapq.heappush(self._arrivals, order)
        try:
            # One turn of the scheduler: whoever was started together with us has arrived when it is over.
            await trio.lowlevel.checkpoint()
            while self._arrivals[0] != order:
                await self._moved.park()
            key = path if real_path is None else await self._key(path, real_path)
            line = self._lines.setdefault(key, _Line())
            line.users += 1
            return key, line
        finally:
            self._arrivals.remove(order)
            heapq.heapify(self._arrivals)
            self._moved.unpark_all()

    async def _key(self, path: str, real_path: RealPath) -> str:
        try:
            return await real_path(path)
        except OSError as error:
            raise ToolError(os_error_text(error, "realpath", path)) from error


def _real_path(path: str) -> str:
    try:
        return os.path.realpath(path, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.realpath(path)  # resolves as much of it as is there


MUTATIONS: Final = MutationQueue()
"""The queue of this process."""
