"""The two streams of one connection, as the library uses them."""

from collections.abc import Callable
from typing import NamedTuple

from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage

from pinnace_agent.mcp.wire.outgoing import OutgoingMessages


class Streams(NamedTuple):
    """What comes, and what is sent."""

    receive: MemoryObjectReceiveStream[SessionMessage | Exception]
    send: OutgoingMessages
    is_current: Callable[[], bool] | None = None
    """Returns whether the server's program still sees what another one would that is started now. Blocks; for any
    thread. None: it is no program in a sandbox."""
