"""The three tools that read resources of servers, with the names, parameters and results of the original.

Resources that are pages to be drawn, and icons, are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pinnace_agent.extensions.events.results import ToolResult
from pinnace_agent.extensions.registration.registrations import ToolDefinition
from pinnace_agent.files.relaxed_json import is_list, is_object
from pinnace_agent.mcp.content import ModelContent, limited, pretty_json, save_output, shown_contents
from pinnace_agent.mcp.ports import CallTimedOut, LinkLost, ServerError
from pinnace_agent.mcp.server import Server
from pinnace_agent.tools.base import ToolError

LIST: Final = "list_mcp_resources"
LIST_TEMPLATES: Final = "list_mcp_resource_templates"
READ: Final = "read_mcp_resource"
READING: Final = "resources/read"
"""Stands for the tools in `readOnlyTools` of an entry."""
NAMES: Final = frozenset({LIST, LIST_TEMPLATES, READ})

_SERVER: Final = {"type": "string", "description": "The name of the MCP server; without it, all servers"}
_CURSOR: Final = {"type": "string", "description": "The nextCursor of an earlier result; needs server"}
_LISTED: Final = {"type": "object", "properties": {"server": _SERVER, "cursor": _CURSOR}}
_READ: Final = {
    "type": "object",
    "properties": {
        "server": {"type": "string", "description": "The name of the MCP server"},
        "uri": {"type": "string", "description": "The URI of the resource"},
    },
    "required": ["server", "uri"],
}
_DRAWN: Final = "text/html;profile=mcp-app"


class Resources:
    """The resources of all servers."""

    def __init__(self, servers: Callable[[], Sequence[Server]]) -> None:
        """Read those of the servers that `servers` returns."""
        self._servers = servers

    def tools(self) -> list[ToolDefinition]:
        """Return the tools. They change nothing if the user says so of every server, by `resources/read`."""
        # DEVIATION D-91: they are not read-only by themselves.
        enabled = [server.entry for server in self._servers() if server.entry.is_enabled]
        is_safe = all(entry.is_read_only(READING) for entry in enabled)
        listing = "List the {} that MCP servers offer, as JSON: those of one server, a page at a time, or of all"
        return [
            ToolDefinition(LIST, listing.format("resources"), _LISTED, self._list, is_read_only=is_safe),
            ToolDefinition(
                LIST_TEMPLATES,
                listing.format("templates of resources' URIs"),
                _LISTED,
                self._list_templates,
                is_read_only=is_safe,
            ),
            ToolDefinition(READ, "Read a resource of an MCP server", _READ, self._read, is_read_only=is_safe),
        ]

    async def _list(self, _ctx: object, params: Mapping[str, object]) -> ToolResult:
        return await self._listed(params, "resources/list", "resources")

    async def _list_templates(self, _ctx: object, params: Mapping[str, object]) -> ToolResult:
        return await self._listed(params, "resources/templates/list", "resourceTemplates")

    async def _listed(self, params: Mapping[str, object], method: str, key: str) -> ToolResult:
        name, cursor = params.get("server"), params.get("cursor")
        answer: dict[str, object]
        if isinstance(name, str):
            server = self._named(name)
            try:
                page = await server.request(method, {"cursor": cursor} if isinstance(cursor, str) else {})
            except (ServerError, CallTimedOut, LinkLost) as error:
                raise ToolError(failure_text(server, error)) from None
            answer = {"server": name, key: _items(server, page.get(key))}
            if isinstance(page.get("nextCursor"), str):
                answer["nextCursor"] = page["nextCursor"]
        elif cursor is not None:
            raise ToolError("cursor: is the one of a server, so server is needed, too")
        else:
            items: list[object] = []
            errors: dict[str, str] = {}
            for server in self._offering():
                try:
                    items += _items(server, await server.pages(await server.ready(), method, key))
                except (ServerError, CallTimedOut, LinkLost) as error:
                    errors[server.name] = failure_text(server, error)
            answer = {key: items, **({"errors": errors} if errors else {})}
        return _result(limited(_said(pretty_json(answer)), save_output), answer)

    async def _read(self, _ctx: object, params: Mapping[str, object]) -> ToolResult:
        server = self._named(str(params["server"]))
        try:
            result = await server.request("resources/read", {"uri": str(params["uri"])})
        except (ServerError, CallTimedOut, LinkLost) as error:
            raise ToolError(failure_text(server, error)) from None
        contents = result.get("contents")
        read = [each for each in contents if is_object(each)] if is_list(contents) else []
        answer = {"server": server.name, "uri": params["uri"], "contents": read}
        return _result(shown_contents(read, save_output), answer)

    def _offering(self) -> list[Server]:
        return [server for server in self._servers() if server.offers("resources")]

    def _named(self, name: str) -> Server:
        servers = {server.name: server for server in self._servers() if server.entry.is_enabled}
        if (server := servers.get(name)) is None:
            raise ToolError(f"There is no MCP server {name}. There are: {', '.join(servers) or 'none'}")
        return server


def failure_text(server: Server, error: Exception) -> str:
    """Return why a request to a server has no result, for a model."""
    match error:
        case CallTimedOut():
            return f"The MCP server {server.name} has not answered within {server.entry.timeout_s:g} seconds."
        case LinkLost():
            return f"The MCP server {server.name} can't be reached: {error}"
        case _:
            return f"The MCP server {server.name} has refused: {error}"


def _items(server: Server, items: object) -> list[object]:
    found: list[object] = []
    for each in items if is_list(items) else []:
        if is_object(each) and not str(each.get("uri", "")).startswith("ui://") and each.get("mimeType") != _DRAWN:
            shown = {key: value for key, value in each.items() if key not in ("icons", "_meta")}
            found.append({"server": server.name, **shown})
    return found


def _said(text: str) -> ModelContent:
    shown = ModelContent()
    shown.say(text)
    return shown


def _result(shown: ModelContent, structured: object) -> ToolResult:
    details = None if shown.full_output_path is None else {"fullOutputPath": shown.full_output_path}
    return ToolResult(list(shown.blocks), details, structured)
