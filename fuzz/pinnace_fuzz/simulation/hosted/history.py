"""One history of a host: boots of a machine on one disk, each ended in order or by a crash of the machine.

In a boot live a host, the processes of its agent, and clients that attach to it. Processes crash at a scheduling step
or at an operation of the disk, or are stopped for some time, as the seed decides; the host is started again after its
crash. In the last boot nothing crashes, and the disk and the model work: everything that is owed must be given, and the
whole journal is read again.
"""

import math
import os
import random
import tempfile
from collections.abc import Awaitable, Callable, Collection
from contextvars import Context, copy_context
from pathlib import Path
from typing import Final, Literal, NamedTuple

import trio

from pinnace_fuzz.session_verdict import Files
from pinnace_fuzz.simulation.client import Ledger
from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, Disk, ProcessDisk
from pinnace_fuzz.simulation.hosted.agents import AgentProcess, Launch, Starter
from pinnace_fuzz.simulation.hosted.client import HostedClient, Surroundings, audit
from pinnace_fuzz.simulation.hosted.connections import Connection, Listening, control
from pinnace_fuzz.simulation.hosted.events import EventLog
from pinnace_fuzz.simulation.model import MODEL, READ_FILE, SCRIPT_VARIABLE, TOOLS, draw_script
from pinnace_fuzz.simulation.oracles import find_lost, find_repeated, session_files
from pinnace_fuzz.simulation.parts import Parts
from pinnace_fuzz.simulation.processes import Process, has_crashed, is_held
from pinnace_fuzz.simulation.program import HostProgram, Program
from pinnace_fuzz.simulation.results import EPOCH_NS, RESTART_S, SESSION, Finding, History, Log, without_surprises
from pinnace_fuzz.simulation.scheduling import StepCounter, scheduled_by, simulated_clock
from pinnace_fuzz.simulation.streams import Pipe
from pinnace_fuzz.simulation.trace import Trace

_SESSIONS: Final = "sessions"
_MOST_BOOTS: Final = 3
_MOST_CLIENTS: Final = 3
_MOST_ACTIONS: Final = 12
_MOST_FAULTS: Final = 5
_MOST_STEP: Final = 6_000
_MOST_OPERATION: Final = 120
_ALL_DONE_S: Final = 7200.0
"""In a boot, for its clients."""
_STOP_S: Final = 60.0
_RESTARTS_S: Final = (0.0, 0.01, 0.5, 3.0, 10.0)
_PAUSES_S: Final = (0.01, 0.5, 4.0, 9.0, 40.0)
"""For which a process is stopped."""
_IDLE_S: Final = (20.0, 1800.0)
_JOURNAL_BYTES: Final = 64 * 1024 * 1024
_HOST_DESCRIPTORS: Final = 8
"""Most files that a host with one agent has open, beside one for each client."""

Victim = Literal["host", "agent", "machine"]


class Fault(NamedTuple):
    """Something that happens to a process, or to the machine."""

    victim: Victim
    pause_s: float
    """For how long it is stopped; 0: it crashes."""
    step: int
    """At which scheduling step of the boot; 0: at an operation."""
    operation: int
    """At which operation of the disk; 0: at a step."""


class _Plan(NamedTuple):
    """How one boot goes."""

    actions: tuple[int, ...]
    """Of each client."""
    faults: tuple[Fault, ...]
    trouble: float
    idle_s: float
    on_crash: str


def simulate_hosted(seed: int, program: Program, host: HostProgram, left_out: Collection[str] = ()) -> History:
    """Play the history of a seed, without some parts. Runs trio; not for several threads."""
    with tempfile.TemporaryDirectory(prefix="pinnace-simulation-") as folder, without_surprises() as log:
        return _Simulation(seed, program, host, os.path.realpath(folder), log, Parts(left_out)).play()


class _Simulation:
    def __init__(self, seed: int, program: Program, host: HostProgram, folder: str, log: Log, parts: Parts) -> None:
        self._seed = seed
        self.program = program
        self.host = host
        self.log = log
        self.parts = parts
        log.is_left_out = has_crashed
        self.trace = Trace(folder)
        self.findings: list[Finding] = []
        self.ledger = Ledger()
        self.home, self.work, root = (Path(folder, name) for name in ("home", "work", "disk"))
        for each in (self.home, self.work, root):
            each.mkdir()
        (self.work / READ_FILE).write_text("a line\n" * 20)
        self.disk = Disk(root, self.draws("disk"), EMPTY_FAULTS, lambda text: self.trace.note("disk", text))
        self.disk.on_second_writer = lambda file: self.report("leases", f"two processes write file {file} in turns")
        self.agent_folder = root / "agent"
        self.events = EventLog(self.report)
        names_session = ("--session-id", SESSION) if self.draws("session").random() < 0.5 else ()
        flags = ("--model", MODEL, "--tools", TOOLS, "--protocol", "pi", "--session-dir", str(root / _SESSIONS))
        environment = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", SCRIPT_VARIABLE: str(self.home / "script.json")}
        self.around = Surroundings(
            self.trace,
            self.ledger,
            self.events,
            self.report,
            self.parts,
            (*flags, *names_session),
            str(self.work),
            environment,
        )
        count = 1 + self.draws("clients").randrange(_MOST_CLIENTS)
        self.clients = [HostedClient(f"client-{n}", self.draws(f"client {n}"), self.around) for n in range(count)]
        self.begun_s = 0.0

    def draws(self, name: str) -> random.Random:
        return random.Random(f"{self._seed} hosted {name}")

    def report(self, source: str, text: str) -> None:
        self.findings.append(Finding(self.trace.steps, source, text))
        self.trace.note("finding", f"{source}: {text}")

    def sessions(self) -> Files:
        """Return the session files, without journals and tables."""
        return {name: each for name, each in session_files(self.disk.contents()).items() if name.startswith(_SESSIONS)}

    def play(self) -> History:
        boots = 0
        for number, plan in enumerate(self._plans(), 1):
            if not self.parts.has(f"boot:{number}"):
                continue
            boots = number
            faults = enumerate(plan.faults, 1)
            left = tuple(each for place, each in faults if self.parts.has(f"fault:{number}.{place}"))
            _Boot(self, plan._replace(faults=left), number).play()
            if self.findings:
                break
        return History(self._seed, self.trace.steps, boots, tuple(self.findings), self.trace, self.parts)

    def _plans(self) -> list[_Plan]:
        draws = self.draws("plan")
        plans = [self._plan(draws, 1 + draws.randrange(_MOST_FAULTS)) for _ in range(draws.randrange(_MOST_BOOTS))]
        return [*plans, self._plan(draws, 0)]

    def _plan(self, draws: random.Random, faults: int) -> _Plan:
        return _Plan(
            tuple(1 + draws.randrange(_MOST_ACTIONS) for _ in self.clients),
            tuple(_fault(draws) for _ in range(faults)),
            draws.choice((0.0, 0.1, 0.3)) if faults else 0.0,
            draws.choice(_IDLE_S),
            draws.choice(("pause", "continue")),
        )


def _fault(draws: random.Random) -> Fault:
    victim: Victim = draws.choice(("host", "host", "agent", "agent", "machine"))
    pause_s = draws.choice(_PAUSES_S) if victim != "machine" and draws.random() < 0.3 else 0.0
    if draws.random() < 0.6:
        step = round(math.exp(draws.uniform(math.log(20), math.log(_MOST_STEP))))
        return Fault(victim, pause_s, step, 0)
    return Fault(victim, pause_s, 0, 1 + draws.randrange(_MOST_OPERATION))


class _Boot:
    """The machine from its start to its end."""

    def __init__(self, simulation: _Simulation, plan: _Plan, number: int) -> None:
        self._of = simulation
        self._plan = plan
        self._number = number
        self._draws = simulation.draws(f"boot {number}")
        self._steps = 0
        self._operations = 0
        self._clock = simulated_clock()
        self._scope = trio.CancelScope()
        self._has_crashed = False
        self._host: Process | None = None
        self._listening: Listening | None = None
        self._agents: list[AgentProcess] = []
        self._nursery: trio.Nursery | None = None
        self._context: Context | None = None
        self._most_open = 0
        self._is_ending = False

    def play(self) -> None:
        of, plan = self._of, self._plan
        of.trace.note("boot", f"{self._number} {plan}")
        (of.home / "script.json").write_bytes(draw_script(of.draws(f"model {self._number}"), trouble=plan.trouble))
        of.disk.on_operation = self._on_operation
        with scheduled_by(of.draws(f"schedule {self._number}"), is_held):
            trio.run(self._live, clock=self._clock, instruments=[StepCounter(self._on_step)])
        of.begun_s = of.trace.time_s + RESTART_S
        if self._has_crashed:
            of.events.may_have_gaps = True
            of.disk.lose_power()
        for text in find_lost(of.ledger, of.sessions()):
            of.report("messages", text)
        for text in find_repeated(of.sessions()):
            of.report("commands", text)
        for defect in of.log.defects:
            of.report("failure", f"the host or an agent has logged {defect}")
        if self._most_open > _HOST_DESCRIPTORS + len(of.clients):
            of.report("descriptors", f"the host had {self._most_open} files open")

    # Around each step.

    def _on_step(self, task: str) -> None:
        if self._has_crashed:
            return
        self._steps += 1
        trace = self._of.trace
        trace.time_s = self._of.begun_s + self._clock.current_time()
        trace.step(task)
        for fault in self._plan.faults:
            if fault.step == self._steps:
                self._strike(fault)

    def _on_operation(self, disk: ProcessDisk) -> None:
        self._operations += 1
        if self._host is not None and disk is self._host.disk:
            self._most_open = max(self._most_open, disk.open_count)
        for fault in self._plan.faults:
            if fault.operation == self._operations:
                self._strike(fault)

    def _strike(self, fault: Fault) -> None:
        if self._has_crashed or self._nursery is None or self._context is None or self._is_ending:
            return
        if fault.victim == "machine":
            self._of.trace.note("crash", "machine")
            self._has_crashed = True
            for each in self._processes():
                each.crash()
            self._scope.cancel()
            return
        newest = self._agents[-1].process if self._agents else None
        process = self._host if fault.victim == "host" else newest
        if process is None or process.ended.is_set() or process.has_crashed:
            return
        if not fault.pause_s:
            self._of.trace.note("crash", process.name)
            process.crash()
        elif not process.is_stopped:
            self._of.trace.note("stop", f"{process.name} {fault.pause_s}")
            process.is_stopped = True
            # In the context of the machine, not of the process that has reached the operation.
            self._context.copy().run(self._nursery.start_soon, self._go_on, process, fault.pause_s)

    async def _go_on(self, process: Process, pause_s: float) -> None:
        await trio.sleep(pause_s)
        if process.is_stopped:
            self._of.trace.note("continue", process.name)
            process.is_stopped = False
        await trio.lowlevel.checkpoint()

    def _processes(self) -> list[Process]:
        return [*([self._host] if self._host is not None else []), *(agent.process for agent in self._agents)]

    # Inside of trio.

    async def _live(self) -> None:
        of = self._of
        self._context = copy_context()
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._keep_host)
                with trio.move_on_after(_ALL_DONE_S) as limit:
                    async with trio.open_nursery() as clients:
                        for client, count in zip(of.clients, self._plan.actions, strict=True):
                            clients.start_soon(client.live, count, self._connect, name=client.name)
                if limit.cancelled_caught:
                    owed = [f"{client.name}: {[*client.owed]}" for client in of.clients if client.owed]
                    self._report("stalled", f"clients have not ended after {_ALL_DONE_S:.0f} s; owed: {owed}")
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
                self._of.disk.begin,
                random.Random(self._draws.getrandbits(64)),
            )

            host = self._start_host(listening, starter)
            await host.ended.wait()
            if host.error is not None and not host.has_crashed:
                self._report("failure", f"the host has raised {host.error!r}")
                return
            if self._is_ending:
                return
            if not host.has_crashed:
                self._report("failure", "the host has ended, and nothing has asked for it")
                return

    def _start_host(self, listening: Listening, starter: Starter) -> Process:
        disk = self._of.disk.begin()

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
            self._clock.current_time,
            idle_s=plan.idle_s,
            journal_bytes=_JOURNAL_BYTES,
            on_crash=plan.on_crash,
        )
        return 0

    async def _serve_agent(self, launch: Launch, stdin: Pipe, stdout: Pipe, disk: ProcessDisk) -> int:
        return await self._of.program(
            launch.arguments,
            dict(launch.environment),
            launch.cwd,
            stdin,
            stdout,
            disk,
            lambda: round(self._wall_time_s() * 1e9),
            lambda _: None,
        )

    def _wall_time_s(self) -> float:
        return EPOCH_NS / 1e9 + self._of.begun_s + self._clock.current_time()

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
            self._report("stalled", f"not ended {_STOP_S:.0f} s after the host was asked to end: {left}")

    def _report(self, source: str, text: str) -> None:
        if not self._has_crashed:
            self._of.report(source, text)
