"""Processes of adapters on a simulated machine, the host that they find there, and the agents that they start.

An adapter has its stdin and its stdout, connections to the host, and the pipes of its own agents: all are cut when its
process is gone. A process of an agent waits in its start for the one that has its session; a real one does that in its
only thread, so the wait is here, before the start.
"""

import fcntl
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import trio

from pinnace_fuzz.simulation.disk import ProcessDisk
from pinnace_fuzz.simulation.hosted.agents import START_S, AgentProcess, Launch, Starter
from pinnace_fuzz.simulation.hosted.connections import Connect, Connection
from pinnace_fuzz.simulation.processes import Process
from pinnace_fuzz.simulation.streams import Pipe

_LEASE_WAIT_S: Final = 6.0
_LEASE_POLL_S: Final = 0.25


class SessionStarter(Starter):
    """Starts the processes of agents for one process: a host, or an adapter."""

    async def start(self, start: Launch) -> AgentProcess:
        """Start a process, which first waits for another one that has its session, or in vain after some seconds."""
        await trio.lowlevel.checkpoint()

        async def work(agent: AgentProcess, delay_s: float) -> int:
            await _wait_for_session(start.arguments)
            return await agent.serve(self.serve, start, delay_s)

        return self.begin(work)


async def _wait_for_session(arguments: Sequence[str]) -> None:
    if "--session" not in arguments:
        return
    session = arguments[len(arguments) - 1 - arguments[::-1].index("--session") + 1]
    with trio.move_on_after(_LEASE_WAIT_S):
        while _is_leased(f"{session}.lease"):  # noqa: ASYNC110 - as a process that waits for a lock
            await trio.sleep(_LEASE_POLL_S)


def _is_leased(path: str) -> bool:
    """Return whether a process has the lease of a session: its lock ends with the last task of that process."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class _HostStream:
    """An adapter's end of a connection to the host."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_closed = False

    async def receive_some(self, max_bytes: int) -> bytes:
        self._check()
        return await self._connection.to_client.receive_some(max_bytes)

    async def send_all(self, data: bytes) -> None:
        self._check()
        await self._connection.to_host.send_all(data)

    def close_now(self) -> None:
        self._is_closed = True
        self._connection.lose_client()

    def _check(self) -> None:
        if self._is_closed:
            raise trio.ClosedResourceError


class AdapterMachine:
    """What one adapter reaches: the host that runs at a moment, and a starter of agents of its own."""

    def __init__(self, has_host: Callable[[], bool], connect: Connect, starter: SessionStarter) -> None:
        """Connect to nothing yet.

        Args:
            has_host: Whether a host runs.
            connect: Connects to the host; None: none runs.
            starter: Starts its agents.
        """
        self._has_host = has_host
        self._connect = connect
        self._starter = starter
        self._streams: list[_HostStream] = []

    def runs_host(self) -> bool:
        """Return whether one runs."""
        return self._has_host()

    async def connect(self) -> _HostStream:
        """Connect to it.

        Raises:
            ConnectionError: None runs.
        """
        await trio.lowlevel.checkpoint()
        if (connection := self._connect()) is None:
            raise ConnectionError("no host runs")
        self._streams.append(stream := _HostStream(connection))
        return stream

    def fresh_starter(self, nursery: trio.Nursery) -> SessionStarter:
        """Return the starter."""
        return self._starter

    def fork_starter(self, nursery: trio.Nursery, fresh: object) -> SessionStarter:
        """Return the same one."""
        return self._starter

    def end(self) -> None:
        """The adapter is gone."""
        for stream in self._streams:
            stream.close_now()
        self._starter.end()


class AdapterProcess:
    """A process of an adapter, as its editor holds it."""

    def __init__(self, name: str, disk: ProcessDisk, machine: AdapterMachine, draws: random.Random) -> None:
        """Start nothing yet."""
        self.stdin, self.stdout = (Pipe(random.Random(draws.getrandbits(64))) for _ in range(2))
        self.machine = machine
        self.process = Process(f"{name} {disk.pid}", disk, self._leave)
        self._delay_s = draws.choice(START_S)

    async def serve(self, run: Callable[[], Awaitable[int]]) -> int:
        """Run the adapter."""
        await trio.sleep(self._delay_s)
        return await run()

    def _leave(self) -> None:
        self.stdout.lose_writer()
        self.stdin.lose_reader()
        self.machine.end()

    def lose_editor(self) -> None:
        """The editor's process is gone."""
        self.stdin.lose_writer()
        self.stdout.lose_reader()


class StartAdapter(Protocol):
    """Starts an adapter for an editor."""

    def __call__(self, name: str, flags: Sequence[str]) -> AdapterProcess:
        """Start one."""
        ...
