"""One client: answers what concerns no session, and passes the rest to the session that it names.

Nothing here waits for work. A request that takes time is a task, which `$/cancel_request` can end; every request gets
exactly one response. Must not know how a session speaks to its agent, nor the methods of a version.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, assert_never, cast

import trio

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.agents import Agents, OpenedAgent
from pinnace_rpc.acp.client_files import ClientFiles
from pinnace_rpc.acp.core import CoreEnded, EditorAgent
from pinnace_rpc.acp.figures import data_of
from pinnace_rpc.acp.keys import UsersKeys, logs_in_to
from pinnace_rpc.acp.library import Library, check_folder, unknown_session
from pinnace_rpc.acp.logins import Logins, can_show_code
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.providers import ClientProviders
from pinnace_rpc.acp.session import Session, open_session
from pinnace_rpc.acp.translation.jsonrpc import (
    AUTH_REQUIRED,
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Request,
    RequestError,
    RequestId,
)
from pinnace_rpc.acp.translation.mcp_servers import read_servers
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.parts import API_KEY, LOGIN, login_of
from pinnace_rpc.acp.translation.shown import Json
from pinnace_rpc.acp.translation.system_prompts import is_other, read_system_prompt
from pinnace_rpc.acp.translation.titles import session_title
from pinnace_rpc.acp.translation.version import Client, Operation, ProviderLogin
from pinnace_rpc.host.agents.ports import AgentStartError
from pinnace_spec.rules.errors import NO_MODEL

if TYPE_CHECKING:  # loaded with the first server that the client serves
    from pinnace_rpc.acp.mcp_bridge import McpBridge

_log: Final = logging.getLogger("pinnace.acp")
_NO_PROJECT: Final = "/"
"""The folder of agents that load the extensions of the user alone."""
_EXTENSIONS_S: Final = 10.0
"""How long `initialize` waits for extensions whose logins are offered."""

Task: TypeAlias = Callable[[], Awaitable["Mapping[str, object] | NamedSession"]]


class NamedSession(NamedTuple):
    """The result of a request after which the client knows a session."""

    result: Mapping[str, object]
    session: Session


class Connection:
    """The conversation with one client."""

    def __init__(
        self,
        nursery: trio.Nursery,
        outbox: Outbox,
        agents: Agents,
        keys: UsersKeys,
        providers: ClientProviders,
        library: Library | None,
        client: Client,
    ) -> None:
        """Begin; nothing is started before the first session.

        Args:
            nursery: Gets the tasks of requests and of agents.
            outbox: Takes what is written for the client.
            agents: Starts agents.
            keys: Of the user.
            providers: Those that the client sets.
            library: The stored sessions; None: none are kept.
            client: What the client has said of itself.
        """
        self._nursery = nursery
        self._outbox = outbox
        self._agents = agents
        self._keys = keys
        self._providers = providers
        self._library = library
        self._client = client
        self._translation = client.translation
        self._logins = Logins(self._serving, outbox, client.abilities)
        self._bridge: McpBridge | None = None
        """With the first server that the client serves."""
        self._has_requests = False
        self._is_logged_out = False
        self._shown_status: Json | None = None
        """What the client was sent last of its credentials; None: it has not asked."""
        self._reporting_status = trio.Lock()
        self._own_logins: dict[str, str] = {}
        """The providers that extensions have registered with logins, each with the folder of the extensions."""
        self._sessions: dict[str, Session] = {}
        self._folders: dict[str, Sequence[str]] = {}
        """The additional folders with which each was opened."""
        self._servers: dict[str, str | None] = {}
        """Likewise, the MCP servers."""
        self._prompts: dict[str, Sequence[str]] = {}
        """Likewise, the options of the system prompt that the client has given."""
        self._files: set[ClientFiles] = set()
        """Of the open sessions."""
        self._cores: dict[EditorAgent, None] = {}
        """Those that have not ended, in the order of their starts."""
        self._opening: dict[str, trio.Lock] = {}
        """For each stored session that is being opened."""
        self._in_flight: dict[RequestId, trio.CancelScope] = {}
        self._answered = trio.lowlevel.ParkingLot()

    @property
    def version(self) -> int:
        """The version of the protocol."""
        return self._translation.version

    @property
    def may_begin_again(self) -> bool:
        """Whether the client may repeat `initialize`: the version allows it, and nothing was asked for."""
        return self._translation.may_begin_again and not self._has_requests

    def end_turns(self) -> None:
        """The client sends no more: cancel all work that no agent continues, and logins. Other requests go on."""
        self._logins.end()
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
        for core in list(self._cores):
            core.leave()
        if self._bridge is not None:
            self._bridge.close()

    async def wait_closed(self) -> None:
        """Wait until all agents have ended, and every request is answered that their ends answer."""
        await self.wait_answered()
        for core in list(self._cores):
            await core.ended.wait()

    # Messages.

    def requested(self, request: Request) -> None:
        """Take a request.

        Raises:
            RequestError: It can't be carried out.
        """
        self._has_requests = True
        if isinstance(request.params, list):
            raise RequestError(INVALID_PARAMS, "params: must be an object")
        operation = self._translation.operations.get(request.method)
        if operation is None:
            raise _unknown_method(request.method)
        self._dispatch(operation, request, Params(request.params))

    def _dispatch(self, operation: Operation, request: Request, params: Params) -> None:
        match operation:
            case "log_in":
                self._begin(request.id, partial(self._log_in, request.id, params))
            case "log_out":
                self._is_logged_out = True
                self._logins.abort()
                self._begin(request.id, self._log_out)
            case "new":
                self._begin(request.id, partial(self._new, params))
            case "open":
                self._check_stored(request.method)
                shows = self._translation.shows_history(request.method, params)
                self._begin(request.id, partial(self._open_stored, params, shows=shows))
            case "delete" | "fork" | "set_title" | "status" | "archive" | "unarchive":
                if (library := self._library) is None:
                    raise _unknown_method(request.method)
                works: Mapping[str, Callable[[Library, Params], Awaitable[Mapping[str, object] | NamedSession]]] = {
                    "delete": self._delete,
                    "fork": self._fork,
                    "set_title": self._set_title,
                    "status": self._status,
                    "archive": self._archive,
                    "unarchive": self._unarchive,
                }
                self._begin(request.id, partial(works[operation], library, params))
            case "auth_status" | "list_providers":
                listed = partial(trio.to_thread.run_sync, self._providers.listed)
                self._begin(request.id, self._auth_status if operation == "auth_status" else listed)
            case "set_provider" | "disable_provider":
                change = self._providers.set if operation == "set_provider" else self._providers.disable
                self._outbox.respond(request.id, change(params))  # at once: a session that is asked for next has it
                self._status_may_change()
            case "list":
                self._check_stored(request.method)
                self._begin(request.id, partial(self._list, params))
            case "close":
                self._begin(request.id, partial(self._close, params))
            case "set_mode":
                self._begin(request.id, partial(self._session(params).set_mode, params))
            case "set_option":
                self._begin(request.id, partial(self._session(params).set_option, params))
            case "prompt":
                session = self._session(params)
                self._check_logged_in()
                session.work.prompt(request.id, params)
            case "steer":
                self._steer(request.id, params)
            case "cancel_call" | "cancel_terminal":
                name = "toolCallId" if operation == "cancel_call" else "terminalId"
                self._begin(request.id, partial(self._session(params).cancel_call, params, name))
            case _:
                assert_never(operation)

    def _steer(self, identity: RequestId, params: Params) -> None:
        """Give a message to a session, or to a sub-agent that works for one."""
        session_id = params.text("sessionId")
        parent = next((each for each in self._sessions.values() if each.has_child(session_id)), None)
        if parent is not None:
            parent.work.message_child(identity, params)
        else:
            self._session(params).work.steer(identity, params)

    def notified(self, method: str, params: object) -> None:
        """Take a notification."""
        fields = as_object(params) or {}
        if method == "session/cancel":
            session_id = str(fields.get("sessionId"))
            session = self._sessions.get(session_id)
            if session is not None:
                session.work.cancel()
            else:
                any(each.cancel_child(session_id) for each in self._sessions.values())
        elif method == "mcp/message" and self._bridge is not None:
            self._bridge.notified(fields)
        elif method == "$/cancel_request":
            identity = cast("RequestId", fields.get("requestId"))
            scope = self._in_flight.get(identity) if isinstance(identity, str | int) else None
            if scope is not None:
                scope.cancel()
            else:
                for session in self._sessions.values():
                    session.work.cancel_request(identity)

    def _check_stored(self, method: str) -> None:
        """Raise if there is no such method, since sessions are not stored and the version does not need it."""
        if self._library is None and not self._translation.lists_always:
            raise _unknown_method(method)

    def _check_logged_in(self) -> None:
        if self._is_logged_out:
            raise RequestError(AUTH_REQUIRED, "the client has logged out; log in first", {"errorCode": "logged_out"})

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

    async def _serving(self, provider: str | None = None) -> EditorAgent:
        """Start an agent that serves a question and no session, about a provider where its extensions are."""
        return await self._serving_in(_NO_PROJECT if provider is None else self._own_logins.get(provider, _NO_PROJECT))

    async def _serving_in(self, folder: str) -> EditorAgent:
        return self._attended(OpenedAgent(await self._agents.start_passing(folder, "--no-session")))

    async def extension_logins(self) -> Sequence[ProviderLogin]:
        """Return the logins of extensions that are loaded in every session. None where they can't be loaded in time."""
        with trio.move_on_after(_EXTENSIONS_S):
            return _logins_of(await self._own_statuses(_NO_PROJECT))
        _log.warning("the extensions were not loaded in %g s; their logins are not offered", _EXTENSIONS_S)
        return []

    async def _own_statuses(self, folder: str) -> Mapping[str, Json]:
        """Return what an agent of a folder says of the providers that extensions have registered with logins."""
        try:
            core = await self._serving_in(folder)
            try:
                return await self._learned(core, folder)
            finally:
                core.close()
        except (CoreEnded, AgentStartError) as error:
            _log.warning("the logins of extensions are not known: %s", error)
            return {}

    async def _learned(self, core: EditorAgent, folder: str) -> Mapping[str, Json]:
        """Return what this agent says of them, by their ids; they can be logged in to from now on."""
        data = as_object((await core.ask("auth_status")).get("data")) or {}
        every = [as_object(each) or {} for each in as_array(data.get("providers"))]
        found = {str(each["provider"]): each for each in every if "extension" in as_array(each.get("methods"))}
        for provider in found:
            self._own_logins.setdefault(provider, folder)
        return found

    async def _log_in(self, identity: RequestId, params: Params) -> dict[str, object]:
        method = params.text("methodId")
        login = login_of(method)
        if login is not None and (logs_in_to(login) or login.provider in self._own_logins):
            shown = await self._logins.log_in(login.provider, login.method, identity)
            self._use_new_keys()
            return {"_meta": {"pinnace": shown}}
        if method != API_KEY:
            raise params.invalid(
                "methodId", f'must be one that was offered, such as "{API_KEY}"; "{LOGIN}" is for a terminal'
            )
        core = await self._serving()
        try:
            answer = await core.ask("get_available_models")
        finally:
            core.close()
        data = as_object(answer.get("data")) or {}
        if not data.get("models"):
            raise _no_model()
        self._use_new_keys()
        return {"_meta": {}}

    def _use_new_keys(self) -> None:
        self._is_logged_out = False
        self._status_may_change()
        for session in self._sessions.values():
            session.work.expect_keys()

    async def _log_out(self) -> dict[str, object]:
        """Remove the logins that were made here, and that of the configured provider; keys stay."""
        providers = await trio.to_thread.run_sync(self._keys.logged_in_to, self._logins.made)
        if providers:
            await self._logins.log_out(providers)
            for session in list(self._sessions.values()):
                await session.log_out(providers)
        self._status_may_change()
        return {"_meta": {"pinnace": {"providers": providers}}}

    async def _auth_status(self) -> Mapping[str, object]:
        async with self._reporting_status:
            self._shown_status = await self._read_status()
            return self._shown_status

    def _status_may_change(self) -> None:
        """Report the credentials to a client that has asked for them before, if they have changed.

        That is behind the response to the request that is being carried out, which its task writes before it waits.
        """
        if self._shown_status is not None:
            self._nursery.start_soon(self._report_status)

    async def _report_status(self) -> None:
        async with self._reporting_status:
            try:
                status = await self._read_status()
            except Exception:  # such as an auth.json that is damaged meanwhile: the next question has the error
                _log.exception("the credentials could not be read")
                return
            if status != self._shown_status:
                self._shown_status = status
                self._outbox.notify("auth/status_update", status)

    async def _read_status(self) -> Json:
        own: dict[str, Json] = {}
        for folder in sorted(set(self._own_logins.values())):
            own = {**await self._own_statuses(folder), **own}
        return await trio.to_thread.run_sync(partial(self._keys.status, own, is_used=not self._is_logged_out))

    async def _list(self, params: Params) -> Mapping[str, object]:
        cwd = params.nullable_path("cwd")
        cursor = params.nullable_text("cursor")
        if self._library is None:
            return {"sessions": []}
        archived = params.nullable_text("archived") or "exclude"
        read = partial(self._library.page, cwd, cursor, archived, trio.from_thread.check_cancelled)
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)

    async def _delete(self, library: Library, params: Params) -> dict[str, object]:
        session_id = params.text("sessionId")
        if (session := self._sessions.get(session_id)) is not None:
            await session.close()
        await self._agents.remove(session_id)
        await trio.to_thread.run_sync(library.delete, session_id)
        await self._agents.forget(session_id)
        return {"_meta": {}}

    async def _archive(self, library: Library, params: Params) -> dict[str, object]:
        """Archive a session, which is closed first: its work ends, and its agent."""
        session_id = params.text("sessionId")
        async with self._opening_alone(session_id):
            if (session := self._sessions.get(session_id)) is not None:
                await session.close()
            await self._agents.remove(session_id)
            await trio.to_thread.run_sync(library.archive, session_id)
        return {"_meta": {}}

    async def _unarchive(self, library: Library, params: Params) -> dict[str, object]:
        await trio.to_thread.run_sync(library.unarchive, params.text("sessionId"))
        return {"_meta": {}}

    # Sessions.

    def _session(self, params: Params) -> Session:
        session_id = params.text("sessionId")
        session = self._sessions.get(session_id)
        if session is None:
            raise unknown_session(session_id)
        return session

    def _servers_of(self, params: Params) -> str | None:
        return read_servers(params, self._translation.server_fields, self._relay)

    def _relay(self, server_id: str) -> Sequence[str]:
        """Return the program that an agent starts for an MCP server of the client's."""
        if self._bridge is None:
            from pinnace_rpc.acp.mcp_bridge import McpBridge

            self._bridge = McpBridge(self._nursery, self._outbox)
        return self._bridge.command(server_id)

    async def _new(self, params: Params) -> NamedSession:
        self._check_logged_in()
        cwd = params.folder("cwd")
        servers, folders = self._servers_of(params), _folders(params)
        session = await self._opened(cwd, None, folders, servers, read_system_prompt(params))
        if not session.has_model:
            found = _logins_of(await self._learned(session.core, cwd)) if self._can_log_in else []
            await session.close()
            raise _no_model(self._methods(found), [each.provider for each in found])
        await session.prepare()
        return NamedSession({"sessionId": session.id, **session.described()}, session)

    @property
    def _can_log_in(self) -> bool:
        return can_show_code(self._client.abilities)

    def _methods(self, own: Sequence[ProviderLogin]) -> Sequence[object]:
        """Return the ways to log in that the client knows, and those of extensions that a session has brought."""
        offer = self._keys.offer("", self._client.abilities, is_persistent=self._library is not None)
        described = self._translation.description(offer._replace(needs_login=True).with_own(own))
        return as_array(described.get("authMethods"))

    async def _fork(self, library: Library, params: Params) -> NamedSession:
        """Open a copy of a session, as it is in its file now; the session itself goes on."""
        self._check_logged_in()
        cwd = params.folder("cwd")
        servers, folders, prompt = self._servers_of(params), _folders(params), read_system_prompt(params)
        session_id = params.text("sessionId")
        source = await trio.to_thread.run_sync(library.first, session_id)
        if source is None and session_id not in self._sessions:
            raise unknown_session(session_id)
        # An open session without a file has nothing that a copy could have.
        words = () if source is None else ("--fork", str(source.path))
        session = await self._opened(cwd, None, folders, servers, prompt, words)
        await session.prepare()
        return NamedSession({"sessionId": session.id, **session.described()}, session)

    async def _set_title(self, library: Library, params: Params) -> Mapping[str, object]:
        """Name a session, which need not be open."""
        from pinnace_agent.session.tree import clean_name  # not before the first answer

        session_id, name = params.text("sessionId"), clean_name(params.text("title"))
        if name is None:
            raise params.invalid("title", "must have a character that can be shown")
        async with self._opening_alone(session_id):
            if (session := self._sessions.get(session_id)) is not None:
                data_of(await session.core.ask("set_session_name", name=name), {})
            else:
                await self._name_stored(library, session_id, name)
        return {"title": session_title(name, "")}

    async def _name_stored(self, library: Library, session_id: str, name: str) -> None:
        """Have an agent of its own name a session that is not open here."""
        if (stored := await trio.to_thread.run_sync(library.first, session_id)) is None:
            raise unknown_session(session_id)
        await trio.to_thread.run_sync(library.check_free, stored.path)
        process = await self._agents.start_passing(stored.cwd, "--session", str(stored.path))
        core = self._attended(OpenedAgent(process))
        try:
            data_of(await core.ask("set_session_name", name=name), {})
        finally:
            core.close()
        await core.ended.wait()  # its file is free again

    async def _status(self, library: Library, params: Params) -> Mapping[str, object]:
        session_id = params.text("sessionId")
        if session_id in self._sessions or await self._agents.has_agent(session_id):
            return {"status": "open"}
        if await trio.to_thread.run_sync(library.first, session_id) is None:
            raise unknown_session(session_id)
        return {"status": "saved"}

    async def _open_stored(self, params: Params, *, shows: bool) -> NamedSession:
        async with self._opening_alone(params.text("sessionId")):
            session = await self._stored(params)
        await session.join(shows=shows)
        await session.prepare()
        session.synchronize()
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

    async def _stored(self, params: Params) -> Session:
        """Return a session that is stored: the open one, or one that is opened now."""
        session_id = params.text("sessionId")
        cwd = params.folder("cwd")
        servers, folders, prompt = self._servers_of(params), _folders(params), read_system_prompt(params)
        session = self._sessions.get(session_id)
        if session is None:
            if (library := self._library) is None:
                raise unknown_session(session_id)
            stored = await trio.to_thread.run_sync(library.find, session_id, cwd)
            try:
                session = await self._opened(cwd, str(stored.path), folders, servers, prompt)
            except CoreEnded:
                # Most often another process has the session, which the agent has waited for.
                await trio.to_thread.run_sync(library.check_free, stored.path)
                raise
            return session
        await trio.to_thread.run_sync(check_folder, session.cwd, cwd)
        if servers and self._servers.get(session_id) != servers:
            raise params.invalid("mcpServers", "must be those with which the session is open, or close it")
        if prompt and self._prompts.get(session_id) != prompt:
            raise params.invalid("systemPrompt", "must be that with which the session is open, or close it")
        if self._folders.get(session_id, []) != folders:
            await session.use_folders(self._agents.wanted, folders)
            self._folders[session_id] = folders
        return session

    async def _opened(
        self,
        cwd: str,
        stored: str | None,
        folders: Sequence[str],
        servers: str | None,
        prompt: Sequence[str],
        words: Sequence[str] = (),
    ) -> Session:
        """Return a session with an agent of its own, a stored one or a new one, with these folders and servers.

        Its command line has the options of the client's system prompt, and `words`. Cancelled, a new agent is ended,
        and one that outlives this is left.
        """
        flags = [*words, *prompt, *(word for folder in folders for word in ("--add-dir", folder))]
        opened = await self._agents.agent_of(cwd, stored, flags, servers)
        core = self._attended(opened)
        try:
            if prompt and is_other(opened.other_options):
                text = f"params.systemPrompt: the agent {opened.name} of this session works with another one: close it"
                raise RequestError(INVALID_PARAMS, text, {"errorCode": "invalid_field", "path": "params.systemPrompt"})
            session = await open_session(core, cwd, self._outbox, self._client, self._nursery, self._files)
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
        self._prompts[session.id] = prompt
        self._nursery.start_soon(self._attend, session)
        if servers is not None:
            await session.use_servers(servers)
        return session

    def _attended(self, agent: OpenedAgent) -> EditorAgent:
        core = EditorAgent(agent.pipes, self._outbox.room, agent.leave)
        self._cores[core] = None
        self._nursery.start_soon(self._run, core)
        return core

    async def _run(self, core: EditorAgent) -> None:
        await core.run()
        self._cores.pop(core, None)

    async def _attend(self, session: Session) -> None:
        await session.core.ended.wait()
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            del self._folders[session.id]
            del self._servers[session.id]
            del self._prompts[session.id]
        session.ended(session.core.end_text)

    async def _close(self, params: Params) -> dict[str, object]:
        session_id = params.text("sessionId")
        if session_id not in self._sessions and self._translation.closes_unknown:
            return {"_meta": {}}
        returned = await self._session(params).close()
        return {"_meta": {"pinnace": {"returned": returned}} if returned else {}}


def _folders(params: Params) -> list[str]:
    """Return the additional folders of a request: what an earlier request had is not restored.

    Raises:
        InvalidParams: One is not absolute, or is no folder.
    """
    if params.fields.get("additionalDirectories") is None:
        return []
    return params.folders("additionalDirectories")


def _unknown_method(method: str) -> RequestError:
    return RequestError(METHOD_NOT_FOUND, f"{method[:200]}: unknown method")


def _no_model(methods: Sequence[object] = (), own: Sequence[str] = ()) -> RequestError:
    """Return the refusal of a session without a model.

    Args:
        methods: To log in.
        own: The providers among them that extensions of its folder log in to.
    """
    data = {"errorCode": "no_api_key"}
    more = f"\n\nExtensions that the session loads log in to {', '.join(own)}." if own else ""
    return RequestError(AUTH_REQUIRED, f"{NO_MODEL}{more}", {**data, "authMethods": methods} if methods else data)


def _logins_of(statuses: Mapping[str, Json]) -> list[ProviderLogin]:
    return [ProviderLogin(provider, provider, "extension") for provider in statuses]
