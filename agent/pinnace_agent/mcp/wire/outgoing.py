"""What is to be sent to a server: kept in memory up to a limit, so that no call and no abort waits for a slow reader.

The library writes here as to a stream. One task sends.
"""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio
import trio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from pinnace_agent.mcp import limits


class OutgoingMessages:
    """The messages to one server that were not sent yet."""

    def __init__(self, answered: Callable[[object], None], overflow: Callable[[str], None]) -> None:
        """Be empty.

        Args:
            answered: Called with the id of a request of the server that has its answer.
            overflow: Called with the reason when the server does not read; the connection has to end.
        """
        self._answered = answered
        self._overflow = overflow
        self._waiting: deque[tuple[SessionMessage, int]] = deque()
        self._bytes = 0
        self._filled = trio.Event()
        self._is_closed = False

    async def send(self, item: SessionMessage) -> None:
        """Take a message. Never waits for the server.

        Raises:
            BrokenResourceError: The connection has ended.
        """
        if not self.put(item):
            raise anyio.BrokenResourceError
        await trio.lowlevel.checkpoint_if_cancelled()

    def put(self, item: SessionMessage) -> bool:
        """Take a message; return whether it may still be sent."""
        if self._is_closed:
            return False
        message = item.message
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._answered(message.id)
        size = len(message.model_dump_json(by_alias=True, exclude_unset=True))
        if self._bytes + size > limits.UNSENT_BYTES:
            self.close()
            self._overflow("it does not read what is sent to it")
            return False
        self._bytes += size
        self._waiting.append((item, size))
        self._filled.set()
        return True

    async def next(self) -> SessionMessage:
        """Return the next message to send; wait for one."""
        while not self._waiting:
            self._filled = trio.Event()
            await self._filled.wait()
        item, size = self._waiting.popleft()
        self._bytes -= size
        return item

    def close(self) -> None:
        """Take nothing more."""
        self._is_closed = True

    async def aclose(self) -> None:
        """Take nothing more."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Take nothing more."""
        self.close()
