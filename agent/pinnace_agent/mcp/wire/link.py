"""One connection: the handshake by the library, requests with a clock of their own, and its end in words.

The library correlates requests, cancels them and reads what the server asks. The clock is here, since progress begins
it anew and a question to the user stops it.
"""

import itertools
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import trio
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext
from mcp.shared.dispatcher import CallOptions
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    PROTOCOL_VERSION_META_KEY,
    DiscoverResult,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    InitializeResult,
    JSONRPCError,
    ListRootsResult,
    Root,
)
from pydantic import FileUrl, ValidationError

from pinnace_agent.config.server_entries import Protocol
from pinnace_agent.files.relaxed_json import is_list, is_object
from pinnace_agent.mcp.ports import (
    CallTimedOut,
    Challenge,
    LinkLost,
    NeedsAuth,
    OnProgress,
    ServerError,
    ServerHooks,
    ServerLink,
    SessionExpired,
    Unreachable,
)
from pinnace_agent.mcp.tasks import EXTENSION, NAMED_BY
from pinnace_agent.mcp.wire.http import Address, Statuses, endpoint
from pinnace_agent.mcp.wire.incoming import REFUSED, IncomingMessages
from pinnace_agent.mcp.wire.outgoing import OutgoingMessages
from pinnace_agent.mcp.wire.stdio import Launch, program
from pinnace_agent.mcp.wire.streams import Streams

__all__ = ["Address", "Launch", "hold"]

_FIRST_ID: Final = 1_000
"""The library numbers its own requests from 1."""
_MOST_ROUNDS: Final = 10
"""How often a server may ask for something before it answers one request."""
_LISTEN: Final = "subscriptions/listen"
_LISTENED: Final[Mapping[str, str]] = {"tools": "toolsListChanged", "prompts": "promptsListChanged"}
"""The lists whose changes matter, and what asks for them."""
_LISTENED_TASKS: Final = "taskIds"
_NAMED_BY: Final[Mapping[str, str]] = {**NAME_BEARING_METHODS, **NAMED_BY}
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_INSUFFICIENT: Final = "insufficient_scope"
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
    is_refused: bool = False
    """The server has answered with an error. The library has one of its own, with a code that servers use, too."""


class _Connection:
    """A `ServerLink`, and the listener of its messages."""

    def __init__(self, hooks: ServerHooks, release: str, sign_in_text: str, *, is_http: bool) -> None:
        self._hooks = hooks
        self._is_http = is_http
        self._sign_in_text = sign_in_text
        self._calls: dict[int, _Call] = {}
        self._numbers = itertools.count(_FIRST_ID)
        self._questions = 0
        """To the user, that are open: no clock runs."""
        self.statuses = Statuses()
        self.incoming = IncomingMessages(self)
        self.outgoing = OutgoingMessages(self.incoming.answered, self.lost)
        self.ended = trio.Event()
        self.reason = ""
        self.details = ""
        """The end of the server's stderr."""
        self.capabilities: Mapping[str, object] = {}
        self.instructions = ""
        self.protocol = ""
        self.announces: Sequence[str] = ()
        self.is_current: Callable[[], bool] | None = None
        self._info = Implementation(name="pinnace", version=release)
        self._stamp: Mapping[str, object] | None = None
        """What every request says of the client, where no handshake has; None: one has."""
        self._mirrored: Mapping[str, Mapping[tuple[str, ...], str]] = {}
        """The arguments that a call repeats as headers: their paths and the headers, by tool."""
        self._dispatcher: JSONRPCDispatcher | None = None

    # What the connection reports.

    def lost(self, reason: str, details: str = "") -> None:
        """Take the end of the connection; the first reason counts."""
        if not self.ended.is_set():
            self.reason, self.details = reason, details
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

    def refused(self, request_id: object) -> None:
        if (call := self._calls.get(request_id) if isinstance(request_id, int) else None) is not None:
            call.is_refused = True

    def logged(self, params: Mapping[str, object]) -> None:
        self._hooks.logged(params)

    def changed(self, what: str) -> None:
        self._hooks.changed(what)

    def task_changed(self, task_id: str) -> None:
        self._hooks.task_changed(task_id)

    def listening(self, what: Mapping[str, object] | None) -> None:
        for each in self.announces:  # what has changed before is not reported
            if what is None or what.get(_LISTENED[each]) is True:
                self._hooks.changed(each)
        tasks = None if what is None else what.get(_LISTENED_TASKS)
        for task_id in tasks if is_list(tasks) else ():
            self._hooks.task_changed(str(task_id))

    def refuse(self, request_id: object, text: str) -> None:
        assert isinstance(request_id, int | str)
        error = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=REFUSED, message=text))
        self.outgoing.put(SessionMessage(error))

    # The handshake.

    def session(self, streams: Streams) -> ClientSession:
        """Return the library's session over some streams."""
        self._dispatcher = JSONRPCDispatcher(streams.receive, streams.send)
        return ClientSession(
            dispatcher=self._dispatcher,
            elicitation_callback=None if self._hooks.elicit is None else self._elicit,
            list_roots_callback=self._roots,
            client_info=self._info,
        )

    async def agree(self, session: ClientSession, protocol: Protocol) -> None:
        """Agree on a version of the protocol: by the handshake, and by discovery where the server refuses that.

        Args:
            session: The library's session.
            protocol: `auto`: discovery first.

        Raises:
            LinkLost: The server refuses, or does not speak the protocol.
        """
        try:
            result = await self._agreed(session, protocol)
        except MCPError as error:
            raise self._refused(error) from None
        except ValidationError:
            raise LinkLost("its answer to initialize is not one of the protocol") from None
        except RuntimeError as error:
            raise LinkLost(str(error)) from None
        self.capabilities = result.capabilities.model_dump(by_alias=True, exclude_none=True)
        self.instructions = result.instructions or ""
        self.protocol = session.protocol_version or ""
        if isinstance(result, DiscoverResult):
            self._stamp = {
                PROTOCOL_VERSION_META_KEY: self.protocol,
                CLIENT_INFO_META_KEY: self._info.model_dump(by_alias=True, mode="json", exclude_none=True),
                CLIENT_CAPABILITIES_META_KEY: self._offered(),
            }
            offered = ((name, self.capabilities.get(name)) for name in _LISTENED)
            self.announces = [name for name, each in offered if is_object(each) and each.get("listChanged") is True]

    async def _agreed(self, session: ClientSession, protocol: Protocol) -> InitializeResult | DiscoverResult:
        refusals = (MCPError, RuntimeError, ValidationError)
        if protocol == "auto":
            try:
                return await session.discover()
            except refusals:
                if self._refuses_more_than_the_way():
                    raise
                return await session.initialize()
        try:
            return await session.initialize()
        except refusals as first:
            if self._refuses_more_than_the_way():
                raise
            status, wait_s = self.statuses.newest, self.statuses.wait_s
            try:
                return await session.discover()
            except refusals:
                if self._refuses_more_than_the_way():
                    raise
                # It has neither: what it has said to the handshake is what its user knows it by.
                self.statuses.newest, self.statuses.wait_s = status, wait_s
                raise first from None

    def _refuses_more_than_the_way(self) -> bool:
        """Return whether a server that has refused one way to agree on a version would refuse the other one, too."""
        refusal = self.statuses.newest
        if self.ended.is_set() or refusal is None:
            return self.ended.is_set()
        return refusal.status == _UNAUTHORIZED or self._wants_sign_in(refusal) or _is_busy(refusal.status)

    def _offered(self) -> Mapping[str, object]:
        """Return the capabilities that later versions send with each request, as the library sends them before."""
        asks: dict[str, object] = {} if self._hooks.elicit is None else {"elicitation": {"form": {}, "url": {}}}
        return {**asks, "roots": {"listChanged": True}, "extensions": {EXTENSION: {}}}

    def _refused(self, error: MCPError) -> LinkLost:
        refusal = self.statuses.newest
        if refusal is not None and self._wants_sign_in(refusal):
            return NeedsAuth(self._sign_in_text, refusal)
        if self.reason:
            return LinkLost(self.reason, self.details)
        if refusal is None:
            return LinkLost(_text(error))
        status = refusal.status
        if not _is_busy(status):
            return LinkLost(f"HTTP status {status}")
        wait_s = self.statuses.wait_s
        asked = "" if wait_s is None else f" (it asks to wait {wait_s:.0f} seconds)"
        return Unreachable(f"HTTP status {status}{asked}", wait_s)

    # Requests.

    def declare(self, schemas: Mapping[str, Mapping[str, object]]) -> Mapping[str, str]:
        if self._stamp is None or not self._is_http:
            return {}
        reasons: dict[str, str] = {}
        mirrored: dict[str, Mapping[tuple[str, ...], str]] = {}
        for name, schema in schemas.items():
            try:
                if (reason := find_invalid_x_mcp_header(schema)) is not None:
                    reasons[name] = reason
                elif found := x_mcp_header_map(schema):
                    mirrored[name] = found
            except RecursionError:
                reasons[name] = "its schema is too deep"
        self._mirrored = mirrored
        return reasons

    async def request(
        self, method: str, params: Mapping[str, object], timeout_s: float, on_progress: OnProgress | None = None
    ) -> Mapping[str, object]:
        for _ in range(_MOST_ROUNDS):
            result = await self._request(method, params, timeout_s, on_progress)
            if self._stamp is None or result.get("resultType") != "input_required":
                return result
            # Not executed yet: the server wants answers with the request.
            asked = result.get("inputRequests")
            answers = await self.answers(asked if is_object(asked) else {})
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            params = {**params, **({"inputResponses": answers} if answers else {}), **state}
        raise ServerError(REFUSED, f"it has asked for more than {_MOST_ROUNDS} times before it would answer")

    async def answers(self, asked: Mapping[str, object]) -> Mapping[str, object]:
        return {name: await self._answer(each) for name, each in asked.items()}

    async def _answer(self, asked: object) -> Mapping[str, object]:
        """Return the answer to what a server asks within a result."""
        method, params = (asked.get("method"), asked.get("params")) if is_object(asked) else (None, None)
        match method:
            case "elicitation/create" if self._hooks.elicit is not None:
                return await self._hooks.elicit(params if is_object(params) else {})
            case "roots/list":
                return (await self._roots()).model_dump(by_alias=True, mode="json", exclude_none=True)
            case _:
                raise ServerError(REFUSED, f"it asks for {str(method)[:100]}, which is not offered")

    async def listen(self) -> None:
        await self._listen({_LISTENED[each]: True for each in self.announces})

    async def listen_to(self, task_id: str) -> None:
        await self._listen({_LISTENED_TASKS: [task_id]})

    async def _listen(self, wanted: Mapping[str, object]) -> None:
        number = next(self._numbers)
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.protocol, MCP_METHOD_HEADER: _LISTEN}
        assert self._dispatcher is not None
        try:
            # No call: it has no clock, and what comes meanwhile is paced.
            body = {"notifications": wanted, "_meta": dict(self._stamp or {})}
            await self._dispatcher.send_raw_request(_LISTEN, body, {"request_id": number, "headers": headers})
        except MCPError as error:
            if self.ended.is_set():
                raise LinkLost(self.reason, self.details) from None
            raise ServerError(error.code, _text(error)) from None
        finally:
            self.statuses.take(number)

    async def _request(
        self, method: str, params: Mapping[str, object], timeout_s: float, on_progress: OnProgress | None
    ) -> Mapping[str, object]:
        number = next(self._numbers)
        body = dict(params)
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.protocol}
        if self._stamp is not None or on_progress is not None:
            body["_meta"] = {**(self._stamp or {}), **({} if on_progress is None else {"progressToken": number})}
        if self._stamp is not None:
            headers[MCP_METHOD_HEADER] = method
            name = params.get(_NAMED_BY.get(method, ""))
            if isinstance(name, str):
                headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == "tools/call" and isinstance(name, str) and is_object(given := params.get("arguments")):
                headers |= mcp_param_headers(self._mirrored.get(name, {}), given)
        options: CallOptions = {"request_id": number, "headers": headers}
        assert self._dispatcher is not None
        call = self._calls[number] = _Call(timeout_s, on_progress, trio.CancelScope())
        self._wind(call)
        try:
            with call.scope:
                return await self._dispatcher.send_raw_request(method, body or None, options)
        except MCPError as error:
            raise self._failure(error, number, is_of_server=call.is_refused) from None
        finally:
            del self._calls[number]
        raise CallTimedOut

    def _wants_sign_in(self, refusal: Challenge) -> bool:
        """Return whether a request was refused for want of a token, or of a token that allows it."""
        is_short = refusal.status == _FORBIDDEN and _INSUFFICIENT in refusal.header
        return bool(self._sign_in_text) and (refusal.status == _UNAUTHORIZED or is_short)

    def _failure(self, error: MCPError, number: int, *, is_of_server: bool) -> Exception:
        refusal = self.statuses.take(number)
        if refusal is not None and self._wants_sign_in(refusal):
            return NeedsAuth(self._sign_in_text, refusal)
        status = None if refusal is None else refusal.status
        if self.statuses.take_forgotten(number) or (status == _NOT_FOUND and self.statuses.session is not None):
            return SessionExpired("the server does not know the session any more")
        if error.code == CONNECTION_CLOSED and not is_of_server:
            return LinkLost(self.reason or _text(error), self.details)
        text = _text(error)
        return ServerError(error.code, text if status is None else f"HTTP status {status}: {text}")

    def _wind(self, call: _Call) -> None:
        is_asking = self._questions > 0
        call.scope.deadline = math.inf if is_asking else trio.current_time() + call.timeout_s

    # What the server asks.

    async def _roots(self, context: ClientRequestContext | None = None) -> ListRootsResult:
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
    hooks: ServerHooks,
    release: str,
    ending_s: Callable[[], float],
    use: Callable[[ServerLink], Awaitable[None]],
    *,
    protocol: Protocol = "handshake",
) -> None:
    """Connect to a server, and let `use` have the connection; it is cancelled when that ends. Ends the connection.

    Args:
        to: How it is reached.
        hooks: What it may ask and report.
        release: Of this program.
        ending_s: Returns how long its end may take.
        use: Works with the connection; the server is left when it returns.
        protocol: How the version of the protocol is agreed on.

    Raises:
        LinkLost: There is no connection, the handshake fails, or the connection has ended.
    """
    sign_in_text = "" if isinstance(to, Launch) else to.sign_in_text
    connection = _Connection(hooks, release, sign_in_text, is_http=isinstance(to, Address))
    transport: AbstractAsyncContextManager[Streams]
    if isinstance(to, Launch):
        transport = program(to, connection.incoming, connection.outgoing, connection.lost, ending_s)
    else:
        transport = endpoint(to, connection.statuses, connection.incoming, connection.outgoing, connection.lost)
    try:
        async with transport as streams, connection.session(streams) as session:
            connection.is_current = streams.is_current
            await connection.agree(session, protocol)
            await use(connection)
            connection.lost("the connection was closed")
            return
    except LinkLost as error:
        connection.lost(str(error))
        raise
    except Exception as error:  # of the library, or of the network: it is the end of one connection
        cause = _first(error)
        connection.lost(str(cause) or type(cause).__name__)
        if isinstance(cause, LinkLost):
            raise cause from None
        if not connection.protocol:
            raise Unreachable(connection.reason) from None
    finally:
        connection.lost("the connection was closed")
    raise LinkLost(connection.reason, connection.details)


def _first(error: BaseException) -> BaseException:
    """Return what has happened; the library, and nurseries, wrap it into groups."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)  # cast: any group
        error = next((each for each in group.exceptions if isinstance(each, LinkLost)), group.exceptions[0])
    return error


def _is_busy(status: int) -> bool:
    """Return whether a server may answer otherwise soon."""
    return status in _TRANSIENT or (status >= _SERVER_ERROR and status != _NOT_IMPLEMENTED)


def _text(error: MCPError) -> str:
    return error.error.message or f"error {error.code}"
