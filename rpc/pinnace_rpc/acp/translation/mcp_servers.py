"""The MCP servers of a session: as a client hands them over, and as it sees them when one changes."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import trio

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation.params import InvalidParams, Params
from pinnace_rpc.acp.translation.shown import Json

_LISTS: Final[Mapping[str, Sequence[str]]] = {"stdio": ("args", "env"), "http": ("headers",)}
"""The lists of each type; the last one is of pairs, each with a name and a value."""
_SERVED: Final = "acp"
"""The type of servers that the client serves over its connection."""
Relay: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the command line of a program that stands for a server of the client's, by the id of the server."""
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


def read_servers(params: Params, required: Collection[str], relay: Relay) -> str | None:
    """Return the MCP servers of a request, for the agent of its session; None: there are none.

    Args:
        params: Of the request.
        required: The fields that must be there, of those that a version may leave out.
        relay: Returns the program for a server that the client serves.

    Raises:
        InvalidParams: One is not described completely, is of a type that was not offered, or has the name of another.
    """
    if params.fields.get("mcpServers") is None:
        return None
    names: list[str] = []
    described: list[Json] = []
    for server in params.objects("mcpServers"):
        name = server.text("name")
        if name in names:
            raise server.invalid("name", f"{name!r} is the name of another server, too")
        names.append(name)
        described.append(_read_server(server, required, relay))
    if not described:
        return None
    from pinnace_agent.mcp.configuration import client_text  # with the first server

    return client_text(described)


def _read_server(given: Params, required: Collection[str], relay: Relay) -> Json:
    kind = given.text("type") if "type" in required else given.optional_text("type") or "stdio"
    if kind == _SERVED:
        return _served(given, relay)
    if kind not in _LISTS:
        raise given.invalid("type", f"{kind[:50]} is not supported; use one of {', '.join((*_LISTS, _SERVED))}")
    empty: Json = {name: [] for name in _LISTS[kind] if name not in required and given.fields.get(name) is None}
    server = Params({**given.fields, **empty}, given.path)
    *texts, pairs = _LISTS[kind]
    server.text("command" if kind == "stdio" else "url")
    for name in texts:
        server.texts(name)
    for pair in server.objects(pairs):
        pair.text("name")
        pair.text("value")
    from pinnace_agent.mcp.configuration import client_problem

    if (problem := client_problem(server.fields)) is not None:
        raise InvalidParams(server.path, problem)
    return server.fields


def _served(given: Params, relay: Relay) -> Json:
    """Describe a server of the client's as the program that stands for it."""
    try:
        command, *words = relay(given.text("serverId"))
    except OSError as error:
        raise given.invalid("serverId", f"can't be served here: {error.strerror}") from None
    return {"name": given.text("name"), "type": "stdio", "command": command, "args": words, "env": []}
