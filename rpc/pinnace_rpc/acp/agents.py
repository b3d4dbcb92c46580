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

from pinnace_rpc.acp.translation.jsonrpc import INTERNAL_ERROR, RequestError
from pinnace_rpc.acp.translation.options import Wanted
from pinnace_rpc.host.agents.ports import AgentPipes, AgentProcess, AgentStart

if TYPE_CHECKING:  # loaded with the second session
    from pinnace_rpc.host.agents.zygote import ZygoteStarter

_log: Final = logging.getLogger("pinnace.acp")

# As in `pinnace_agent.mcp.configuration`, which takes longer to load.
_SERVERS_VARIABLE: Final = "PINNACE_MCP_SERVERS"
_LOADING_S: Final = 10.0
"""How long a session waits for what forks; then it starts in a new interpreter, too."""


class Opened(NamedTuple):
    """The agent of a session."""

    pipes: AgentPipes
    leave: Callable[[], None] | None = None
    """Lets it continue when its stdin is closed; None: it can't."""
    name: str | None = None
    """By which the host lists an agent that may have run before; None: it is new."""
    other_options: Sequence[str] = ()
    """The options in which it differs from what this session would be started with: it has run before."""


class Agents:
    """Starts agents with the environment of this process."""

    def __init__(
        self, nursery: trio.Nursery, words: tuple[str, ...], wanted: Wanted, release: str, *, is_persistent: bool
    ) -> None:
        """Start nothing yet.

        Args:
            nursery: Gets the tasks of processes.
            words: The command line of every agent.
            wanted: What of it an agent that runs already can take.
            release: Of this program.
            is_persistent: Whether sessions have files, which agents of the host need.
        """
        self._nursery = nursery
        self._words = words
        self.wanted: Final = wanted
        self._release = release
        self._is_persistent = is_persistent
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._has_started = False
        self._forks: ZygoteStarter | None = None

    async def agent_of(
        self, cwd: str, session: str | None, flags: Sequence[str] = (), servers: str | None = None
    ) -> Opened:
        """Return the agent of a session in a folder: the one that has it already, or a new one.

        Args:
            cwd: The folder.
            session: The path of the session's file; None: a new session.
            flags: Those of this session alone.
            servers: The MCP servers of this session, as a variable of the agent's environment; None: none.

        Raises:
            AgentStartError: It could not be started.
        """
        from pinnace_rpc.acp.hosted import HostGone, attach, runs_host  # not before the first answer

        if self._is_persistent and runs_host(os.environ):
            try:
                agent = await attach(self._start(cwd, *flags, servers=servers), session, self._release)
            except HostGone as gone:
                _log.warning("the agent is started without the host: %s", gone)
            else:
                accepted = agent.accepted
                if session is None or accepted is None:
                    return Opened(agent, agent.leave)
                return Opened(agent, agent.leave, accepted.agent, accepted.other_options)
        words = (*flags, *(() if session is None else ("--session", session)))
        return Opened(await self.start(cwd, *words, servers=servers))

    async def remove(self, session_id: str) -> None:
        """Have the host forget the agents of a session that is to be deleted.

        Raises:
            RequestError: Another client uses the session.
            AgentStartError: The host refuses.
        """
        from pinnace_rpc.acp.hosted import AgentUsed, remove_agents, runs_host

        if runs_host(os.environ):
            try:
                await trio.to_thread.run_sync(remove_agents, os.environ, session_id)
            except AgentUsed as used:
                raise RequestError(INTERNAL_ERROR, str(used), {"errorCode": "session_unavailable"}) from None

    async def forget(self, session_id: str) -> None:
        """Remove what a host has left of the agents of a session that was deleted, if none runs."""
        from pinnace_rpc.acp.hosted import forget_agents

        await trio.to_thread.run_sync(forget_agents, os.environ, session_id)

    async def start(self, cwd: str, *words: str, servers: str | None = None) -> AgentProcess:
        """Start a process in a folder, with more words, which ends with this one.

        Raises:
            AgentStartError: It could not be started.
        """
        start = self._start(cwd, *words, servers=servers)
        if not self._has_started:
            self._has_started = True
            from pinnace_rpc.host.agents.fresh import FreshStarter

            return await FreshStarter(self._nursery).start(start)
        from pinnace_rpc.host.agents.zygote import ZygoteStarter, can_fork

        if self._forks is None:
            self._forks = ZygoteStarter(self._nursery, os.environ)
        if can_fork(os.environ):
            with trio.move_on_after(_LOADING_S):
                await self._forks.zygote_pid()
        return await self._forks.start(start)

    def _start(self, cwd: str, *words: str, servers: str | None = None) -> AgentStart:
        # In mode rpc, with records as small as they can be: the last value of an option counts.
        arguments = (*self._words, *words, "--mode", "rpc", "--protocol", "1.5")
        environment = os.environ if servers is None else {**os.environ, _SERVERS_VARIABLE: servers}
        return AgentStart(arguments, cwd, environment, self._umask)
