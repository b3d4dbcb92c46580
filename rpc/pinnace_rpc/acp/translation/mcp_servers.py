"""The MCP servers of a session, as a client sees them: in the response that opens it, and whenever one changes."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from pinnace_agent.core.json_access import as_array, as_object

Json = Mapping[str, object]

_UNSETTLED: Final = frozenset({"starting", "connecting"})
UNUSED: Final = "the agent was at work already, with the servers of its start; it uses these when it starts next"
"""Why servers of a client are not used."""


class McpServers:
    """The servers of one session."""

    def __init__(self, state: Json) -> None:
        """Take those that `get_state` has."""
        servers = [as_object(each) or {} for each in as_array(state.get("mcpServers"))]
        self._servers: dict[object, Json] = {each.get("name"): each for each in servers}
        self._unused: Sequence[str] = ()
        self._changed = trio.Event()

    def take(self, record: Json) -> None:
        """Take an `mcp_status`."""
        if record.get("state") == "closed":
            self._servers.pop(record.get("name"), None)
        else:
            self._servers[record.get("name")] = record
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def request(self, servers: str) -> Sequence[str]:
        """Take the servers that a client hands over, as the agent is started with. Returns the names of unused ones."""
        wanted = as_object(json.loads(servers)) or {}
        used = {name for name, each in self._servers.items() if each.get("source") == "client"}
        self._unused = [name for name in wanted if name not in used]
        return self._unused

    async def settled(self) -> None:
        """Wait until each has been tried."""
        while any(each.get("state") in _UNSETTLED for each in self._servers.values()):
            await self._changed.wait()

    def described(self) -> list[Json]:
        """Return them for the client."""
        found: list[Json] = []
        for name, each in self._servers.items():
            error = {"error": each["error"]} if "error" in each else {}
            found.append({"name": name, "status": each.get("state"), "tools": each.get("tools"), **error})
        return [*found, *({"name": name, "status": "unused", "tools": 0, "error": UNUSED} for name in self._unused)]
