"""What an adapter reaches beside its streams: the host of its user, and the processes of agents of its own.

A process that is an adapter has those of its machine (`OfProcess`). A program that runs an adapter in a task (`task`)
may give it others, so that everything around it can be decided. Its environment, its clock, its random bytes and what
changes its files are those of its surroundings (`pinnace_agent.core.surroundings`), as an agent's are.
"""

import socket
from typing import Protocol

import trio

from pinnace_agent.core.surroundings import environment
from pinnace_rpc.attach.finding import NoHost, agent_folder, connect
from pinnace_rpc.host.agents.ports import AgentStarter
from pinnace_rpc.host.locations import LocationError, running_host


class HostStream(Protocol):
    """A connection to the host."""

    async def receive_some(self, max_bytes: int) -> bytes | bytearray:
        """Return what is there, after waiting for something; empty: the end.

        Raises:
            trio.BrokenResourceError, trio.ClosedResourceError: The connection is lost, or closed here.
        """
        ...

    async def send_all(self, data: bytes) -> None:
        """Write everything; raises as `receive_some`."""
        ...

    def close_now(self) -> None:
        """Close it without waiting; tasks that use it get `trio.ClosedResourceError`, or the end. Idempotent."""
        ...


class Machine(Protocol):
    """Where an adapter finds a host, and starts agents."""

    def runs_host(self) -> bool:
        """Return whether a host runs for the adapter's agent folder."""
        ...

    async def connect(self) -> HostStream:
        """Return a connection to that host; none is started.

        Raises:
            ConnectionError: There is none, or it can't be reached. The text is for people.
        """
        ...

    def fresh_starter(self, nursery: trio.Nursery) -> AgentStarter:
        """Return what starts the first agent of the adapter, and agents that only answer a question."""
        ...

    def fork_starter(self, nursery: trio.Nursery, fresh: AgentStarter) -> AgentStarter:
        """Return what starts the later ones; `fresh` is the result of the former method."""
        ...


class OfProcess:
    """The machine of an adapter that is a process: the host of the user's folder, and children of the process."""

    def runs_host(self) -> bool:
        """Look for the lock of the host."""
        try:
            return running_host(agent_folder(environment())) is not None
        except LocationError:
            return False

    async def connect(self) -> HostStream:
        """Connect to its socket."""
        try:
            return _Socket(await trio.to_thread.run_sync(_connected))
        except NoHost as error:
            raise ConnectionError(str(error)) from None

    def fresh_starter(self, nursery: trio.Nursery) -> AgentStarter:
        """Start new interpreters."""
        from pinnace_rpc.host.agents.fresh import FreshStarter  # with the first session

        return FreshStarter(nursery)

    def fork_starter(self, nursery: trio.Nursery, fresh: AgentStarter) -> AgentStarter:
        """Fork a zygote."""
        from pinnace_rpc.host.agents.zygote import ZygoteStarter  # with the second session

        return ZygoteStarter(nursery, environment(), fresh=fresh)


class _Socket:
    """A connection by a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(connection))

    async def receive_some(self, max_bytes: int) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def send_all(self, data: bytes) -> None:
        await self._stream.send_all(data)

    def close_now(self) -> None:
        self._stream.socket.close()


def _connected() -> socket.socket:
    connection = connect(environment(), starts=False)
    connection.setblocking(False)
    return connection
