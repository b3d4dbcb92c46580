"""Processes of agents, as a simulated host starts them: the agent's entry point in a process of the same machine.

A process of the same agent that still lives holds the session; a real process waits for it in its start, and nothing
else of it runs meanwhile. That wait is here, before the start.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import trio

from pinnace_fuzz.simulation.disk import ProcessDisk
from pinnace_fuzz.simulation.processes import Process
from pinnace_fuzz.simulation.streams import Pipe

_LEASE_WAIT_S: Final = 6.0
START_S: Final = (0.0, 0.0, 0.02, 0.3, 2.0)
"""How long a process takes from its start to its first instruction."""


class Launch(Protocol):
    """What a host starts a process with."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command line behind `--mode rpc`."""
        ...

    @property
    def cwd(self) -> str:
        """Its folder."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Its environment."""
        ...


Begin = Callable[[Process, Callable[[], Awaitable[int]]], None]
"""Begins a process on the machine."""
Serve = Callable[[Launch, Pipe, Pipe, ProcessDisk], Awaitable[int]]
"""Runs an agent with its stdin, its stdout and its disk; returns the exit code."""


class _Stdin(trio.abc.SendStream):
    """The host's end of an agent's stdin."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._is_closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closed:
            raise trio.ClosedResourceError
        await self._pipe.send_all(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await self._pipe.wait_room()

    async def aclose(self) -> None:
        self._is_closed = True
        self._pipe.end()
        await trio.lowlevel.checkpoint()


class _Stdout(trio.abc.ReceiveStream):
    """The host's end of an agent's stdout."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._pipe.receive_some(max_bytes or 65536)

    async def aclose(self) -> None:
        self._pipe.lose_reader()
        await trio.lowlevel.checkpoint()


class AgentProcess:
    """A process of an agent as its host holds it."""

    def __init__(self, disk: ProcessDisk, draws: random.Random) -> None:
        """Start nothing yet."""
        self._in, self._out = (Pipe(random.Random(draws.getrandbits(64))) for _ in range(2))
        self.process = Process(f"agent {disk.pid}", disk, self._leave)
        self.pid = disk.pid
        self.stdin = _Stdin(self._in)
        self.stdout = _Stdout(self._out)

    def _leave(self) -> None:
        self._out.lose_writer()
        self._in.lose_reader()

    def lose_host(self) -> None:
        """The host's process is gone."""
        self._in.lose_writer()
        self._out.lose_reader()

    async def serve(self, serve: Serve, launch: Launch, delay_s: float) -> int:
        """Run the agent."""
        await trio.sleep(delay_s)
        return await serve(launch, self._in, self._out, self.process.disk)

    def send_now(self, data: bytes) -> int:
        """Write to stdin what it takes."""
        try:
            return 0 if self._in.is_over else self._in.write_now(data)
        except BlockingIOError:
            return 0

    def has_programs(self) -> bool:
        """No tool starts one."""
        return False

    def stderr_tail(self) -> str:
        """Return why it could not start."""
        return "" if self.process.error is None else f"pinnace: {self.process.error}"

    async def wait(self) -> int | None:
        """Wait for the end, and return the status."""
        await self.process.ended.wait()
        if self.process.error is not None and not self.process.has_crashed:
            return getattr(self.process.error, "exit_code", 1)
        return self.process.status

    def kill(self) -> None:
        """End it at once."""
        self.process.crash()


class Starter:
    """Starts the processes of the agents of one host's process; its host must have one agent."""

    def __init__(
        self,
        living: list[AgentProcess],
        begin: Begin,
        serve: Serve,
        open_disk: Callable[[], ProcessDisk],
        draws: random.Random,
    ) -> None:
        """Start nothing yet.

        Args:
            living: All processes of agents on the machine, of former hosts too; new ones are added.
            begin: Begins a process.
            serve: Runs an agent.
            open_disk: Returns the disk of a new process.
            draws: Decides how long a start takes.
        """
        self._living = living
        self._begin = begin
        self.serve = serve
        self._open_disk = open_disk
        self._draws = draws
        self._own: list[AgentProcess] = []

    async def start(self, start: Launch) -> AgentProcess:
        """Start a process, when those before it have ended, or in vain after some seconds."""
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(_LEASE_WAIT_S):
            for former in tuple(self._living):
                await former.process.ended.wait()
        return self.begin(lambda agent, delay_s: agent.serve(self.serve, start, delay_s))

    def begin(self, work: Callable[[AgentProcess, float], Awaitable[int]]) -> AgentProcess:
        """Begin a process at once.

        Args:
            work: Runs it, with the seconds that pass before its first instruction.
        """
        agent = AgentProcess(self._open_disk(), self._draws)
        self._living.append(agent)
        self._own.append(agent)
        delay_s = self._draws.choice(START_S)
        self._begin(agent.process, lambda: work(agent, delay_s))
        return agent

    def end(self) -> None:
        """The process that starts them is gone."""
        for agent in self._own:
            agent.lose_host()
