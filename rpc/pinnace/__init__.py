"""What users import: names of the inner packages, resolved on first use.

`import pinnace` itself imports nothing else, so that it costs nothing. The inner packages may move things; these names
stay.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinnace_rpc.client import (
        AgentExited,
        AsyncioClient,
        BlockingClient,
        Client,
        ClientClosed,
        ClientFailure,
        CommandFailed,
        Dialogs,
        Event,
        Events,
        FellBehind,
        ProtocolError,
        Run,
        RunFailed,
        StartFailed,
        TextStream,
    )
    from pinnace_rpc.embedded import Agent, open_agent
    from pinnace_spec.records.parsing import parse_command
    from pinnace_spec.statechart.transitions import CHART, Transition
    from pinnace_spec.wire.framing import LineDecoder
    from pinnace_spec.wire.json_text import decode_line, encode_record
    from pinnace_statechart.machine import Chart

__all__ = [
    "CHART",
    "Agent",
    "AgentExited",
    "AsyncioClient",
    "BlockingClient",
    "Chart",
    "Client",
    "ClientClosed",
    "ClientFailure",
    "CommandFailed",
    "Dialogs",
    "Event",
    "Events",
    "FellBehind",
    "LineDecoder",
    "ProtocolError",
    "Run",
    "RunFailed",
    "StartFailed",
    "TextStream",
    "Transition",
    "decode_line",
    "encode_record",
    "open_agent",
    "parse_command",
]

_HOMES = {
    "Agent": "pinnace_rpc.embedded",
    "open_agent": "pinnace_rpc.embedded",
    "AgentExited": "pinnace_rpc.client",
    "AsyncioClient": "pinnace_rpc.client",
    "BlockingClient": "pinnace_rpc.client",
    "Client": "pinnace_rpc.client",
    "ClientClosed": "pinnace_rpc.client",
    "ClientFailure": "pinnace_rpc.client",
    "CommandFailed": "pinnace_rpc.client",
    "Dialogs": "pinnace_rpc.client",
    "Event": "pinnace_rpc.client",
    "Events": "pinnace_rpc.client",
    "FellBehind": "pinnace_rpc.client",
    "ProtocolError": "pinnace_rpc.client",
    "Run": "pinnace_rpc.client",
    "RunFailed": "pinnace_rpc.client",
    "StartFailed": "pinnace_rpc.client",
    "TextStream": "pinnace_rpc.client",
    "CHART": "pinnace_spec.statechart.transitions",
    "Transition": "pinnace_spec.statechart.transitions",
    "LineDecoder": "pinnace_spec.wire.framing",
    "parse_command": "pinnace_spec.records.parsing",
    "decode_line": "pinnace_spec.wire.json_text",
    "encode_record": "pinnace_spec.wire.json_text",
    "Chart": "pinnace_statechart.machine",
}


def __getattr__(name: str) -> object:
    """Import the module that has a public name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
