"""One client: reads its messages, answers what concerns no session, and passes the rest to the session that it names.

The reader never waits for work. A request that takes time is a task, which `$/cancel_request` can end; every request
gets exactly one response. Must not know how a session speaks to its agent.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple, TypeAlias, cast

import trio

from pinnace_agent.core.json_access import as_object
from pinnace_rpc.acp.agents import Agents, OpenedAgent
from pinnace_rpc.acp.client_files import ClientFiles
from pinnace_rpc.acp.core import CoreEnded, EditorAgent
from pinnace_rpc.acp.library import Library, check_folder, unknown_session
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.session import ClientAbilities, Session, open_session
from pinnace_rpc.acp.translation.jsonrpc import (
    AUTH_REQUIRED,
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MalformedMessage,
    Notification,
    Reply,
    Request,
    RequestError,
    RequestId,
    parse_message,
)
from pinnace_rpc.acp.translation.params import InvalidParams, Params
from pinnace_rpc.host.agents.ports import AgentStartError
from pinnace_spec.rules.errors import NO_MODEL
from pinnace_spec.wire.framing import MAX_RECORD_BYTES, TooLong

_log: Final = logging.getLogger("pinnace.acp")

PROTOCOL_VERSION: Final = 1
_MOST_VERSION: Final = 65535

Task: TypeAlias = Callable[[], Awaitable["Mapping[str, object] | NamedSession"]]


class NamedSession(NamedTuple):
    """The result of a request after which the client knows a session."""

    result: Mapping[str, object]
    session: Session


class Connection:
    """The conversation with one client."""

    def __init__(
        self, nursery: trio.Nursery, outbox: Outbox, agents: Agents, library: Library | None, release: str
    ) -> None:
        """Begin; nothing is started before the first session.

        Args:
            nursery: Gets the tasks of requests and of agents.
            outbox: Takes what is written for the client.
            agents: Starts agents.
            library: The stored sessions; None: none are kept.
            release: Of this program.
        """
        self._nursery = nursery
        self._outbox = outbox
        self._agents = agents
        self._library = library
        self._release = release
        self._abilities: ClientAbilities | None = None
        self._sessions: dict[str, Session] = {}
        self._folders: dict[str, Sequence[str]] = {}
        """The additional folders with which each was opened."""
        self._servers: dict[str, str | None] = {}
        """Likewise, the MCP servers."""
        self._files: set[ClientFiles] = set()
        """Of the open sessions."""
        self._cores: set[EditorAgent] = set()
        self._opening: dict[str, trio.Lock] = {}
        """For each stored session that is being opened."""
        self._in_flight: dict[RequestId, trio.CancelScope] = {}
        self._answered = trio.lowlevel.ParkingLot()

    def take_line(self, line: bytes | TooLong) -> None:
        """Take one line of the client."""
        match parse_message(line):
            case MalformedMessage(identity, error):
                self._outbox.refuse_line(identity, error)
            case Reply() as reply:
                if not self._outbox.take_reply(reply):
                    _log.info("a response to no request: %r", reply.id)
            case Notification(method, params):
                self._notified(method, params)
            case Request() as request:
                self._requested(request)

    def end_turns(self) -> None:
        """The client sends no more: cancel all work that no agent continues. Other requests go on."""
        for session in list(self._sessions.values()):
            session.leave()

    async def wait_answered(self) -> None:
        """Wait until every request that is a task of its own is answered."""
        while self._in_flight:
            await self._answered.park()

    def close(self) -> None:
        """The client is gone: cancel what is left, and end all agents but those that outlive it."""
        for scope in list(self._in_flight.values()):
            scope.cancel()
        for core in self._cores:
            core.leave()

    async def wait_closed(self) -> None:
        """Wait until all agents have ended, and every request is answered that their ends answer."""
        await self.wait_answered()
        for core in list(self._cores):
            await core.ended.wait()

    # Messages.

    def _requested(self, request: Request) -> None:
        if not self._outbox.begin(request.id):
            self._outbox.refuse_line(None, RequestError(INVALID_REQUEST, f"id: {request.id!r} is in flight"))
            return
        try:
            if isinstance(request.params, list):
                raise RequestError(INVALID_PARAMS, "params: must be an object")
            self._dispatch(request)
        except RequestError as error:
            self._outbox.refuse(request.id, error)

    def _dispatch(self, request: Request) -> None:
        params = Params(request.params)
        if request.method == "initialize":
            self._outbox.respond(request.id, self._initialize(params))
            return
        abilities, library = self._abilities, self._library
        if abilities is None:
            raise RequestError(INVALID_REQUEST, f"{request.method}: initialize comes first")
        match request.method:
            case "authenticate":
                self._begin(request.id, partial(self._authenticate, params))
            case "session/new":
                self._begin(request.id, partial(self._new, abilities, params))
            case "session/load" | "session/resume" as method if library is not None:
                shows = method == "session/load"
                self._begin(request.id, partial(self._open_stored, library, abilities, params, shows=shows))
            case "session/list" if library is not None:
                self._begin(request.id, partial(self._list, library, params))
            case "session/delete" if library is not None:
                self._begin(request.id, partial(self._delete, library, params))
            case "session/close":
                self._begin(request.id, partial(self._close, self._session(params)))
            case "session/set_mode":
                self._begin(request.id, partial(self._session(params).set_mode, params))
            case "session/set_config_option":
                self._begin(request.id, partial(self._session(params).set_option, params))
            case "session/prompt":
                self._session(params).prompt(request.id, params)
            case "_session/steering":
                self._session(params).steer(request.id, params)
            case _:
                raise RequestError(METHOD_NOT_FOUND, f"{request.method[:200]}: unknown method")

    def _notified(self, method: str, params: object) -> None:
        fields = as_object(params) or {}
        if method == "session/cancel":
            session = self._sessions.get(str(fields.get("sessionId")))
            if session is not None:
                session.cancel()
        elif method == "$/cancel_request":
            identity = cast("RequestId", fields.get("requestId"))
            scope = self._in_flight.get(identity) if isinstance(identity, str | int) else None
            if scope is not None:
                scope.cancel()
            else:
                for session in self._sessions.values():
                    session.cancel_request(identity)

    def _begin(self, identity: RequestId, work: Task) -> None:
        """Start a task for a request, which is answered when it ends."""
        scope = trio.CancelScope()
        self._in_flight[identity] = scope
        self._nursery.start_soon(self._work, identity, work, scope)

    async def _work(self, identity: RequestId, work: Task, scope: trio.CancelScope) -> None:
        try:
            result: Mapping[str, object] | NamedSession | None = None
            error: RequestError | None = None
            with scope:
                try:
                    result = await work()
                except RequestError as refused:
                    error = refused
                except (CoreEnded, AgentStartError) as ended:
                    _log.error("%s", ended)
                    error = RequestError(INTERNAL_ERROR, str(ended), {"errorCode": "agent_ended"})
                except Exception:  # a defect costs this request, and not the sessions of the client
                    _log.exception("a request has failed")
                    error = RequestError(INTERNAL_ERROR, "an internal error; the log has it")
            if result is None and error is None:
                error = RequestError(CANCELLED, "the request was cancelled")
        finally:
            self._in_flight.pop(identity, None)
            self._answered.unpark_all()
        if error is not None:
            self._outbox.refuse(identity, error)
        elif isinstance(result, NamedSession):
            self._outbox.respond(identity, result.result)
            result.session.announce()
        elif result is not None:
            self._outbox.respond(identity, result)

    # Requests that concern no session.

    def _initialize(self, params: Params) -> dict[str, object]:
        if self._abilities is not None:
            raise RequestError(INVALID_REQUEST, "initialize: was called before")
        params.integer("protocolVersion", 0, _MOST_VERSION)
        given = as_object(params.fields.get("clientCapabilities")) or {}
        capabilities = Params(given, "params.clientCapabilities")
        self._abilities = ClientAbilities(capabilities)
        sessions: dict[str, object] = {"close": {}, "additionalDirectories": {}}
        if self._library is not None:
            sessions |= {"list": {}, "delete": {}, "resume": {}}
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": self._library is not None,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": sessions,
                "auth": {},
            },
            "authMethods": [] if self._agents.has_model() else _auth_methods(self._abilities),
            "agentInfo": {"name": "pinnace", "title": "pinnace", "version": self._release},
            "_meta": {"steering": {"supported": True}, "pinnace": {"limits": {"lineBytes": MAX_RECORD_BYTES}}},
        }

    async def _authenticate(self, params: Params) -> dict[str, object]:
        if params.text("methodId") != "api-key":
            raise params.invalid("methodId", 'must be "api-key"; "login" is for a terminal')
        core = self._attended(OpenedAgent(await self._agents.start_passing("/", "--no-session")))
        try:
            answer = await core.ask("get_available_models")
        finally:
            core.close()
        data = as_object(answer.get("data")) or {}
        if not data.get("models"):
            raise _no_model()
        for session in self._sessions.values():
            session.expect_keys()
        return {"_meta": {}}

    async def _list(self, library: Library, params: Params) -> Mapping[str, object]:
        cwd = params.nullable_path("cwd")
        cursor = params.nullable_text("cursor")
        read = partial(library.page, cwd, cursor, trio.from_thread.check_cancelled)
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)

    async def _delete(self, library: Library, params: Params) -> dict[str, object]:
        session_id = params.text("sessionId")
        if (session := self._sessions.get(session_id)) is not None:
            await session.close()
        await self._agents.remove(session_id)
        await trio.to_thread.run_sync(library.delete, session_id)
        await self._agents.forget(session_id)
        return {"_meta": {}}

    # Sessions.

    def _session(self, params: Params) -> Session:
        session_id = params.text("sessionId")
        session = self._sessions.get(session_id)
        if session is None:
            raise unknown_session(session_id)
        return session

    async def _new(self, abilities: ClientAbilities, params: Params) -> NamedSession:
        cwd = params.folder("cwd")
        servers, folders = _servers(params), _folders(params)
        session = await self._opened(cwd, None, folders, servers, abilities)
        if not session.has_model:
            await session.close()
            raise _no_model()
        return NamedSession({"sessionId": session.id, **session.described()}, session)

    async def _open_stored(
        self, library: Library, abilities: ClientAbilities, params: Params, *, shows: bool
    ) -> NamedSession:
        async with self._opening_alone(params.text("sessionId")):
            session = await self._stored(library, abilities, params)
        await session.join(shows=shows)
        return NamedSession(session.described(), session)

    @asynccontextmanager
    async def _opening_alone(self, session_id: str) -> AsyncGenerator[None, None]:
        """Let requests for one session open it one after another: the later ones find it open."""
        lock = self._opening.setdefault(session_id, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._opening.pop(session_id, None)

    async def _stored(self, library: Library, abilities: ClientAbilities, params: Params) -> Session:
        """Return a session that is stored: the open one, or one that is opened now."""
        session_id = params.text("sessionId")
        cwd = params.folder("cwd")
        servers, folders = _servers(params), _folders(params)
        session = self._sessions.get(session_id)
        if session is None:
            stored = await trio.to_thread.run_sync(library.find, session_id, cwd)
            try:
                session = await self._opened(cwd, str(stored.path), folders, servers, abilities)
            except CoreEnded:
                # Most often another process has the session, which the agent has waited for.
                await trio.to_thread.run_sync(library.check_free, stored.path)
                raise
            return session
        await trio.to_thread.run_sync(check_folder, session.cwd, cwd)
        if servers and self._servers.get(session_id) != servers:
            raise params.invalid("mcpServers", "must be those with which the session is open, or close it")
        if self._folders.get(session_id, []) != folders:
            await session.use_folders(self._agents.wanted, folders)
            self._folders[session_id] = folders
        return session

    async def _opened(
        self, cwd: str, stored: str | None, folders: Sequence[str], servers: str | None, abilities: ClientAbilities
    ) -> Session:
        """Return a session with an agent of its own, a stored one or a new one, with these folders and servers.

        Cancelled, a new agent is ended, and one that outlives this is left.
        """
        flags = [word for folder in folders for word in ("--add-dir", folder)]
        opened = await self._agents.agent_of(cwd, stored, flags, servers)
        core = self._attended(opened)
        try:
            session = await open_session(core, cwd, self._outbox, abilities, self._nursery, self._files)
            if opened.name is not None:
                await session.adopt(opened.name, self._agents.wanted, opened.other_options, folders)
        except BaseException:
            if stored is None:
                core.close()
            else:
                core.leave()
            raise
        self._sessions[session.id] = session
        self._folders[session.id] = folders
        self._servers[session.id] = servers
        self._nursery.start_soon(self._attend, session)
        if servers is not None:
            await session.use_servers(servers)
        return session

    def _attended(self, agent: OpenedAgent) -> EditorAgent:
        core = EditorAgent(agent.pipes, self._outbox.room, agent.leave)
        self._cores.add(core)
        self._nursery.start_soon(self._run, core)
        return core

    async def _run(self, core: EditorAgent) -> None:
        await core.run()
        self._cores.discard(core)

    async def _attend(self, session: Session) -> None:
        await session.core.ended.wait()
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            del self._folders[session.id]
            del self._servers[session.id]
        session.ended(session.core.end_text)

    async def _close(self, session: Session) -> dict[str, object]:
        await session.close()
        return {"_meta": {}}


def _auth_methods(abilities: ClientAbilities) -> list[Mapping[str, object]]:
    description = "Set the key of a provider in the environment, or run: pinnace auth login PROVIDER"
    methods: list[Mapping[str, object]] = [{"id": "api-key", "name": "API key", "description": description}]
    if abilities.terminals:
        asked = "Asks for a provider and its key, at a terminal"
        login: dict[str, object] = {"id": "login", "name": "Log in", "description": asked}
        methods.append({"type": "terminal", **login, "args": ["--login"], "env": {}})
    return methods


def _servers(params: Params) -> str | None:
    """Return the MCP servers of a request, for the agent of its session; None: there are none.

    Raises:
        InvalidParams: One is not described completely, is of a type that was not offered, or has the name of another.
    """
    if params.fields.get("mcpServers") is None:
        return None
    names: list[str] = []
    described: list[Mapping[str, object]] = []
    for server in params.objects("mcpServers"):
        name = server.text("name")
        if name in names:
            raise server.invalid("name", f"{name!r} is the name of another server, too")
        match server.optional_text("type") or "stdio":
            case "stdio":
                server.text("command")
                server.texts("args")
                pairs = "env"
            case "http":
                server.text("url")
                pairs = "headers"
            case other:
                raise server.invalid("type", f"{other[:50]} is not supported; use stdio or http")
        for pair in server.objects(pairs):
            pair.text("name")
            pair.text("value")
        from pinnace_agent.mcp.configuration import client_problem  # with the first server

        if (problem := client_problem(server.fields)) is not None:
            raise InvalidParams(server.path, problem)
        names.append(name)
        described.append(server.fields)
    if not described:
        return None
    from pinnace_agent.mcp.configuration import client_text

    return client_text(described)


def _folders(params: Params) -> list[str]:
    """Return the additional folders of a request: what an earlier request had is not restored.

    Raises:
        InvalidParams: One is not absolute, or is no folder.
    """
    if params.fields.get("additionalDirectories") is None:
        return []
    return params.folders("additionalDirectories")


def _no_model() -> RequestError:
    return RequestError(AUTH_REQUIRED, NO_MODEL, {"errorCode": "no_api_key"})
