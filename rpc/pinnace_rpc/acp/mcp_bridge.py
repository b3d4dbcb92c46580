"""MCP servers that the editor serves over its own connection (`mcpServers` of the type `acp`).

An agent has servers that are programs. For such a server it starts the relay (`pinnace_agent.mcp.relay_program`), which
joins its standard streams to a socket here; what comes is passed on as `mcp/message`, and the answers go back. The
messages are those of MCP 2026-07-28, which needs no handshake: `initialize` is refused, so that the agent asks by
discovery. The sockets are in a folder of the user's alone, and end with the connection of the editor. Must not know
what a message means but whether it is a request, and which one is cancelled.
"""

import json
import math
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from pinnace_agent.core.json_access import as_object
from pinnace_agent.shell.own_programs import own_program
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.translation.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Reply
from pinnace_spec.wire.framing import LineDecoder, TooLong

METHOD: Final = "mcp/message"
_RUN: Final = "from pinnace_agent.mcp.relay_program import main; sys.exit(main(sys.argv[1:]))"
_CHUNK_BYTES: Final = 64 * 1024
_BACKLOG: Final = 16
_PREFIX: Final = "pinnace-mcp-"
_MOST_BYTES: Final = 80
"""Of the path of a folder with sockets: that of a socket has 103 at most on some systems."""
_SHORT: Final = "/tmp"
"""Where folders are if that for temporary files has too long a path."""
_NO_HANDSHAKE: Final = "the editor serves no such server: it has no answer to server/discover"
"""What users see where discovery fails, too."""

Json = Mapping[str, Any]  # Any: JSON


def _short_folder() -> str:
    """Create a folder for this user alone whose sockets have paths that the system allows."""
    base = tempfile.gettempdir()
    is_short = len(os.fsencode(base)) + len(_PREFIX) <= _MOST_BYTES - 10
    return tempfile.mkdtemp(prefix=_PREFIX, dir=base if is_short else _SHORT)


class McpBridge:
    """The servers of one editor."""

    def __init__(self, nursery: trio.Nursery, outbox: Outbox) -> None:
        """Listen to nothing yet.

        Args:
            nursery: Gets the tasks that serve relays.
            outbox: Takes what is written for the client.
        """
        self._nursery = nursery
        self._outbox = outbox
        self._folder: str | None = None
        self._places: dict[str, Path] = {}
        """By the id of a server, its socket."""
        self._relays: set[_Relay] = set()
        self._count = 0
        self._scopes: set[trio.CancelScope] = set()
        """One for each server."""
        self._is_closed = False

    def command(self, server_id: str) -> Sequence[str]:
        """Return the words of the program that is a server of the editor, for an agent to start.

        Raises:
            OSError: There is no place for a socket.
        """
        if server_id not in self._places:
            if self._folder is None:
                self._folder = _short_folder()
            place = Path(self._folder) / f"{len(self._places)}.sock"
            bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            bound.bind(str(place))
            bound.listen(_BACKLOG)
            self._places[server_id] = place
            self._nursery.start_soon(
                self._listen, trio.SocketListener(trio.socket.from_stdlib_socket(bound)), server_id
            )
        return (*own_program(_RUN), str(self._places[server_id]))

    def notified(self, params: Json) -> None:
        """Take a notification of the editor's about a request that is open; others are ignored."""
        for relay in self._relays:
            relay.notified(params)

    def close(self) -> None:
        """The editor is gone: end all relays. Idempotent."""
        self._is_closed = True
        for scope in self._scopes:
            scope.cancel()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def _listen(self, listener: trio.SocketListener, server_id: str) -> None:
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            if self._is_closed:
                scope.cancel()
            await trio.serve_listeners(partial(self._serve, server_id), [listener])

    async def _serve(self, server_id: str, stream: trio.SocketStream) -> None:
        self._count += 1
        relay = _Relay(self._outbox, server_id, f"{self._count}")
        self._relays.add(relay)
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await relay.run(stream)
        finally:
            self._relays.discard(relay)
            relay.withdraw_all()


class _Relay:
    """One agent that uses a server."""

    def __init__(self, outbox: Outbox, server_id: str, name: str) -> None:
        self._outbox = outbox
        self._server_id = server_id
        self._name = name
        self._open: dict[str, int] = {}
        """By the id that the editor has of a request, that of the request which carries it."""
        self._send, self._lines = trio.open_memory_channel[bytes](math.inf)

    async def run(self, stream: trio.SocketStream) -> None:
        """Pass messages on until the agent's end of the stream is closed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, stream)
            decoder = LineDecoder()
            while data := await stream.receive_some(_CHUNK_BYTES):
                decoder.receive_data(data)
                for line in decoder.lines():
                    await self._outbox.room()
                    self._take(line)
            nursery.cancel_scope.cancel()

    async def _write(self, stream: trio.SocketStream) -> None:
        async for line in self._lines:
            await stream.send_all(line)

    def _take(self, line: bytes | TooLong) -> None:
        try:
            message = None if isinstance(line, TooLong) else as_object(json.loads(line))
        except (ValueError, RecursionError):
            message = None
        if message is None or not isinstance(method := message.get("method"), str):
            return  # nothing that an agent writes
        params = as_object(message.get("params"))
        if "id" not in message:
            if method == "notifications/cancelled" and params is not None:
                self._withdraw(self._request_id(params.get("requestId")))
        elif method == "initialize":
            self._put({"id": message["id"], "error": {"code": METHOD_NOT_FOUND, "message": _NO_HANDSHAKE}})
        else:
            self._ask(message["id"], method, params)

    def _request_id(self, inner: object) -> str:
        return f"{self._name}:{json.dumps(inner)}"

    def _ask(self, inner: object, method: str, params: Json | None) -> None:
        request_id = self._request_id(inner)
        carried: dict[str, object] = {"serverId": self._server_id, "requestId": request_id, "method": method}
        if params is not None:
            carried["params"] = params

        def take(reply: Reply) -> None:
            self._open.pop(request_id, None)
            self._put({"id": inner, **_outcome(reply)})

        self._open[request_id] = self._outbox.ask(METHOD, carried, take)

    def notified(self, params: Json) -> None:
        """Pass a notification on, if it is about a request of this agent."""
        if params.get("serverId") != self._server_id or params.get("requestId") not in self._open:
            return
        more = {"params": given} if (given := as_object(params.get("params"))) is not None else {}
        self._put({"method": str(params.get("method")), **more})

    def _withdraw(self, request_id: str) -> None:
        if (request := self._open.pop(request_id, None)) is not None:
            self._outbox.withdraw(request)

    def withdraw_all(self) -> None:
        """Withdraw every request: the agent waits for none any more."""
        for request_id in list(self._open):
            self._withdraw(request_id)

    def _put(self, message: Json) -> None:
        with suppress(trio.BrokenResourceError):
            self._send.send_nowait(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def _outcome(reply: Reply) -> Json:
    """Return the result or the error of the inner request; the failure of the outer one is an error of it, too."""
    carrier = as_object(reply.result)
    if reply.error is None and carrier is not None:
        if "result" in carrier:
            return {"result": carrier["result"]}
        if (error := as_object(carrier.get("error"))) is not None:
            return {"error": error}
    failed = as_object(reply.error) or {"code": INTERNAL_ERROR, "message": "the client has returned no outcome"}
    return {"error": {name: failed[name] for name in ("code", "message", "data") if name in failed}}
