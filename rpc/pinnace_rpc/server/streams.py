"""What an agent needs of its input and its output: those of a process, or others in their place. For annotations."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol

import trio


class Input(Protocol):
    """The source of commands. Closed at the end of its `async with`."""

    async def __aenter__(self) -> object:
        """Do nothing."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> object:
        """Close it."""
        ...

    async def receive_some(self, max_bytes: int) -> bytes:
        """Return what is there, after waiting for something; empty: the end.

        Raises:
            trio.BrokenResourceError: It can't be read any more.
        """
        ...


class Output(Protocol):
    """The destination of records. Closed at the end of its `async with`."""

    async def __aenter__(self) -> object:
        """Do nothing."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> object:
        """Close it."""
        ...

    async def send_all(self, data: bytes) -> None:
        """Write everything; raises `trio.BrokenResourceError` if the reader has closed."""
        ...

    def write_now(self, data: bytes) -> int:
        """Write without waiting, and return the number of bytes written; raises OSError if it is 0."""
        ...

    async def wait_read(
        self, is_signalled: Callable[[], bool], finished: trio.Event, on_progress: Callable[[], object] = bool
    ) -> None:
        """Wait until everything is written, as long as the reader reads.

        Args:
            is_signalled: Whether a signal ends the process.
            finished: Everything is written.
            on_progress: Called at first, and for each progress.
        """
        ...
