"""Starts the agents of a client's sessions: the host does if one runs, else they are processes of this one.

An agent of the host continues when the client leaves, and a client that opens its session again finds it at work. Of
the processes of this one the first is a new interpreter, the later ones are forks: most clients have one session, and
a zygote costs as much memory as an agent. A client with a second session may open more of them: from then on each takes
a fraction of the time and of the memory.
"""

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from pinnace_agent.core.surroundings import CLIENT_SERVERS, environment
from pinnace_rpc.acp.machine import Machine
from pinnace_rpc.acp.providers import ClientProviders
from pinnace_rpc.acp.translation.jsonrpc import INTERNAL_ERROR, RequestError
from pinnace_rpc.acp.translation.options import EditorOptions
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentPipes, AgentStarter, HostedProcess

if TYPE_CHECKING:  # for annotations alone
    from pinnace_rpc.options.options import Options

_log: Final = logging.getLogger("pinnace.acp")


class OpenedAgent(NamedTuple):
    """The agent of a session."""

    pipes: AgentPipes
    leave: Callable[[], None] | None = None
    """Lets it continue when its stdin is closed; None: it can't."""
    name: str | None = None
    """By which the host lists an agent that may have run before; None: it is new."""
    other_options: Sequence[str] = ()
    """The options in which it differs from what this session would be started with: it has run before."""


class Agents:
    """Starts agents with the environment of the adapter."""

    def __init__(
        self,
        nursery: trio.Nursery,
        words: tuple[str, ...],
        options: "Options",
        release: str,
        providers: ClientProviders,
        machine: Machine,
        *,
        is_persistent: bool,
    ) -> None:
        """Start nothing yet.

        Args:
            nursery: Gets the tasks of processes.
            words: The command line of every agent.
            options: What it says.
            release: Of this program.
            providers: Those that the client has set.
            machine: Has a host, or starts them.
            is_persistent: Whether sessions have files, which agents of the host need.
        """
        self._nursery = nursery
        self._words = words
        self._options = options
        self._release = release
        self._providers = providers
        self._machine = machine
        self._is_persistent = is_persistent
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._fresh: AgentStarter | None = None
        self._has_session = False
        self._forks: AgentStarter | None = None

    @property
    def wanted(self) -> EditorOptions:
        """What of the command line an agent that runs already can take over."""
        given = self._options
        return EditorOptions(given.provider, given.model, given.thinking, given.tool_approval, given.directories)

    async def agent_of(
        self, cwd: str, session: str | None, flags: Sequence[str] = (), servers: str | None = None
    ) -> OpenedAgent:
        """Return the agent of a session in a folder: the one that has it already, or a new one.

        Args:
            cwd: The folder.
            session: The path of the session's file; None: a new session.
            flags: Those of this session alone.
            servers: The MCP servers of this session, as a variable of the agent's environment; None: none.

        Raises:
            AgentStartError: It could not be started.
        """
        if self._is_persistent and self._machine.runs_host():
            from pinnace_rpc.acp.hosted import HostGone, attach  # for those with a host

            try:
                agent = await attach(self._machine, self._start(cwd, *flags, servers=servers), session, self._release)
            except HostGone as gone:
                _log.warning("the agent is started without the host: %s", gone)
            else:
                accepted = agent.accepted
                if session is None or accepted is None:
                    return OpenedAgent(agent, agent.leave)
                return OpenedAgent(agent, agent.leave, accepted.agent, accepted.other_options)
        words = (*flags, *(() if session is None else ("--session", session)))
        return OpenedAgent(await self.start(cwd, *words, servers=servers))

    async def has_agent(self, session_id: str) -> bool:
        """Return whether an agent of the host has a session, at work or at rest.

        Raises:
            AgentStartError: The host does not answer.
        """
        from pinnace_rpc.acp.hosted import has_agent

        return self._machine.runs_host() and await has_agent(self._machine, session_id)

    async def remove(self, session_id: str) -> None:
        """Have the host forget the agents of a session that is to be deleted.

        Raises:
            RequestError: Another client uses the session.
            AgentStartError: The host refuses.
        """
        from pinnace_rpc.acp.hosted import AgentUsed, remove_agents

        if self._machine.runs_host():
            try:
                await remove_agents(self._machine, session_id)
            except AgentUsed as used:
                raise RequestError(INTERNAL_ERROR, str(used), {"errorCode": "session_unavailable"}) from None

    async def forget(self, session_id: str) -> None:
        """Remove what a host has left of the agents of a session that was deleted, if none runs."""
        from pinnace_rpc.acp.hosted import forget_agents

        if not self._machine.runs_host():
            await trio.to_thread.run_sync(forget_agents, session_id)

    async def start(self, cwd: str, *words: str, servers: str | None = None) -> HostedProcess:
        """Start the process of a session in a folder, with more words, which ends with this one.

        Raises:
            AgentStartError: It could not be started.
        """
        start = self._start(cwd, *words, servers=servers)
        if not self._has_session:
            self._has_session = True
            return await self._fresh_starter().start(start)
        if self._forks is None:
            self._forks = self._machine.fork_starter(self._nursery, self._fresh_starter())
        return await self._forks.start(start)

    async def start_passing(self, cwd: str, *words: str) -> HostedProcess:
        """Start a process that serves a question and no session: a later session counts as the first one.

        Raises:
            AgentStartError: It could not be started.
        """
        return await self._fresh_starter().start(self._start(cwd, *words))

    def _fresh_starter(self) -> AgentStarter:
        if self._fresh is None:
            self._fresh = self._machine.fresh_starter(self._nursery)
        return self._fresh

    def _start(self, cwd: str, *words: str, servers: str | None = None) -> AgentLaunch:
        # In mode rpc, with records as small as they can be: the last value of an option counts.
        arguments = (*self._words, *words, "--mode", "rpc", "--protocol", "1.5")
        given = {**self._providers.variables(), **({} if servers is None else {CLIENT_SERVERS: servers})}
        own = environment()
        return AgentLaunch(arguments, cwd, {**own, **given} if given else own, self._umask)
