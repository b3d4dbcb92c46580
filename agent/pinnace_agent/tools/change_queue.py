"""Runs the calls that change one file one after another, in call order; calls for different files do not wait.

Has no knowledge of the change itself. Tools of extensions that write files are expected to use `FILE_CHANGES` too
(`file_mutation` of the extension API). Rule R-TOL-03.
"""

import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.files import tool_calls
from pinnace_agent.tools.base import ApprovalOutdated, ToolError
from pinnace_agent.tools.paths import os_error_text


@dataclass(slots=True)
class _FileLock:
    """The lock of one file, with the number of calls that hold it or wait for it. A `trio.Lock` is fair."""

    lock: trio.Lock = field(default_factory=trio.Lock)
    users: int = 0


async def real_path(path: str) -> str:
    """Return a path of this machine with all links followed, as far as the path exists."""
    return await trio.to_thread.run_sync(tool_calls.real_path, path)


async def unfollowed(path: str) -> str:
    """Return a path unchanged: for files that are on another machine."""
    await trio.lowlevel.checkpoint()
    return path


RealPath = Callable[[str], Awaitable[str]]

NOT_BOUND: Final = (
    "This call was approved for one file of this machine, and the tool's files are elsewhere, so nothing was changed"
)
"""The result of a call that is bound to a file while the tool's files are not on this machine."""


@asynccontextmanager
async def bound_to(bound_path: str | None, path: str, real_path: RealPath) -> AsyncGenerator[None, None]:
    """Run the body only while `path` leads to the file that was approved, by its real path.

    The body must open `bound_path` without following links, so that a link created meanwhile makes it fail.

    Raises:
        ApprovalOutdated: The path leads elsewhere, before the body or after a failure of it.
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


class ChangeQueue:
    """One lock for each file that is being changed; a lock without users is discarded."""

    def __init__(self) -> None:
        self._arrivals: list[int] = []
        self._moved = trio.lowlevel.ParkingLot()
        self._locks: dict[str, _FileLock] = {}

    @asynccontextmanager
    async def hold(self, path: str, order: int, real_path: RealPath | None = real_path) -> AsyncGenerator[None, None]:
        """Hold the lock of a file until the body has ended, however it ends.

        Calls that start together get the lock by `order`, since trio starts tasks in random order. Cancelling while
        waiting leaves the queue.

        Args:
            path: Absolute.
            order: `ToolContext.order` of the call.
            real_path: Follows links, so that two names of a file share a lock; by default on this machine. None takes
                the path as it is.

        Raises:
            ToolError: The path can't be resolved, e.g. a loop of links. A missing file is no error.
        """
        key, entry = await self._register(path, order, real_path)
        try:
            async with entry.lock:
                yield
        finally:
            entry.users -= 1
            if not entry.users:
                del self._locks[key]

    async def _register(self, path: str, order: int, real_path: RealPath | None) -> tuple[str, _FileLock]:
        heapq.heappush(self._arrivals, order)
        try:
            # After one pass of the scheduler, all calls that were started together have arrived.
            await trio.lowlevel.checkpoint()
            while self._arrivals[0] != order:
                await self._moved.park()
            key = path if real_path is None else await self._key(path, real_path)
            entry = self._locks.setdefault(key, _FileLock())
            entry.users += 1
            return key, entry
        finally:
            self._arrivals.remove(order)
            heapq.heapify(self._arrivals)
            self._moved.unpark_all()

    async def _key(self, path: str, real_path: RealPath) -> str:
        try:
            return await real_path(path)
        except OSError as error:
            raise ToolError(os_error_text(error, "realpath", path)) from error


FILE_CHANGES: Final = PerAgent(ChangeQueue)
"""The queue of each agent."""
