"""One history of a host: boots of a machine on one disk, each ended in order or by a crash of the machine.

In a boot live a host, the processes of its agent, and clients that attach to it. Processes crash at a scheduling step
or at an operation of the disk, or are stopped for some time, as the seed decides; the host is started again after its
crash. In the last boot nothing crashes, and the disk and the model work: everything that is owed must be given, and the
whole journal is read again.
"""

import random
from collections.abc import Awaitable, Callable, Collection
from contextvars import Context, copy_context
from typing import Final, Literal, NamedTuple

import trio

from pinnace_fuzz.simulation.dialogs import EXTENSION, EXTENSION_NAME
from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, DiskFaults, ProcessDisk
from pinnace_fuzz.simulation.hosted.agents import AgentProcess, Launch, Starter
from pinnace_fuzz.simulation.hosted.client import HostedClient, Sessions, Surroundings, audit
from pinnace_fuzz.simulation.hosted.connections import Connection, Listening, control
from pinnace_fuzz.simulation.hosted.dialogs import SharedDialogs
from pinnace_fuzz.simulation.hosted.events import EventLog
from pinnace_fuzz.simulation.moments import Moment, RecordMoment, draw_moment, draw_record_moment, draw_unread_answer
from pinnace_fuzz.simulation.oracles import find_repeated, find_unnamed
from pinnace_fuzz.simulation.processes import Process, has_crashed, is_held
from pinnace_fuzz.simulation.program import HostProgram, Program
from pinnace_fuzz.simulation.results import SESSION, History
from pinnace_fuzz.simulation.streams import Pipe
from pinnace_fuzz.simulation.world import Span, World, draw_disk_faults, quiet_folder

_MOST_BOOTS: Final = 3
_MOST_CLIENTS: Final = 3
_MOST_ACTIONS: Final = 12
_MOST_FAULTS: Final = 5
_FIRST_STEP: Final = 20
_MOST_STEP: Final = 6_000
_MOST_OPERATION: Final = 120
_ALL_DONE_S: Final = 7200.0
"""In a boot, for its clients."""
_STOP_S: Final = 60.0
_RESTARTS_S: Final = (0.0, 0.01, 0.5, 3.0, 10.0)
_PAUSES_S: Final = (0.01, 0.5, 4.0, 9.0, 40.0)
"""For which a process is stopped."""
_IDLE_S: Final = (20.0, 1800.0)
_SLEEPY: Final = 0.4
"""In how many pointed histories an agent sleeps soon, and its model is slow: its clients are away while it works."""
_SLEEPY_S: Final = 3.0
_NAMED_BURSTS: Final = 0.3
"""In how many pointed histories all commands that come together name the session, and answers are lost."""
_AT_RECORDS: Final = 0.5
"""How many of the faults of a pointed history strike at a record."""
_JOURNAL_BYTES: Final = (64 * 1024 * 1024,) * 4 + (64 * 1024,)
"""With little, old records are dropped."""
_WITH_DIALOGS: Final = 0.15
_HOST_DESCRIPTORS: Final = 8
"""Most files that a host with one agent has open, beside one for each client."""

Victim = Literal["host", "agent", "machine"]


class Fault(NamedTuple):
    """Something that happens to a process, or to the machine."""

    victim: Victim
    pause_s: float
    """For how long it is stopped; 0: it crashes."""
    moment: Moment | RecordMoment


class _Plan(NamedTuple):
    """How one boot goes."""

    actions: tuple[int, ...]
    """Of each client."""
    faults: tuple[Fault, ...]
    disk: DiskFaults
    trouble: float
    idle_s: float
    on_crash: str


def simulate_hosted(seed: int, program: Program, host: HostProgram, left_out: Collection[str] = ()) -> History:
    """Play the history of a seed, without some parts. Runs trio; not for several threads."""
    with quiet_folder() as (folder, log):
        world = World(seed, "hosted ", folder, log, left_out)
        log.is_left_out = has_crashed
        scene = _Scene(world, program, host)
        boots = 0
        for number, plan in enumerate(_plans(world, len(scene.clients)), 1):
            if not world.parts.has(f"boot:{number}"):
                continue
            boots = number
            faults = enumerate(plan.faults, 1)
            left = tuple(each for place, each in faults if world.parts.has(f"fault:{number}.{place}"))
            if plan.disk != EMPTY_FAULTS and not world.parts.has(f"disk:{number}"):
                plan = plan._replace(disk=EMPTY_FAULTS)
            _Boot(scene, plan._replace(faults=left), number).play()
            if world.findings:
                break
        return world.history(boots)


class _Scene:
    """What outlives the boots, beside the world."""

    def __init__(self, world: World, program: Program, host: HostProgram) -> None:
        self.world = world
        self.program = program
        self.host = host
        world.disk.on_second_writer = lambda file: world.report("leases", f"two processes write file {file} in turns")
        self.agent_folder = world.sessions.parent / "agent"
        self.events = EventLog(world.report)
        self.journal_bytes = world.draws("journal").choice(_JOURNAL_BYTES)
        self.events.may_have_gaps = self.journal_bytes < _JOURNAL_BYTES[0]
        names_session = ("--session-id", SESSION) if world.draws("session").random() < 0.5 else ()
        has_dialogs = world.draws("shared dialogs").random() < _WITH_DIALOGS
        extension = world.home / EXTENSION_NAME
        if has_dialogs:
            extension.write_text(EXTENSION)
        self.dialogs = SharedDialogs(world.report) if has_dialogs else None
        self.around = Surroundings(
            world.trace,
            world.ledger,
            self.events,
            Sessions(world.ledger, world.report),
            world.report,
            world.parts,
            (*world.flags, *names_session, *(("--extension", str(extension)) if has_dialogs else ())),
            str(world.work),
            world.environment,
            self.dialogs,
            world.take_record,
        )
        has_named_bursts = _has_named_bursts(world)
        count = 1 + world.draws("clients").randrange(_MOST_CLIENTS)
        self.clients = [
            HostedClient(
                f"client-{n}",
                world.draws(f"client {n}"),
                self.around,
                world.draws(f"bursts {n}") if world.is_pointed else None,
                has_named_bursts=has_named_bursts,
            )
            for n in range(count)
        ]


def _plans(world: World, clients: int) -> list[_Plan]:
    draws = world.draws("plan")
    is_faulty = draws.random() < 0.25
    counts = [1 + draws.randrange(_MOST_FAULTS) for _ in range(draws.randrange(_MOST_BOOTS))]
    plans = [_plan(draws, clients, count, is_faulty=is_faulty) for count in counts]
    plans.append(_plan(draws, clients, 0, is_faulty=False))
    if not world.is_pointed:
        return plans
    records = world.draws("records")
    at_record = _at_answer if _has_named_bursts(world) else _perhaps_at_record
    plans = [plan._replace(faults=tuple(at_record(each, records) for each in plan.faults)) for plan in plans]
    if world.draws("sleep").random() < _SLEEPY:
        plans = [plan._replace(idle_s=_SLEEPY_S) for plan in plans]
    return plans


def _has_named_bursts(world: World) -> bool:
    return world.draws("kind of bursts").random() < _NAMED_BURSTS


def _at_answer(fault: Fault, draws: random.Random) -> Fault:
    """Let the machine crash where a client has not got an answer, which the host has kept."""
    return fault if fault.pause_s else Fault("machine", 0.0, draw_unread_answer(draws))


def _perhaps_at_record(fault: Fault, draws: random.Random) -> Fault:
    """Let a fault strike where something was just promised; only a client of a machine that crashes may miss that."""
    moment = draw_record_moment(draws, is_read=None if fault.victim == "machine" else True)
    victim: Victim = draws.choice((fault.victim, "machine"))
    if draws.random() >= _AT_RECORDS or fault.pause_s:
        return fault
    return Fault(victim, 0.0, moment)


def _plan(draws: random.Random, clients: int, faults: int, *, is_faulty: bool) -> _Plan:
    return _Plan(
        tuple(1 + draws.randrange(_MOST_ACTIONS) for _ in range(clients)),
        tuple(_fault(draws) for _ in range(faults)),
        draw_disk_faults(draws) if is_faulty else EMPTY_FAULTS,
        draws.choice((0.0, 0.1, 0.3)) if faults else 0.0,
        draws.choice(_IDLE_S),
        draws.choice(("pause", "continue")),
    )


def _fault(draws: random.Random) -> Fault:
    victim: Victim = draws.choice(("host", "host", "agent", "agent", "machine"))
    pause_s = draws.choice(_PAUSES_S) if victim != "machine" and draws.random() < 0.3 else 0.0
    return Fault(victim, pause_s, draw_moment(draws, _FIRST_STEP, _MOST_STEP, _MOST_OPERATION))


class _Boot(Span[Fault]):
    """The machine from its start to its end."""

    def __init__(self, scene: _Scene, plan: _Plan, number: int) -> None:
        super().__init__(scene.world, number, plan.faults)
        self._of = scene
        self._plan = plan
        self._draws = scene.world.draws(f"boot {number}")
        self._host: Process | None = None
        self._listening: Listening | None = None
        self._agents: list[AgentProcess] = []
        self._nursery: trio.Nursery | None = None
        self._context: Context | None = None
        self._most_open = 0
        self._is_ending = False

    def play(self) -> None:
        of, world, plan = self._of, self.world, self._plan
        world.trace.note("boot", f"{self.number} {plan}")
        world.write_script(self.number, trouble=plan.trouble, is_slow=plan.idle_s == _SLEEPY_S)
        if plan.disk != EMPTY_FAULTS:
            of.events.may_have_gaps = True
        self.run(self._live, plan.disk, is_held)
        self._disturb()
        if self.has_crashed:
            of.events.may_have_gaps = True
            of.events.believed.clear()
            world.disk.lose_power()
        world.find_lost()
        if not self.has_crashed and world.ledger.is_trusted:
            for text in find_unnamed(of.around.sessions.names, world.session_files()):
                world.report("commands", text)
        of.around.sessions.names.clear()
        for text in find_repeated(world.session_files()):
            world.report("commands", text)
        for defect in world.log.defects:
            world.report("failure", f"the host or an agent has logged {defect}")
        if self._most_open > _HOST_DESCRIPTORS + len(of.clients):
            world.report("descriptors", f"the host had {self._most_open} files open")

    # Around each step.

    def on_operation(self, disk: ProcessDisk) -> None:
        if self._host is not None and disk is self._host.disk:
            self._most_open = max(self._most_open, disk.open_count)
        super().on_operation(disk)

    def strike(self, fault: Fault) -> None:
        if self.has_crashed or self._nursery is None or self._context is None or self._is_ending:
            return
        trace = self.world.trace
        if fault.victim == "machine":
            trace.note("crash", "machine")
            self.has_crashed = True
            for each in self._processes():
                each.crash()
            self.scope.cancel()
            return
        newest = self._agents[-1].process if self._agents else None
        process = self._host if fault.victim == "host" else newest
        if process is None or process.ended.is_set() or process.has_crashed:
            return
        if not fault.pause_s:
            trace.note("crash", process.name)
            self._disturb()
            process.crash()
        elif not process.is_stopped:
            trace.note("stop", f"{process.name} {fault.pause_s}")
            process.is_stopped = True
            self._of.events.disturbed_s = trace.time_s + fault.pause_s
            # In the context of the machine, not of the process that has reached the operation.
            self._context.copy().run(self._nursery.start_soon, self._go_on, process, fault.pause_s)

    def _disturb(self) -> None:
        self._of.events.crashes += 1
        self._of.events.disturbed_s = self.world.trace.time_s

    async def _go_on(self, process: Process, pause_s: float) -> None:
        await trio.sleep(pause_s)
        if process.is_stopped:
            self.world.trace.note("continue", process.name)
            process.is_stopped = False
        await trio.lowlevel.checkpoint()

    def _processes(self) -> list[Process]:
        return [*([self._host] if self._host is not None else []), *(agent.process for agent in self._agents)]

    # Inside of trio.

    async def _live(self) -> None:
        of = self._of
        self._context = copy_context()
        with self.scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._keep_host)
                with trio.move_on_after(_ALL_DONE_S) as limit:
                    async with trio.open_nursery() as clients:
                        for client, count in zip(of.clients, self._plan.actions, strict=True):
                            clients.start_soon(client.live, count, self._connect, name=client.name)
                if limit.cancelled_caught:
                    owed = [f"{client.name}: {[*client.owed]}" for client in of.clients if client.owed]
                    self.report("stalled", f"clients have not ended after {_ALL_DONE_S:.0f} s; owed: {owed}")
                self._is_ending = True
                await self._end()
                nursery.cancel_scope.cancel()

    def _connect(self) -> Connection | None:
        return None if self._listening is None else self._listening.connect()

    async def _keep_host(self) -> None:
        """Start the host, and again after each crash."""
        while True:
            await trio.sleep(self._draws.choice(_RESTARTS_S))
            listening = Listening(random.Random(self._draws.getrandbits(64)))
            starter = Starter(
                self._agents,
                self._begin,
                self._serve_agent,
                self.world.disk.begin,
                random.Random(self._draws.getrandbits(64)),
            )

            host = self._start_host(listening, starter)
            await host.ended.wait()
            if host.error is not None and not host.has_crashed:
                if self._plan.disk.no_space:  # it may not start
                    self.world.trace.note("host", f"has not started: {host.error}")
                    continue
                self.report("failure", f"the host has raised {host.error!r}")
                return
            if self._is_ending:
                return
            if not host.has_crashed:
                self.report("failure", "the host has ended, and nothing has asked for it")
                return

    def _start_host(self, listening: Listening, starter: Starter) -> Process:
        disk = self.world.disk.begin()

        def leave() -> None:
            listening.end()
            starter.end()

        host = self._host = Process(f"host {disk.pid}", disk, leave)
        self._listening = listening
        self._begin(host, lambda: self._serve_host(listening, starter, disk))
        return host

    def _begin(self, process: Process, work: Callable[[], Awaitable[int]]) -> None:
        assert self._nursery is not None
        assert self._context is not None
        process.start(self._nursery, self._context, work)

    async def _serve_host(self, listening: Listening, starter: Starter, disk: ProcessDisk) -> int:
        plan = self._plan
        await self._of.host(
            str(self._of.agent_folder),
            listening,
            starter,
            disk,
            self._wall_time_s,
            self.clock.current_time,
            idle_s=plan.idle_s,
            journal_bytes=self._of.journal_bytes,
            on_crash=plan.on_crash,
            boot=lambda: f"boot {self.number}",
        )
        return 0

    async def _serve_agent(self, launch: Launch, stdin: Pipe, stdout: Pipe, disk: ProcessDisk) -> int:
        if self._of.dialogs is not None and not self.world.ledger.is_trusted:
            self._of.dialogs.forget()
        return await self._of.program(
            launch.arguments,
            dict(launch.environment),
            launch.cwd,
            stdin,
            stdout,
            disk,
            self.wall_time_ns,
            lambda _: None,
        )

    def _wall_time_s(self) -> float:
        return self.wall_time_ns() / 1e9

    async def _end(self) -> None:
        """Read the whole journal again, and end the host in order, with its agent."""
        of = self._of
        for process in self._processes():
            process.is_stopped = False
        if not self._plan.faults and (connection := self._connect()) is not None:
            await audit(connection, of.around)
        host = self._host
        assert host is not None
        if (connection := self._connect()) is not None and not host.ended.is_set():
            await connection.to_host.send_all(control({"type": "stop_host"}))
        with trio.move_on_after(_STOP_S) as limit:
            for process in self._processes():
                await process.ended.wait()
        if limit.cancelled_caught:
            left = [process.name for process in self._processes() if not process.ended.is_set()]
            self.report("stalled", f"not ended {_STOP_S:.0f} s after the host was asked to end: {left}")
