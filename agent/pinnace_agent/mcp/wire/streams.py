"""The two streams of one connection, as the library uses them."""

from typing import NamedTuple

from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage

from pinnace_agent.mcp.wire.outgoing import Outgoing


class Streams(NamedTuple):
    """What comes, and what is sent."""

    receive: MemoryObjectReceiveStream[SessionMessage | Exception]
    send: Outgoing
