"""The MCP servers that the client of a scenario serves over its connection: one tool, `echo`, with a fixed answer.

They speak version 2026-07-28, which needs no handshake. Pure: an outcome for a message.
"""

from collections.abc import Mapping
from typing import Any, Final

OPEN: Final = "open"
"""The answer of a tool whose call is left open."""
_METHOD_NOT_FOUND: Final = -32601
_COMPLETE: Final[Mapping[str, Any]] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_INFO: Final[Mapping[str, Any]] = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "pinnace-conform", "version": "1"},
}
_ECHO: Final[Mapping[str, Any]] = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {"said": {"type": "string"}}},
}


def mcp_outcome(params: Mapping[str, Any], answers: Mapping[str, str]) -> Mapping[str, object] | None:
    """Return the outcome of an inner request, as the response of `mcp/message` carries it; None: it is left open.

    Args:
        params: Of `mcp/message`, for a server that is served.
        answers: By the id of a server, what its tool answers.
    """
    match params["method"]:
        case "server/discover":
            return {"result": {**_COMPLETE, **_INFO}}
        case "tools/list":
            return {"result": {**_COMPLETE, "tools": [_ECHO]}}
        case "tools/call" if answers[params["serverId"]] == OPEN:
            return None
        case "tools/call":
            content = [{"type": "text", "text": answers[params["serverId"]]}]
            return {"result": {"resultType": "complete", "content": content}}
        case _:
            return {"error": {"code": _METHOD_NOT_FOUND, "message": f"no method {params['method']}"}}
