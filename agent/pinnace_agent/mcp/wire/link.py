"""One connection: the handshake by the library, requests with a clock of their own, and its end in words.

The library correlates requests, cancels them and reads what the server asks. The clock is here, since progress begins
it anew and a question to the user stops it.
"""

import itertools
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import trio
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext
from mcp.shared.dispatcher import CallOptions
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    JSONRPCError,
    ListRootsResult,
    Root,
)
from pydantic import FileUrl, ValidationError

from pinnace_agent.mcp.ports import (
    CallTimedOut,
    Hooks,
    Link,
    LinkLost,
    NeedsAuth,
    OnProgress,
    ServerError,
    SessionExpired,
    Unreachable,
)
from pinnace_agent.mcp.wire.http import Address, Statuses, endpoint
from pinnace_agent.mcp.wire.incoming import REFUSED, Incoming
from pinnace_agent.mcp.wire.outgoing import Outgoing
from pinnace_agent.mcp.wire.stdio import Launch, program
from pinnace_agent.mcp.wire.streams import Streams

__all__ = ["Address", "Launch", "hold"]

_FIRST_ID: Final = 1_000
"""The library numbers its own requests from 1."""
_UNAUTHORIZED: Final = 401
_NOT_FOUND: Final = 404
_SERVER_ERROR: Final = 500
_NOT_IMPLEMENTED: Final = 501
_TRANSIENT: Final = frozenset({408, 429})


@dataclass(slots=True)
class _Call:
    """A request without an answer."""

    timeout_s: float
    on_progress: OnProgress | None
    scope: trio.CancelScope
    value: float = -math.inf
    """The last progress; it must grow."""


class _Connection:
    """A `Link`, and the listener of its messages."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._calls: dict[int, _Call] = {}
        self._numbers = itertools.count(_FIRST_ID)
        self._questions = 0
        """To the user, that are open: no clock runs."""
        self.statuses = Statuses()
        self.incoming = Incoming(self)
        self.outgoing = Outgoing(self.incoming.answered, self.lost)
        self.ended = trio.Event()
        self.reason = ""
        self.capabilities: Mapping[str, object] = {}
        self.instructions = ""
        self.protocol = ""
        self._dispatcher: JSONRPCDispatcher | None = None

    # What the connection reports.

    def lost(self, reason: str) -> None:
        """Take the end of the connection; the first reason counts."""
        if not self.ended.is_set():
            self.reason = reason
            self.ended.set()

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def progressed(self, token: object, value: float, total: float | None, message: str | None) -> None:
        call = self._calls.get(token) if isinstance(token, int) else None
        if call is None or value <= call.value:
            return
        call.value = value
        self._wind(call)
        if call.on_progress is not None:
            call.on_progress(value, total, message)

    def logged(self, params: Mapping[str, object]) -> None:
        self._hooks.logged(params)

    def changed(self, what: str) -> None:
        self._hooks.changed(what)

    def refuse(self, request_id: object, text: str) -> None:
        assert isinstance(request_id, int | str)
        error = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=REFUSED, message=text))
        self.outgoing.put(SessionMessage(error))

    # The handshake.

    def session(self, streams: Streams, release: str) -> ClientSession:
        """Return the library's session over some streams."""
        self._dispatcher = JSONRPCDispatcher(streams.receive, streams.send)
        return ClientSession(
            dispatcher=self._dispatcher,
            elicitation_callback=None if self._hooks.elicit is None else self._elicit,
            list_roots_callback=self._roots,
            client_info=Implementation(name="pinnace", version=release),
        )

    async def agree(self, session: ClientSession) -> None:
        """Do the handshake.

        Raises:
            LinkLost: The server refuses, or does not speak the protocol.
        """
        try:
            result = await session.initialize()
        except MCPError as error:
            raise self._refused(error, 1) from None
        except ValidationError:
            raise LinkLost("its answer to initialize is not one of the protocol") from None
        except RuntimeError as error:
            raise LinkLost(str(error)) from None
        self.capabilities = result.capabilities.model_dump(by_alias=True, exclude_none=True)
        self.instructions = result.instructions or ""
        self.protocol = result.protocol_version

    def _refused(self, error: MCPError, number: int) -> LinkLost:
        status = self.statuses.take(number)
        if status == _UNAUTHORIZED:
            return NeedsAuth("the server wants you to sign in")
        if self.reason:
            return LinkLost(self.reason)
        if status is None:
            return LinkLost(_text(error))
        is_transient = status in _TRANSIENT or (status >= _SERVER_ERROR and status != _NOT_IMPLEMENTED)
        return (Unreachable if is_transient else LinkLost)(f"HTTP status {status}")

    # Requests.

    async def request(
        self, method: str, params: Mapping[str, object], timeout_s: float, on_progress: OnProgress | None = None
    ) -> Mapping[str, object]:
        number = next(self._numbers)
        body = dict(params)
        if on_progress is not None:
            body["_meta"] = {"progressToken": number}
        options: CallOptions = {"request_id": number, "headers": {MCP_PROTOCOL_VERSION_HEADER: self.protocol}}
        assert self._dispatcher is not None
        call = self._calls[number] = _Call(timeout_s, on_progress, trio.CancelScope())
        self._wind(call)
        try:
            with call.scope:
                return await self._dispatcher.send_raw_request(method, body or None, options)
        except MCPError as error:
            raise self._failure(error, number) from None
        finally:
            del self._calls[number]
        raise CallTimedOut

    def _failure(self, error: MCPError, number: int) -> Exception:
        status = self.statuses.take(number)
        if status == _UNAUTHORIZED:
            return NeedsAuth("the server wants you to sign in")
        if status == _NOT_FOUND and self.statuses.session is not None:
            return SessionExpired("the server does not know the session any more")
        if error.code == CONNECTION_CLOSED:
            return LinkLost(self.reason or _text(error))
        text = _text(error)
        return ServerError(error.code, text if status is None else f"HTTP status {status}: {text}")

    def _wind(self, call: _Call) -> None:
        is_asking = self._questions > 0
        call.scope.deadline = math.inf if is_asking else trio.current_time() + call.timeout_s

    # What the server asks.

    async def _roots(self, context: ClientRequestContext) -> ListRootsResult:
        del context
        folder = Path(self._hooks.roots())
        return ListRootsResult(roots=[Root(uri=FileUrl(folder.as_uri()), name=folder.name or "/")])

    async def _elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        del context
        assert self._hooks.elicit is not None
        self._questions += 1
        self._wind_all()
        try:
            answer = await self._hooks.elicit(params.model_dump(by_alias=True, exclude_none=True))
        finally:
            self._questions -= 1
            self._wind_all()
        return ElicitResult.model_validate(answer)

    def _wind_all(self) -> None:
        for call in self._calls.values():
            self._wind(call)


async def hold(
    to: Launch | Address,
    hooks: Hooks,
    release: str,
    ending_s: Callable[[], float],
    use: Callable[[Link], Awaitable[None]],
) -> None:
    """Connect to a server, and let `use` have the connection; it is cancelled when that ends. Ends the connection.

    Args:
        to: How it is reached.
        hooks: What it may ask and report.
        release: Of this program.
        ending_s: Returns how long its end may take.
        use: Works with the connection; the server is left when it returns.

    Raises:
        LinkLost: There is no connection, the handshake fails, or the connection has ended.
    """
    connection = _Connection(hooks)
    transport: AbstractAsyncContextManager[Streams]
    if isinstance(to, Launch):
        transport = program(to, connection.incoming, connection.outgoing, connection.lost, ending_s)
    else:
        transport = endpoint(to, connection.statuses, connection.incoming, connection.outgoing, connection.lost)
    try:
        async with transport as streams, connection.session(streams, release) as session:
            await connection.agree(session)
            await use(connection)
            connection.lost("the connection was closed")
            return
    except LinkLost as error:
        connection.lost(str(error))
        raise
    except Exception as error:  # of the library, or of the network: it is the end of one connection
        connection.lost(_network_text(error))
        if not connection.protocol:
            raise Unreachable(connection.reason) from None
    finally:
        connection.lost("the connection was closed")
    raise LinkLost(connection.reason)


def _network_text(error: BaseException) -> str:
    """Return what has happened; the library wraps it into groups."""
    first = error
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]  # cast: any group
    return str(first) or type(first).__name__


def _text(error: MCPError) -> str:
    return error.error.message or f"error {error.code}"
