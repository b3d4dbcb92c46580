"""A client for any agent that speaks the protocol, in another process: async on trio or asyncio, or blocking.

Imports the specification and anyio, never the agent: it works where only another agent of the family is installed.
"""

from pinnace_rpc.client.blocking import BlockingClient, BlockingEvents, BlockingTextStream
from pinnace_rpc.client.client import Client
from pinnace_rpc.client.dialogs import Dialogs
from pinnace_rpc.client.failures import (
    AgentExited,
    ClientClosed,
    ClientFailure,
    CommandFailed,
    FellBehind,
    ProtocolError,
    RunFailed,
    StartFailed,
)
from pinnace_rpc.client.records.events import Event
from pinnace_rpc.client.records.progress import Run
from pinnace_rpc.client.runs import TextStream
from pinnace_rpc.client.subscriptions import Events

AsyncioClient = Client
"""The same client, under the name that it has had for asyncio."""

__all__ = [
    "AgentExited",
    "AsyncioClient",
    "BlockingClient",
    "BlockingEvents",
    "BlockingTextStream",
    "Client",
    "ClientClosed",
    "ClientFailure",
    "CommandFailed",
    "Dialogs",
    "Event",
    "Events",
    "FellBehind",
    "ProtocolError",
    "Run",
    "RunFailed",
    "StartFailed",
    "TextStream",
]
