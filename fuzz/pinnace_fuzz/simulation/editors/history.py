"""One history of editors: boots of a machine on one disk, each ended in order or by a crash of the machine.

In a boot live editors, each with an adapter, the agents of their sessions, and in most histories a durable host, which
starts agents while it runs; else the adapters do. Adapters, agents and the host crash at a scheduling step or at an
operation of the disk, or are stopped for some time, as the seed decides; the host is started again after its crash,
adapters by their editors. In the last boot nothing crashes, and the disk and the model work: everything that is owed
must be given, and each session is shown again.
"""

import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import Context, copy_context
from typing import Final, Literal, NamedTuple

import trio

from pinnace_fuzz.simulation.dialogs import EXTENSION, EXTENSION_NAME
from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, DiskFaults, ProcessDisk
from pinnace_fuzz.simulation.editors.adapters import AdapterMachine, AdapterProcess, SessionStarter
from pinnace_fuzz.simulation.editors.client import Editor
from pinnace_fuzz.simulation.editors.connection import Surroundings
from pinnace_fuzz.simulation.editors.prompts import Messages, find_wrong
from pinnace_fuzz.simulation.hosted.agents import AgentProcess, Launch
from pinnace_fuzz.simulation.hosted.connections import Connection, Listening, control
from pinnace_fuzz.simulation.model import MODEL, TOOLS
from pinnace_fuzz.simulation.moments import Moment, draw_moment
from pinnace_fuzz.simulation.processes import Process, has_crashed, is_held
from pinnace_fuzz.simulation.program import AdapterProgram, HostProgram, Program
from pinnace_fuzz.simulation.results import History
from pinnace_fuzz.simulation.streams import Pipe
from pinnace_fuzz.simulation.world import Span, World, draw_disk_faults, quiet_folder

_MOST_BOOTS: Final = 3
_MOST_EDITORS: Final = 2
_MOST_ACTIONS: Final = 12
_MOST_FAULTS: Final = 5
_FIRST_STEP: Final = 20
_MOST_STEP: Final = 6_000
_MOST_OPERATION: Final = 120
_ALL_DONE_S: Final = 14_400.0
"""In a boot, for its editors."""
_STOP_S: Final = 60.0
_RESTARTS_S: Final = (0.0, 0.01, 0.5, 3.0, 10.0)
_PAUSES_S: Final = (0.01, 0.5, 4.0, 9.0, 40.0)
"""For which a process is stopped."""
_IDLE_S: Final = (20.0, 1800.0)
_JOURNAL_BYTES: Final = 64 * 1024 * 1024
_WITH_HOST: Final = 0.6
_WITH_DIALOGS: Final = 0.4

Victim = Literal["host", "adapter", "agent", "machine"]
_VICTIMS: Final[Sequence[Victim]] = ("host", "adapter", "adapter", "agent", "agent", "machine")


class Programs(NamedTuple):
    """The entry points of what is simulated."""

    agent: Program
    host: HostProgram
    adapter: AdapterProgram


class Fault(NamedTuple):
    """Something that happens to a process, or to the machine."""

    victim: Victim
    which: int
    """Of those that live: this one, counted on from the first."""
    pause_s: float
    """For how long it is stopped; 0: it crashes."""
    moment: Moment


class _Plan(NamedTuple):
    """How one boot goes."""

    actions: tuple[int, ...]
    """Of each editor."""
    faults: tuple[Fault, ...]
    disk: DiskFaults
    trouble: float
    idle_s: float


def simulate_editors(seed: int, programs: Programs, left_out: Collection[str] = ()) -> History:
    """Play the history of a seed, without some parts. Runs trio; not for several threads."""
    with quiet_folder() as (folder, log):
        world = World(seed, "editors ", folder, log, left_out)
        log.is_left_out = has_crashed
        scene = _Scene(world, programs)
        plans = _plans(world, len(scene.editors))
        boots = 0
        for number, plan in enumerate(plans, 1):
            if not world.parts.has(f"boot:{number}"):
                continue
            boots = number
            faults = enumerate(plan.faults, 1)
            left = tuple(each for place, each in faults if world.parts.has(f"fault:{number}.{place}"))
            if plan.disk != EMPTY_FAULTS and not world.parts.has(f"disk:{number}"):
                plan = plan._replace(disk=EMPTY_FAULTS)
            _Boot(scene, plan._replace(faults=left), number, is_last=number == len(plans)).play()
            if world.findings:
                break
        return world.history(boots)


class _Scene:
    """What outlives the boots, beside the world."""

    def __init__(self, world: World, programs: Programs) -> None:
        self.world = world
        self.programs = programs
        world.disk.on_second_writer = lambda file: world.report("leases", f"two processes write file {file} in turns")
        self.agent_folder = world.home / ".pi" / "agent"
        draws = world.draws("scene")
        self.has_host = draws.random() < _WITH_HOST
        has_dialogs = draws.random() < _WITH_DIALOGS
        extension = world.home / EXTENSION_NAME
        if has_dialogs:
            extension.write_text(EXTENSION)
        self.messages = Messages()
        flags = ("--model", MODEL, "--tools", TOOLS, "--session-dir", str(world.sessions))
        self.around = Surroundings(
            world.trace,
            self.messages,
            world.report,
            world.parts,
            str(world.work),
            (*flags, *(("--extension", str(extension)) if has_dialogs else ())),
            has_dialogs,
        )
        count = 1 + draws.randrange(_MOST_EDITORS)
        self.editors = [Editor(f"editor-{n}", world.draws(f"editor {n}"), self.around) for n in range(count)]


def _plans(world: World, editors: int) -> list[_Plan]:
    draws = world.draws("plan")
    is_faulty = draws.random() < 0.2
    counts = [1 + draws.randrange(_MOST_FAULTS) for _ in range(draws.randrange(_MOST_BOOTS))]
    return [_plan(draws, editors, count, is_faulty=is_faulty) for count in counts] + [
        _plan(draws, editors, 0, is_faulty=False)
    ]


def _plan(draws: random.Random, editors: int, faults: int, *, is_faulty: bool) -> _Plan:
    return _Plan(
        tuple(1 + draws.randrange(_MOST_ACTIONS) for _ in range(editors)),
        tuple(_fault(draws) for _ in range(faults)),
        draw_disk_faults(draws) if is_faulty else EMPTY_FAULTS,
        draws.choice((0.0, 0.1, 0.3)) if faults else 0.0,
        draws.choice(_IDLE_S),
    )


def _fault(draws: random.Random) -> Fault:
    victim = draws.choice(_VICTIMS)
    pause_s = draws.choice(_PAUSES_S) if victim != "machine" and draws.random() < 0.3 else 0.0
    return Fault(victim, draws.randrange(4), pause_s, draw_moment(draws, _FIRST_STEP, _MOST_STEP, _MOST_OPERATION))


class _Boot(Span[Fault]):
    """The machine from its start to its end."""

    def __init__(self, scene: _Scene, plan: _Plan, number: int, *, is_last: bool) -> None:
        super().__init__(scene.world, number, plan.faults)
        self._of = scene
        self._plan = plan
        self._is_last = is_last
        self._draws = scene.world.draws(f"boot {number}")
        self._host: Process | None = None
        self._listening: Listening | None = None
        self._agents: list[AgentProcess] = []
        self._adapters: list[AdapterProcess] = []
        self._nursery: trio.Nursery | None = None
        self._context: Context | None = None
        self._is_calm = True
        self._is_ending = False

    def play(self) -> None:
        of, world, plan = self._of, self.world, self._plan
        world.trace.note("boot", f"{self.number} {plan}")
        world.write_script(self.number, trouble=plan.trouble)
        first = len(of.messages.every)
        for editor in of.editors:
            editor.is_disturbed = False
        self.run(self._live, plan.disk, is_held)
        if self.has_crashed:
            world.disk.lose_power()
            for editor in of.editors:
                editor.lose_power()
        is_calm = self._is_calm and not any(editor.is_disturbed for editor in of.editors)
        calm_since = first if is_calm else len(of.messages.every)
        files = world.session_files()
        for text in find_wrong(of.messages, files, is_trusted=world.ledger.is_trusted, calm_since=calm_since):
            world.report("messages", text)
        for defect in world.log.defects:
            world.report("failure", f"a process has logged {defect}")

    # Around each step.

    def strike(self, fault: Fault) -> None:
        if self.has_crashed or self._nursery is None or self._context is None or self._is_ending:
            return
        trace = self.world.trace
        if fault.victim == "machine":
            trace.note("crash", "machine")
            self.has_crashed = True
            self._is_calm = False
            for each in self._processes():
                each.crash()
            self.scope.cancel()
            return
        living = [each for each in self._victims(fault.victim) if not (each.ended.is_set() or each.has_crashed)]
        if not living:
            return
        process = living[fault.which % len(living)]
        self._is_calm = False
        if not fault.pause_s:
            trace.note("crash", process.name)
            process.crash()
            if fault.victim != "adapter":
                for editor in self._of.editors:
                    editor.lose_records()
        elif not process.is_stopped:
            trace.note("stop", f"{process.name} {fault.pause_s}")
            process.is_stopped = True
            # In the context of the machine, not of the process that has reached the operation.
            self._context.copy().run(self._nursery.start_soon, self._go_on, process, fault.pause_s)

    async def _go_on(self, process: Process, pause_s: float) -> None:
        await trio.sleep(pause_s)
        if process.is_stopped:
            self.world.trace.note("continue", process.name)
            process.is_stopped = False
        await trio.lowlevel.checkpoint()

    def _victims(self, victim: Victim) -> list[Process]:
        match victim:
            case "host":
                return [] if self._host is None else [self._host]
            case "adapter":
                return [each.process for each in self._adapters]
            case _:
                return [each.process for each in self._agents]

    def _processes(self) -> list[Process]:
        return [process for victim in ("host", "adapter", "agent") for process in self._victims(victim)]

    # Inside of trio.

    async def _live(self) -> None:
        of = self._of
        self._context = copy_context()
        with self.scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                if of.has_host:
                    nursery.start_soon(self._keep_host)
                with trio.move_on_after(_ALL_DONE_S) as limit:
                    async with trio.open_nursery() as editors:
                        for editor, count in zip(of.editors, self._plan.actions, strict=True):
                            editors.start_soon(self._have_live, editor, count, name=editor.name)
                if limit.cancelled_caught:
                    owed = [f"{editor.name}: {editor.owed}" for editor in of.editors]
                    self.report("stalled", f"editors have not ended after {_ALL_DONE_S:.0f} s; owed: {owed}")
                self._is_ending = True
                await self._end()
                nursery.cancel_scope.cancel()

    async def _have_live(self, editor: Editor, count: int) -> None:
        await editor.live(count, self._start_adapter, is_last=self._is_last)

    def _has_host(self) -> bool:
        return self._host is not None and not (self._host.ended.is_set() or self._host.has_crashed)

    def _connect(self) -> Connection | None:
        return None if self._listening is None else self._listening.connect()

    def _starter(self) -> SessionStarter:
        draws = random.Random(self._draws.getrandbits(64))
        return SessionStarter(self._agents, self._begin, self._serve_agent, self.world.disk.begin, draws)

    def _start_adapter(self, name: str, flags: Sequence[str]) -> AdapterProcess:
        disk = self.world.disk.begin()
        machine = AdapterMachine(self._has_host, self._connect, self._starter())
        adapter = AdapterProcess(f"adapter of {name}", disk, machine, random.Random(self._draws.getrandbits(64)))
        self._adapters.append(adapter)
        environment = dict(self.world.environment)

        async def run() -> int:
            return await self._of.programs.adapter(
                flags,
                environment,
                str(self.world.work),
                adapter.stdin,
                adapter.stdout,
                machine,
                disk,
                self.wall_time_ns,
                pause=lambda _: None,
            )

        self._begin(adapter.process, lambda: adapter.serve(run))
        return adapter

    async def _keep_host(self) -> None:
        """Start the host, and again after each crash."""
        while True:
            await trio.sleep(self._draws.choice(_RESTARTS_S))
            host = self._start_host()
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

    def _start_host(self) -> Process:
        disk = self.world.disk.begin()
        listening = Listening(random.Random(self._draws.getrandbits(64)))
        starter = self._starter()

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

    async def _serve_host(self, listening: Listening, starter: SessionStarter, disk: ProcessDisk) -> int:
        await self._of.programs.host(
            str(self._of.agent_folder),
            listening,
            starter,
            disk,
            lambda: self.wall_time_ns() / 1e9,
            self.clock.current_time,
            idle_s=self._plan.idle_s,
            journal_bytes=_JOURNAL_BYTES,
            on_crash="pause",
            boot=lambda: f"boot {self.number}",
        )
        return 0

    async def _serve_agent(self, launch: Launch, stdin: Pipe, stdout: Pipe, disk: ProcessDisk) -> int:
        return await self._of.programs.agent(
            launch.arguments,
            dict(launch.environment),
            launch.cwd,
            stdin,
            stdout,
            disk,
            self.wall_time_ns,
            lambda _: None,
        )

    async def _end(self) -> None:
        """End the host in order, with its agents; those of adapters have ended with them."""
        for process in self._processes():
            process.is_stopped = False
        if self._has_host() and (connection := self._connect()) is not None:
            await connection.to_host.send_all(control({"type": "stop_host"}))
        with trio.move_on_after(_STOP_S) as limit:
            for process in self._processes():
                await process.ended.wait()
        if limit.cancelled_caught:
            left = [process.name for process in self._processes() if not process.ended.is_set()]
            self.report("stalled", f"not ended {_STOP_S:.0f} s after the end of the editors: {left}")
