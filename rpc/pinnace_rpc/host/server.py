"""The host's process: its socket, who may connect, which agents there are, and its end.

One host for each agent folder holds the folder's lock. Only processes of the same user are answered, and of them none
that an agent of this host has started. SIGTERM and SIGINT end it in order: agents get the end of their stdin and are
awaited. Runs no model and no tool.
"""

import gc
import logging
import math
import os
import re
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple, Protocol

import trio
import trio.lowlevel

from pinnace_rpc.host import locations
from pinnace_rpc.host.agent import HostedAgent
from pinnace_rpc.host.agents.children import CHILDREN
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentObserver, AgentStarter, OnCrash
from pinnace_rpc.host.agents.supervisor import IDLE_S, RestartRefused, Supervisor
from pinnace_rpc.host.agents.zygote import ZygoteStarter
from pinnace_rpc.host.command_lines import other_options, resumed
from pinnace_rpc.host.connection import READ_BYTES, AttachedConnection
from pinnace_rpc.host.details import AgentDetails, remove_agent
from pinnace_rpc.host.journal import RETAINED_BYTES
from pinnace_rpc.host.locations import HostLock, LocationError
from pinnace_rpc.host.protocol import (
    EXIT_FAILED,
    EXIT_LOST,
    EXIT_UNAVAILABLE,
    EXIT_USAGE,
    AgentAction,
    AgentActionName,
    Answer,
    AskStatus,
    Attach,
    Ended,
    Frame,
    FrameDecoder,
    HostControl,
    HostProtocolError,
    ListAgents,
    Refused,
    StopHost,
    common_version,
    encode_host_control,
    is_agent_name,
    parse_request,
)
from pinnace_rpc.host.sockets import HostSocket
from pinnace_rpc.host.summary import resident_bytes
from pinnace_rpc.host.surroundings import OF_PROCESS, ClientStream, HostSurroundings, Listener
from pinnace_rpc.host.table import forget_unused
from pinnace_spec.nearest import did_you_mean
from pinnace_spec.profiles.profiles import CLIENT_PROFILES

_log = logging.getLogger("pinnace.host")

MAX_CLIENTS: Final = 1000
OTHER_CONNECTIONS: Final = 64
"""Beside those of clients: `pinnace host stop` reaches a host that has all the clients that it may have."""
FORGOTTEN_S: Final = 14 * 24 * 3600.0
"""How long the journal of an agent is kept that sleeps."""
UNNAMED_S: Final = 60.0
"""How long an agent without a name is kept without a client."""
_FIRST_MESSAGE_S: Final = 30.0
_WATCH_S: Final = 1.0
"""How often the socket's file, orphans and agents without clients are looked after."""
_FORGET_S: Final = 3600.0
_LAST_WRITES_S: Final = 2.0
"""How long clients may take to read the rest when the host ends."""
_CLIENT_DESCRIPTORS: Final = 2
"""The socket, and the table of its commands."""
_AGENT_DESCRIPTORS: Final = 6
"""Three pipes, the process, its journal, and one that is read."""
_OWN_DESCRIPTORS: Final = 64
_NUMBER_BYTES: Final = 6
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")


class HostSettings(NamedTuple):
    """What a host is started with."""

    agent_folder: str
    socket_path: str
    release: str
    max_agents: int = 100
    idle_s: float = IDLE_S
    """How long an agent may be without clients and use until it sleeps."""
    agent_memory: int | None = None
    """The most address space of an agent, in bytes; None: as much as the host."""
    journal_bytes: int = RETAINED_BYTES
    """The most that the files of an agent's journal have."""
    on_crash: OnCrash = "pause"
    """What an agent does with queued messages after its crash."""
    max_clients: int = MAX_CLIENTS
    """The most clients that are attached at once, to all agents together."""


class MakeAgent(Protocol):
    """Opens an agent of this host."""

    def __call__(self, name: str, folder: str, *, details: AgentDetails | None = None) -> HostedAgent:
        """Open the agent's folder; see `HostedAgent`."""
        ...


class RequestRefused(Exception):
    """A request can't be fulfilled. The text is for the user."""

    def __init__(self, text: str, exit_code: int = EXIT_FAILED, subagent: Mapping[str, object] | None = None) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.subagent = subagent


class Host:
    """A host from its start to its end."""

    def __init__(self, settings: HostSettings, surroundings: HostSurroundings = OF_PROCESS) -> None:
        """Open nothing yet; the surroundings keep the files, and name the time."""
        self._settings = settings
        self._surroundings = surroundings
        self._agents: dict[str, HostedAgent] = {}
        self._began_at = surroundings.wall_time_s()
        self._connections = 0
        self._clients = 0
        """Connections that are attached, or wait for their agent."""
        # Journals have responses to connections of former hosts, which must not be those of other clients now.
        self._last_number = int.from_bytes(surroundings.system.urandom(_NUMBER_BYTES), "big")
        self._stopping = trio.Event()
        self._changed = trio.lowlevel.ParkingLot()

    async def run(self) -> None:
        """Serve until a signal or a request ends the host.

        Raises:
            HostRuns: Another host has the folder.
            LocationError: The socket or a folder can't be used.
        """
        settings = self._settings
        locations.check_socket_path(settings.socket_path)
        _allow_descriptors(settings)
        lock = HostLock.take(settings.agent_folder, settings.socket_path, settings.release)
        try:
            locations.make_folder(locations.journals_folder(settings.agent_folder))
            CHILDREN.adopt()
            listener = HostSocket.bind(settings.socket_path)
            try:
                with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._stop_at_signal, signals)
                        nursery.start_soon(self._reap)
                        starter = ZygoteStarter(nursery, os.environ, memory_bytes=settings.agent_memory)
                        await self.serve(listener, starter, opened=_freeze)
                        nursery.cancel_scope.cancel()
            finally:
                listener.unbind()
        finally:
            lock.release()

    async def serve(self, listener: Listener, starter: AgentStarter, opened: Callable[[], object] = bool) -> None:
        """Serve the clients that connect until a request ends the host, and then its agents in order.

        Takes no lock, and makes no folder. Cancelled, it ends no process: those of agents get the end of their stdin.

        Args:
            listener: Where clients connect.
            starter: Starts the processes of agents.
            opened: Called when all agents of the folder are known, before the first client is served.
        """
        settings = self._settings
        async with trio.open_nursery() as processes:

            def supervise(agent: AgentObserver) -> Supervisor:
                return Supervisor(processes, starter, agent, idle_s=settings.idle_s)

            make = partial(
                HostedAgent,
                release=settings.release,
                nursery=processes,
                supervise=supervise,
                journal_bytes=settings.journal_bytes,
                on_crash=settings.on_crash,
                surroundings=self._surroundings,
            )
            self._open_agents(make)
            opened()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._accept, listener, make, nursery)
                nursery.start_soon(self._watch, listener)
                await self._stopping.wait()
                await self._end_agents()
                nursery.cancel_scope.cancel()
            processes.cancel_scope.cancel()

    async def _accept(self, listener: Listener, make: MakeAgent, nursery: trio.Nursery) -> None:
        while True:
            nursery.start_soon(self._serve, await listener.accept(), make)

    # Requests.

    async def _serve(self, stream: ClientStream, make: MakeAgent) -> None:
        self._connections += 1
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                try:
                    await self._answer(stream, make)
                finally:
                    await stream.aclose()
        except HostProtocolError as error:
            _log.info("a connection is closed: %s", error)
        except Exception:
            _log.exception("a connection failed")
        finally:
            self._connections -= 1
            self._notify()

    async def _answer(self, stream: ClientStream, make: MakeAgent) -> None:
        try:
            stream.check([agent.pid for agent in self._agents.values() if agent.pid is not None])
            if self._connections > (most := self._settings.max_clients + OTHER_CONNECTIONS):
                raise RequestRefused(f"the host has {most} connections, as many as it may (--max-clients)")
            decoder = FrameDecoder()
            first = await _first_frames(stream, decoder)
            if first is None:
                return
            request = parse_request(first[0].payload)
            if isinstance(request, Attach):
                with self._counted_client(request):
                    await self._attach(request, first[1:], stream, decoder, make)
            elif isinstance(request, ListAgents):
                await self._list(stream, watches=request.watches)
            else:
                await _send(stream, Answer(await self._perform(request)))
        except RequestRefused as error:
            await _send(stream, Refused(error.exit_code, str(error), error.subagent))
        except (HostProtocolError, LocationError) as error:
            await _send(stream, Refused(EXIT_USAGE, str(error)))

    @contextmanager
    def _counted_client(self, request: Attach) -> Generator[None]:
        """Count a client from its request to its end, so that those that wait for an agent have a place, too.

        One that comes back takes the place of its own former connection, which may be half-open.
        """
        agent = self._found(request)
        is_back = agent is not None and request.client is not None and agent.clients.has_connected(request.client)
        if self._clients >= self._settings.max_clients and not is_back:
            raise RequestRefused(f"the host has {self._clients} clients, as many as it may (--max-clients)")
        self._clients += 1
        try:
            yield
        finally:
            self._clients -= 1

    async def _attach(
        self,
        request: Attach,
        early: Sequence[Frame],
        stream: ClientStream,
        decoder: FrameDecoder,
        make: MakeAgent,
    ) -> None:
        agent, others = await self._agent_for(request, make)
        try:
            self._last_number += 1
            connection = AttachedConnection(
                self._last_number, stream, decoder, early, request, agent, others, self._surroundings.wall_time_s
            )
            self._notify()
            await connection.run(self._settings.release, agent.end)
        finally:
            agent.detach(request.environment)
        if not agent.connections:
            agent.abandoned_at = trio.current_time()

    async def _perform(self, request: AgentAction | StopHost | AskStatus) -> Mapping[str, object]:
        match request:
            case AskStatus():
                return self._status()
            case StopHost():
                self._stopping.set()
                return {"type": "stopping", "pid": self._surroundings.system.getpid()}
            case AgentAction():
                await self._act(request)
                return {"type": "done", "agent": request.agent}

    async def _act(self, request: AgentAction) -> None:
        agent = self._agents.get(request.agent)
        if agent is None and (found := self._child(request.agent)) is not None:
            await self._stop_child(*found, request.action)
            return
        if agent is None:
            raise RequestRefused(f"there is no agent {request.agent}{did_you_mean(request.agent, self._agents)}")
        if request.action == "restart":
            try:
                agent.restart()
            except RestartRefused:
                raise RequestRefused(
                    f"{request.agent} sleeps: attach to it, to start it with your environment"
                ) from None
        else:
            agent.stop()
            await agent.wait_over()
            if request.action == "remove":
                self._remove(agent)
        self._notify()

    async def _stop_child(self, agent: HostedAgent, child: str, action: AgentActionName) -> None:
        if action != "stop":
            raise RequestRefused(f"{child} is a sub-agent of {agent.name}, and can be stopped alone")
        if (problem := await agent.own_commands.cancel_child(child)) is not None:
            raise RequestRefused(f"{child} was not stopped: {problem}")

    def _child(self, name: str) -> tuple[HostedAgent, str] | None:
        """Return the sub-agent that a name means, behind the agent that it works for."""
        found = [(agent, child) for agent in self._agents.values() if (child := agent.activity.summary.child_of(name))]
        return found[0] if len(found) == 1 else None

    def _status(self) -> Mapping[str, object]:
        return {
            "type": "status",
            "pid": self._surroundings.system.getpid(),
            "machine": socket.gethostname(),
            "socket": self._settings.socket_path,
            "release": self._settings.release,
            "agentFolder": self._settings.agent_folder,
            "startedAt": round(self._began_at * 1000),
            "agents": len(self._agents),
            "running": sum(agent.pid is not None for agent in self._agents.values()),
            "connections": self._connections - 1,  # without that of the question
            "clients": self._clients,
            "journalBytes": sum(agent.journal.size for agent in self._agents.values()),
        }

    async def _list(self, stream: ClientStream, *, watches: bool) -> None:
        former: object = None
        while True:
            agents = [_row(agent) for _, agent in sorted(self._agents.items())]
            if agents != former:
                await _send(stream, Answer({"type": "agents", "agents": agents}))
                former = agents
            if not watches:
                return
            await self._changed.park()

    # Agents.

    def _open_agents(self, make: MakeAgent) -> None:
        folder = locations.journals_folder(self._settings.agent_folder)
        for name in sorted(os.listdir(folder)):
            if is_agent_name(name):
                try:
                    agent = self._agents[name] = make(name, os.path.join(folder, name))
                    agent.abandoned_at = trio.current_time()
                except (LocationError, OSError) as error:
                    _log.warning("agent %s is left out: %s", name, error)
        self._forget()

    async def _agent_for(self, request: Attach, make: MakeAgent) -> tuple[HostedAgent, Sequence[str]]:
        """Return the agent that a client wants, attached to it, and the options that it was started with otherwise."""
        if common_version(request.versions) is None:
            raise RequestRefused(
                f"this host is release {self._settings.release}, the client {request.release}, and they have no "
                "version of the protocol in common: end the host with `pinnace host stop`",
                EXIT_UNAVAILABLE,
            )
        if request.profile is not None and request.profile not in CLIENT_PROFILES:
            raise RequestRefused(f"there is no protocol {request.profile}", EXIT_USAGE)
        if self._stopping.is_set():
            raise RequestRefused("the host is ending", EXIT_LOST)
        while (agent := self._found(request)) is not None and agent.state == "stopping":
            await agent.wait_while_stopping()  # it may be removed then
        if agent is not None and request.is_new:
            raise RequestRefused(f"there is an agent {agent.name}", EXIT_USAGE)
        if agent is None:
            if (found := self._child(request.session or request.agent or "")) is not None:
                above, child = found
                text = f"{child} is a sub-agent of {above.name}, which answers for it: attach to {above.name}"
                row = next(each for each in above.activity.children if each["agentId"] == child)
                raise RequestRefused(text, subagent={**row, "agent": above.name})
            if request.since is not None:
                raise RequestRefused("there is no such agent, and so no record since the cursor")
            agent = self._create(request, make)
        elif request.profile is not None and request.profile != agent.details.profile:
            raise RequestRefused(f"the protocol of {agent.name} is {agent.details.profile}, fixed at its start")
        if agent.state in ("asleep", "failed"):
            agent.attach(self._start_for(agent, request))
            return agent, ()
        assert agent.start is not None
        others: Sequence[str] = ()
        if request.takes_options:
            others = other_options(agent.flags, request.start)
        elif request.start and request.start != agent.flags:
            raise RequestRefused(f"{agent.name} runs, with other flags: leave them out, or stop it first", EXIT_USAGE)
        agent.attach(agent.start)
        return agent, others

    def _found(self, request: Attach) -> HostedAgent | None:
        if request.agent is not None:
            return self._agents.get(request.agent)
        if request.session is not None:
            wanted = request.session
            for agent in self._agents.values():
                if wanted in (agent.details.session_id, agent.details.session_file):
                    return agent
        return None

    def _create(self, request: Attach, make: MakeAgent) -> HostedAgent:
        if sum(not _is_spent(agent) for agent in self._agents.values()) >= self._settings.max_agents:
            raise RequestRefused(f"the host has {self._settings.max_agents} agents, as many as it may (--max-agents)")
        name = request.agent or self._free_name(request.session)
        profile = request.profile or _option(request.start, "--protocol") or CLIENT_PROFILES[0]
        details = AgentDetails(request.cwd, profile, is_named=request.agent is not None or request.session is not None)
        folder = os.path.join(locations.journals_folder(self._settings.agent_folder), name)
        try:
            agent = self._agents[name] = make(name, folder, details=details)
        except OSError as error:
            raise RequestRefused(f"{folder}: {error.strerror}") from None
        return agent

    def _free_name(self, session: str | None) -> str:
        stem = _NOT_IN_NAMES.sub("", os.path.basename(session or "").removesuffix(".jsonl"))[-8:].lstrip("._-")
        name = stem or self._random_name()
        while name in self._agents:
            name = self._random_name()
        return name

    def _random_name(self) -> str:
        return self._surroundings.system.urandom(4).hex()

    def _start_for(self, agent: HostedAgent, request: Attach) -> AgentLaunch:
        """Return what a client starts or wakes an agent with."""
        running = sum(each.pid is not None for each in self._agents.values())
        if running >= self._settings.max_agents:
            raise RequestRefused(f"{running} agents run, as many as may (--max-agents)")
        arguments = request.start or (() if agent.start is None else agent.start.arguments)
        agent.flags = request.start or agent.flags
        if _option(arguments, "--protocol") is None:
            arguments = (*arguments, "--protocol", agent.details.profile)
        cwd = request.cwd
        if agent.details.session_file is not None:
            arguments = resumed(arguments, agent.details)
            cwd = agent.details.cwd
        elif request.session is not None:
            arguments = (*arguments, "--session", request.session)
        return AgentLaunch(arguments, cwd, request.environment, request.umask)

    def _remove(self, agent: HostedAgent) -> None:
        agent.close()
        self._agents.pop(agent.name, None)
        remove_agent(agent.folder, self._surroundings.system)

    def _forget(self) -> None:
        """Remove what sleeps for too long."""
        now = self._surroundings.wall_time_s()
        for agent in tuple(self._agents.values()):
            with suppress(OSError):
                forget_unused(agent.folder, now - FORGOTTEN_S, self._surroundings.system)
                # One without any file is left of a power failure: nothing is known of its agent.
                changed = max((entry.stat().st_mtime for entry in os.scandir(agent.folder)), default=0.0)
                if agent.state in ("asleep", "failed") and now - changed > FORGOTTEN_S:
                    self._remove(agent)

    async def _watch(self, listener: Listener) -> None:
        forget_at = trio.current_time() + _FORGET_S
        while True:
            await trio.sleep(_WATCH_S)
            listener.look_after()
            now = trio.current_time()
            for agent in tuple(self._agents.values()):
                is_left = not agent.details.is_named and not agent.connections
                if is_left and now - (agent.abandoned_at or math.inf) > UNNAMED_S:
                    if _is_spent(agent):
                        self._remove(agent)
                    elif agent.is_quiet():
                        agent.stop()
            if now >= forget_at:
                forget_at = now + _FORGET_S
                self._forget()
            self._notify()

    def _notify(self) -> None:
        self._changed.unpark_all()

    # The end.

    async def _stop_at_signal(self, signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            self._stopping.set()

    async def _reap(self) -> None:
        while True:
            await trio.sleep(_WATCH_S)
            CHILDREN.reap()

    async def _end_agents(self) -> None:
        for agent in self._agents.values():
            agent.stop(Ended(EXIT_LOST, "the host has ended"))
        for agent in self._agents.values():
            await agent.wait_over()
        with trio.move_on_after(_LAST_WRITES_S):
            while any(agent.connections for agent in self._agents.values()):
                await self._changed.park()


def _freeze() -> None:
    """Keep what is loaded: each full collection would look through all of it, and hold up everybody."""
    gc.collect()
    gc.freeze()


def _allow_descriptors(settings: HostSettings) -> None:
    """Let this process, and those that it starts, open what its limits of clients and agents need."""
    needed = (
        _CLIENT_DESCRIPTORS * (settings.max_clients + OTHER_CONNECTIONS)
        + _AGENT_DESCRIPTORS * settings.max_agents
        + _OWN_DESCRIPTORS
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if allowed < needed:
        _log.warning(
            "%d files may be open (ulimit -n), and --max-clients and --max-agents may need %d", allowed, needed
        )
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def _is_spent(agent: HostedAgent) -> bool:
    """Return whether it was begun without a name and has ended: its session continues by an attach of its own."""
    return not agent.details.is_named and agent.state in ("asleep", "failed")


def _row(agent: HostedAgent) -> Mapping[str, object]:
    summary = agent.activity.summary
    return {
        "name": agent.name,
        "state": agent.state,
        "error": agent.error,
        "pid": agent.pid,
        "sessionId": agent.details.session_id,
        "sessionFile": agent.details.session_file,
        "cwd": agent.details.cwd,
        "protocol": agent.details.profile,
        "clients": len(agent.connections),
        "lastReads": [round(each.last_read * 1000) for each in agent.connections],
        "queue": summary.queued,
        "model": summary.model,
        "tokens": summary.tokens,
        "cost": None if summary.cost is None else round(summary.cost, 6),
        "memory": resident_bytes(agent.pid),
        "needsInput": bool(agent.dialogs),
        "lastActivity": round(agent.activity.latest_s * 1000),
        "journalBytes": agent.journal.size,
        "release": agent.release,
        "subagents": agent.activity.children,
    }


def _option(words: tuple[str, ...], name: str) -> str | None:
    for index, word in enumerate(words):
        if word == name and index + 1 < len(words):
            return words[index + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


async def _first_frames(stream: ClientStream, decoder: FrameDecoder) -> Sequence[Frame] | None:
    """Return the first message of a connection, and what has come with it."""
    with trio.move_on_after(_FIRST_MESSAGE_S):
        while data := await stream.receive_some(READ_BYTES):
            if frames := decoder.receive_data(data):
                if frames[0].kind != "j":
                    raise HostProtocolError("a connection begins with a control message")
                return frames
    return None


async def _send(stream: ClientStream, control: HostControl) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.send_all(encode_host_control(control))
