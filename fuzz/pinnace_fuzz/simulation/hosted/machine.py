"""A machine from its start to its end: its durable host, the processes of agents, and how they fail.

The host is started again after its crash, and ended in order when those who use the machine are done. A process
crashes, or is stopped for some time; a crash of the machine is one of all its processes, and the end. What uses it,
which process a fault strikes, and what else there is, each kind of history decides (`Boot`).
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import trio

from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, DiskFaults, ProcessDisk
from pinnace_fuzz.simulation.hosted.agents import AgentProcess, Launch, Starter
from pinnace_fuzz.simulation.hosted.connections import Connection, Listening, control
from pinnace_fuzz.simulation.moments import Moment, draw_moment
from pinnace_fuzz.simulation.processes import Process
from pinnace_fuzz.simulation.program import HostProgram, Program
from pinnace_fuzz.simulation.results import History
from pinnace_fuzz.simulation.streams import Pipe
from pinnace_fuzz.simulation.world import Span, Timed, World, draw_disk_faults

_MOST_BOOTS: Final = 3
_MOST_ACTIONS: Final = 12
"""Of one user in one boot."""
_MOST_FAULTS: Final = 5
_IDLE_S: Final = (20.0, 1800.0)
"""After which an agent sleeps."""
PAUSES_S: Final = (0.01, 0.5, 4.0, 9.0, 40.0)
"""For which a process is stopped."""
_FIRST_STEP: Final = 20
_MOST_STEP: Final = 6_000
_MOST_OPERATION: Final = 120
_STOP_S: Final = 60.0
_RESTARTS_S: Final = (0.0, 0.01, 0.5, 3.0, 10.0)


def draw_fault_moment(draws: random.Random) -> Moment:
    """Draw when a fault strikes."""
    return draw_moment(draws, _FIRST_STEP, _MOST_STEP, _MOST_OPERATION)


class ProcessFault(Timed, Protocol):
    """Something that happens to a process, or to the machine."""

    @property
    def victim(self) -> str:
        """The kind of process, or `machine`."""
        ...

    @property
    def pause_s(self) -> float:
        """For how long the process is stopped; 0: it crashes."""
        ...


ProcessFaultT = TypeVar("ProcessFaultT", bound=ProcessFault)


class Plan(NamedTuple, Generic[ProcessFaultT]):
    """How one boot goes."""

    actions: tuple[int, ...]
    """Of each user."""
    faults: tuple[ProcessFaultT, ...]
    disk: DiskFaults
    trouble: float
    """How often the model fails."""
    idle_s: float
    on_crash: str


def draw_plans(
    world: World,
    users: int,
    draw_fault: Callable[[random.Random], ProcessFaultT],
    *,
    faulty: float,
    on_crash: Sequence[str],
) -> list[Plan[ProcessFaultT]]:
    """Draw how the boots of a history go; in the last one nothing fails.

    Args:
        world: Whose draws decide.
        users: How many use the machine.
        draw_fault: Draws a fault.
        faulty: In how many histories the disk fails.
        on_crash: What a host may do with the queue of an agent that has crashed.
    """
    draws = world.draws("plan")
    is_faulty = draws.random() < faulty
    counts = [1 + draws.randrange(_MOST_FAULTS) for _ in range(draws.randrange(_MOST_BOOTS))]

    def plan(faults: int, *, is_faulty: bool) -> Plan[ProcessFaultT]:
        return Plan(
            tuple(1 + draws.randrange(_MOST_ACTIONS) for _ in range(users)),
            tuple(draw_fault(draws) for _ in range(faults)),
            draw_disk_faults(draws) if is_faulty else EMPTY_FAULTS,
            draws.choice((0.0, 0.1, 0.3)) if faults else 0.0,
            draws.choice(_IDLE_S),
            draws.choice(on_crash) if len(on_crash) > 1 else on_crash[0],
        )

    return [*(plan(count, is_faulty=is_faulty) for count in counts), plan(0, is_faulty=False)]


def play_boots(
    world: World, plans: Sequence[Plan[ProcessFaultT]], play: Callable[[Plan[ProcessFaultT], int], None]
) -> History:
    """Play the boots of a history one after another, without what is left out, until one has a finding."""
    boots = 0
    for number, plan in enumerate(plans, 1):
        if not world.parts.has(f"boot:{number}"):
            continue
        boots = number
        faults = enumerate(plan.faults, 1)
        left = tuple(each for place, each in faults if world.parts.has(f"fault:{number}.{place}"))
        if plan.disk != EMPTY_FAULTS and not world.parts.has(f"disk:{number}"):
            plan = plan._replace(disk=EMPTY_FAULTS)
        play(plan._replace(faults=left), number)
        if world.findings:
            break
    return world.history(boots)


class HostOptions(NamedTuple):
    """How a machine's host is run."""

    program: HostProgram
    agent_folder: str
    journal_bytes: int


class Boot(Span[ProcessFaultT]):
    """The machine from its start to its end."""

    users: str
    """What its users are called in findings."""
    all_done_s: float
    """How long they may take."""

    def __init__(
        self, world: World, plan: Plan[ProcessFaultT], number: int, host: HostOptions | None, agent: Program
    ) -> None:
        """Start nothing yet.

        Args:
            world: Around it.
            plan: How it goes.
            number: 1 for the first one.
            host: Its host; None: it has none.
            agent: Runs agents.
        """
        super().__init__(world, number, plan.faults)
        self.plan = plan
        self.draws = world.draws(f"boot {number}")
        self.agents: list[AgentProcess] = []
        """All that it has had, the newest last."""
        self.host: Process | None = None
        self._options = host
        self._agent = agent
        self._listening: Listening | None = None
        self._nursery: trio.Nursery | None = None
        self._context: Context | None = None
        self._is_ending = False

    # What a kind of history decides.

    def begin_users(self, nursery: trio.Nursery) -> None:
        """Begin those that use the machine, which end by themselves."""
        raise NotImplementedError

    def owed(self) -> Sequence[str]:
        """Return what the users still wait for."""
        raise NotImplementedError

    def make_starter(self, draws: random.Random) -> Starter:
        """Return what starts agents for the host."""
        raise NotImplementedError

    def find_victim(self, fault: ProcessFaultT) -> Process | None:
        """Return the process that a fault strikes; None: none is there."""
        raise NotImplementedError

    def struck(self, fault: ProcessFaultT) -> None:
        """Take note of a fault that has struck."""
        raise NotImplementedError

    def processes(self) -> list[Process]:
        """Return all processes that the machine has had."""
        return [*([] if self.host is None else [self.host]), *(agent.process for agent in self.agents)]

    async def before_end(self) -> None:
        """Do what comes behind the users, before the host is ended."""

    # Around each step.

    def strike(self, fault: ProcessFaultT) -> None:
        """Let a fault happen."""
        if self.has_crashed or self._nursery is None or self._context is None or self._is_ending:
            return
        trace = self.world.trace
        if fault.victim == "machine":
            trace.note("crash", "machine")
            self.has_crashed = True
            for each in self.processes():
                each.crash()
            self.struck(fault)
            self.scope.cancel()
            return
        process = self.find_victim(fault)
        if process is None or process.ended.is_set() or process.has_crashed:
            return
        if not fault.pause_s:
            trace.note("crash", process.name)
            process.crash()
            self.struck(fault)
        elif not process.is_stopped:
            trace.note("stop", f"{process.name} {fault.pause_s}")
            process.is_stopped = True
            self.struck(fault)
            # In the context of the machine, not of the process that has reached the operation.
            self._context.copy().run(self._nursery.start_soon, self._go_on, process, fault.pause_s)

    async def _go_on(self, process: Process, pause_s: float) -> None:
        await trio.sleep(pause_s)
        if process.is_stopped:
            self.world.trace.note("continue", process.name)
            process.is_stopped = False
        await trio.lowlevel.checkpoint()

    # Inside of trio.

    async def live(self) -> None:
        """Run the machine until its users are done."""
        self._context = copy_context()
        with self.scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                if self._options is not None:
                    nursery.start_soon(self._keep_host, self._options)
                with trio.move_on_after(self.all_done_s) as limit:
                    async with trio.open_nursery() as users:
                        self.begin_users(users)
                if limit.cancelled_caught:
                    self.report("stalled", f"{self.users} have not ended after {self.all_done_s:.0f} s: {self.owed()}")
                self._is_ending = True
                await self._end()
                nursery.cancel_scope.cancel()

    def has_host(self) -> bool:
        """Return whether a host runs."""
        return self.host is not None and not (self.host.ended.is_set() or self.host.has_crashed)

    def connect(self) -> Connection | None:
        """Return a connection to the host; None: there is none."""
        return None if self._listening is None else self._listening.connect()

    def begin(self, process: Process, work: Callable[[], Awaitable[int]]) -> None:
        """Begin a process."""
        assert self._nursery is not None
        assert self._context is not None
        process.start(self._nursery, self._context, work)

    async def serve_agent(self, launch: Launch, stdin: Pipe, stdout: Pipe, disk: ProcessDisk) -> int:
        """Run an agent."""
        return await self._agent(
            launch.arguments,
            dict(launch.environment),
            launch.cwd,
            stdin,
            stdout,
            disk,
            self.wall_time_ns,
            lambda _: None,
        )

    async def _keep_host(self, options: HostOptions) -> None:
        """Start the host, and again after each crash."""
        while True:
            await trio.sleep(self.draws.choice(_RESTARTS_S))
            host = self._start_host(options)
            await host.ended.wait()
            if host.error is not None and not host.has_crashed:
                if self.plan.disk.no_space:  # it may not start
                    self.world.trace.note("host", f"has not started: {host.error}")
                    continue
                self.report("failure", f"the host has raised {host.error!r}")
                return
            if self._is_ending:
                return
            if not host.has_crashed:
                self.report("failure", "the host has ended, and nothing has asked for it")
                return

    def _start_host(self, options: HostOptions) -> Process:
        listening = Listening(random.Random(self.draws.getrandbits(64)))
        starter = self.make_starter(random.Random(self.draws.getrandbits(64)))
        disk = self.world.disk.begin()

        def leave() -> None:
            listening.end()
            starter.end()

        async def serve() -> int:
            await options.program(
                options.agent_folder,
                listening,
                starter,
                disk,
                lambda: self.wall_time_ns() / 1e9,
                self.clock.current_time,
                idle_s=self.plan.idle_s,
                journal_bytes=options.journal_bytes,
                on_crash=self.plan.on_crash,
                boot=lambda: f"boot {self.number}",
            )
            return 0

        host = self.host = Process(f"host {disk.pid}", disk, leave)
        self._listening = listening
        self.begin(host, serve)
        return host

    async def _end(self) -> None:
        """End the host in order, with its agents."""
        for process in self.processes():
            process.is_stopped = False
        await self.before_end()
        if self.has_host() and (connection := self.connect()) is not None:
            await connection.to_host.send_all(control({"type": "stop_host"}))
        with trio.move_on_after(_STOP_S) as limit:
            for process in self.processes():
                await process.ended.wait()
        if limit.cancelled_caught:
            left = [process.name for process in self.processes() if not process.ended.is_set()]
            self.report("stalled", f"not ended {_STOP_S:.0f} s after the end of {self.users}: {left}")
