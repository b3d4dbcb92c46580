"""What the tiny agents of both versions share: lines, requests to the client, stored sessions, the model, MCP servers.

Imports nothing of the project: it is what a stranger would put in front of the judge. The model is at OPENAI_BASE_URL,
sessions are in a file of the home. The faults are the words that `is_wrong` is called with: the program's arguments.
"""

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

FAULTS = frozenset(sys.argv[1:])
STORE = Path(os.environ["HOME"]) / "sessions.json"
LOCK = Path(os.environ["HOME"]) / "lock"
"""Is there while a session works."""
ENDING: list[bool] = []
BEGUN: list["asyncio.Task[None]"] = []
"""Requests that are carried out beside those that follow."""
ABILITIES: dict[str, Any] = {}
"""Those of the client."""
REPLIES: dict[Any, "asyncio.Future[dict[str, Any]]"] = {}
numbers = itertools.count(1)


def is_wrong(fault: str) -> bool:
    return fault in FAULTS


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


class Refused(Exception):
    def __init__(self, code: int, text: str, **data: Any) -> None:
        super().__init__(text)
        self.code = code
        self.data = data


# Lines.


def write(**message: Any) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


async def ask(method: str, **params: Any) -> dict[str, Any]:
    """Ask the client; give its response. Cancelled, the request is withdrawn."""
    identity = next(numbers)
    REPLIES[identity] = asyncio.get_running_loop().create_future()
    write(id=identity, method=method, params=params)
    try:
        return await REPLIES[identity]
    except asyncio.CancelledError:
        if not is_wrong("keeps-its-form"):
            write(method="$/cancel_request", params={"requestId": identity})
        raise


# Sessions on the disk.


class Stored(Protocol):
    id: str
    cwd: str
    messages: list[dict[str, Any]]
    shown: list[dict[str, Any]]


def stored_sessions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STORE.read_text()) if STORE.exists() else {}
    return found


def save(session: Stored) -> None:
    if is_wrong("saves-at-its-end") and not ENDING:
        return
    stored = stored_sessions()
    stored[session.id] = {
        **stored.get(session.id, {}),
        "cwd": session.cwd,
        "messages": session.messages,
        "shown": session.shown,
    }
    STORE.write_text(json.dumps(stored))


def save_all(sessions: dict[str, Any]) -> None:
    """Save what an agent that saves only at its end has not saved."""
    ENDING.append(True)
    for session in sessions.values() if is_wrong("saves-at-its-end") else ():
        save(session)


# The model.


async def ask_model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> AsyncIterator[Any]:
    """Ask the model once; give text, thinking, calls and the finish reason as they come."""
    address = urlsplit(ROUTE["baseUrl"])
    body = json.dumps({"model": "m1", "stream": True, "messages": messages, "tools": tools}).encode()
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**24)
    try:
        head = f"POST {address.path}/chat/completions HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: close\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in ROUTE["headers"].items())
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        if b" 200 " not in await reader.readline():
            raise Refused(-32603, "the model has failed")
        async for line in reader:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            for choice in json.loads(line[6:])["choices"]:
                yield choice
    finally:
        writer.close()


ROUTE: dict[str, Any] = {"baseUrl": os.environ["OPENAI_BASE_URL"], "headers": {}}
"""Of the one provider, `fake`; empty: it is disabled."""


def list_providers(_: dict[str, Any]) -> dict[str, Any]:
    provider: dict[str, Any] = {"providerId": "fake", "supported": ["openai"], "required": False}
    if ROUTE or is_wrong("lists-the-disabled"):
        address = os.environ["OPENAI_BASE_URL"] if is_wrong("shows-its-first-address") else ROUTE.get("baseUrl", "")
        provider["current"] = {"apiType": "openai", "baseUrl": address}
    return {"providers": [provider]}


def set_provider(params: dict[str, Any]) -> dict[str, Any]:
    is_known = params["providerId"] == "fake" and params["apiType"] == "openai"
    if not (is_known and params["baseUrl"].startswith("http")) and not is_wrong("sets-any-provider"):
        raise Refused(-32602, "no such provider, protocol or address")
    former = ROUTE.get("headers", {}) if is_wrong("keeps-its-headers") else {}
    ROUTE.update(baseUrl=params["baseUrl"], headers={**former, **params.get("headers", {})})
    return {}


def disable_provider(params: dict[str, Any]) -> dict[str, Any]:
    if params["providerId"] == "fake":
        ROUTE.clear()
    elif is_wrong("disables-what-it-knows"):
        raise Refused(-32602, "no such provider")
    return {}


def check_provider() -> None:
    """Refuse a session that no model would answer."""
    if not ROUTE:
        raise Refused(-32000, "the provider is disabled")


PROVIDER_METHODS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "providers/list": list_providers,
    "providers/set": set_provider,
    "providers/disable": disable_provider,
}


async def answer_of_model(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]], show: Callable[[str, str], None]
) -> tuple[list[dict[str, Any]], str | None]:
    """Ask the model; show thoughts and texts as they come, keep its message, and return its calls and finish reason."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: list[dict[str, Any]] = []
    finish = None
    async for choice in ask_model(messages, tools):
        delta = choice.get("delta", {})
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        for kind, text in (("thought", thinking), ("message", delta.get("content"))):
            if text:
                show(kind, text)
        message["content"] += delta.get("content") or ""
        for part in delta.get("tool_calls", []):
            if "id" in part:
                calls.append({"id": part["id"], "type": "function", "function": {"name": "", "arguments": ""}})
            for name in ("name", "arguments"):
                calls[-1]["function"][name] += part["function"].get(name) or ""
        finish = choice.get("finish_reason") or finish
    messages.append({**message, "tool_calls": calls} if calls else message)
    return calls, finish


# MCP servers that the client serves over its own connection.


async def ask_server(server: str, method: str, **params: Any) -> dict[str, Any]:
    """Ask a server of the client; give what it answers."""
    inner = "the same" if is_wrong("asks-servers-by-one-id") else f"r{next(numbers)}"
    named = "another" if is_wrong("asks-another-server") else server
    identity = next(numbers)
    REPLIES[identity] = asyncio.get_running_loop().create_future()
    carried = {"serverId": named, "requestId": inner, "method": method, "params": params}
    write(id=identity, method="mcp/message", params=carried)
    try:
        response = await REPLIES[identity]
    except asyncio.CancelledError:
        if not is_wrong("keeps-asking-servers"):
            write(method="$/cancel_request", params={"requestId": identity})
        raise
    outcome = response.get("result") or {"error": response.get("error")}
    if "result" not in outcome:
        raise Refused(-32603, str(outcome["error"]))
    found: dict[str, Any] = outcome["result"]
    return found


def names_servers(message: Any) -> bool:
    """Say whether a request opens a session with servers of the client."""
    params = message.get("params") if isinstance(message, dict) else None
    servers = params.get("mcpServers") if isinstance(params, dict) else None
    return isinstance(servers, list) and any(isinstance(each, dict) and each.get("type") == "acp" for each in servers)


async def mcp_tools(servers: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return the tools of the client's servers by the names that the model has: the server's id and the tool's name."""
    found: dict[str, tuple[str, str]] = {}
    for each in [each for each in servers if each.get("type") == "acp"]:
        try:
            await ask_server(each["serverId"], "server/discover")
            listed = await ask_server(each["serverId"], "tools/list")
        except Refused:
            if is_wrong("needs-every-server"):
                raise
            continue
        for named in listed["tools"]:
            found[f"mcp__{each['name']}__{named['name']}"] = (each["serverId"], named["name"])
    return found


async def call_server(place: tuple[str, str], arguments: dict[str, Any]) -> str:
    """Call a tool of a server of the client; give its text."""
    server, name = place
    result = await ask_server(server, "tools/call", name=name, arguments=arguments)
    if is_wrong("hides-answers-of-servers"):
        return "done"
    return "".join(each.get("text", "") for each in result["content"])
