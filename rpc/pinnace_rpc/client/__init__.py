"""A client for any agent that speaks the protocol, in another process: async on trio, or blocking.

Imports the specification and trio, never the agent: it works where only another agent of the family is installed.
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
)
from pinnace_rpc.client.records.events import Event
from pinnace_rpc.client.records.progress import Run
from pinnace_rpc.client.runs import TextStream
from pinnace_rpc.client.subscriptions import Events

__all__ = [
    "AgentExited",
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
    "TextStream",
]
