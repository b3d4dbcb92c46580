"""The connection to the agent, which is being started when the screen is there already. Must not know widgets."""

import asyncio
from typing import TYPE_CHECKING

import pinnace

if TYPE_CHECKING:
    from pinnace import AsyncioClient


class Connection:
    """The client of the agent, as soon as there is one."""

    def __init__(self) -> None:
        """Begin without one."""
        self.current: AsyncioClient | None = None
        """None: the agent is being started, or has been left."""
        self.is_ready = asyncio.Event()
        """The conversation has been loaded for the first time."""

    @property
    def client(self) -> "AsyncioClient":
        """The client of the agent.

        Raises:
            CommandFailed: The agent is still being started.
        """
        if self.current is None:
            raise pinnace.CommandFailed("start", "the agent is still being started", None)
        return self.current

    @property
    def is_lost(self) -> bool:
        """Whether the connection to an agent of the host is lost, until it is attached to again."""
        return self.current is not None and not self.current.is_connected
