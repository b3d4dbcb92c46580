"""One history: lives of an agent on one disk, each ended by the client, by a crash of the process or of the machine.

A crash is the cancellation of everything at one scheduling step, or at one operation of the disk, after which nothing
has an effect: no write, no record. What the machine's crash leaves is decided by the disk. The last life is calm: its
disk and its model work, so everything that is owed must be given.
"""

import math
import os
import random
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal, NamedTuple

import trio
from trio.testing import MockClock

from pinnace_fuzz.session_verdict import queued_texts
from pinnace_fuzz.simulation.client import Client, Ledger
from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, Disk, DiskFaults, ProcessDisk
from pinnace_fuzz.simulation.model import MODEL, READ_FILE, SCRIPT_VARIABLE, TOOLS, draw_script
from pinnace_fuzz.simulation.oracles import find_lost, find_unannounced, find_violations, session_files
from pinnace_fuzz.simulation.parts import Parts
from pinnace_fuzz.simulation.program import Program
from pinnace_fuzz.simulation.results import EPOCH_NS, RESTART_S, SESSION, Finding, History, Log, without_surprises
from pinnace_fuzz.simulation.scheduling import StepCounter, scheduled_by, simulated_clock
from pinnace_fuzz.simulation.streams import Pipe
from pinnace_fuzz.simulation.trace import Trace
from pinnace_spec.observers.verdicts import End

CrashKind = Literal["process", "machine"]

_MOST_LIVES: Final = 5
_MOST_ACTIONS: Final = 20
_MOST_CRASH_STEP: Final = 4_000
_MOST_CRASH_OPERATION: Final = 60
_EXIT_S: Final = 30.0
# Flushes are fewer than writes, and only one behind which nothing is written shows.
_RATES: Final = (0.0, 0.0, 0.01, 0.05)
_FLUSH_RATES: Final = (0.0, 0.0, 0.1, 0.4)


class _Plan(NamedTuple):
    """How one life goes."""

    actions: int
    crash: CrashKind | None
    crash_step: int
    """0: at no step."""
    crash_operation: int
    """0: at no operation of the disk."""
    faults: DiskFaults
    trouble: float


def simulate(seed: int, program: Program, left_out: Collection[str] = ()) -> History:
    """Play the history of a seed, without some parts. Runs trio; not for several threads."""
    with tempfile.TemporaryDirectory(prefix="pinnace-simulation-") as folder, without_surprises() as log:
        return _Simulation(seed, program, os.path.realpath(folder), log, Parts(left_out)).play()


class _Simulation:
    def __init__(self, seed: int, program: Program, folder: str, log: Log, parts: Parts) -> None:
        self._seed = seed
        self.program = program
        self.log = log
        self.parts = parts
        self.trace = Trace(folder)
        self._findings: list[Finding] = []
        self.ledger = Ledger()
        self.home, self.work, root = (Path(folder, name) for name in ("home", "work", "disk"))
        for each in (self.home, self.work, root):
            each.mkdir()
        (self.work / READ_FILE).write_text("a line\n" * 20)
        self.disk = Disk(root, self.draws("disk"), EMPTY_FAULTS, lambda text: self.trace.note("disk", text))
        self.sessions = root / "sessions"
        self.begun_s = 0.0

    def draws(self, name: str) -> random.Random:
        # By a text: the same for every interpreter, and each part has numbers of its own.
        return random.Random(f"{self._seed} {name}")

    def report(self, source: str, text: str) -> None:
        self._findings.append(Finding(self.trace.steps, source, text))
        self.trace.note("finding", f"{source}: {text}")

    def play(self) -> History:
        lives = 0
        for number, plan in enumerate(self._plans(), 1):
            if not self.parts.has(f"life:{number}"):
                continue
            lives = number
            _Life(self, self._without_parts(plan, number), number).play()
            if self._findings:
                break
        return History(self._seed, self.trace.steps, lives, tuple(self._findings), self.trace, self.parts)

    def _without_parts(self, plan: _Plan, number: int) -> _Plan:
        if plan.crash is not None and not self.parts.has(f"crash:{number}"):
            plan = plan._replace(crash=None, crash_step=0, crash_operation=0)
        if plan.faults != EMPTY_FAULTS and not self.parts.has(f"disk:{number}"):
            plan = plan._replace(faults=EMPTY_FAULTS)
        return plan

    def _plans(self) -> list[_Plan]:
        draws = self.draws("plan")
        is_faulty = draws.random() < 0.4
        plans: list[_Plan] = []
        for _ in range(draws.randrange(_MOST_LIVES)):
            crash: CrashKind | None = draws.choice(("process", "machine", "machine", None))
            is_by_step = draws.random() < 0.6
            step = round(math.exp(draws.uniform(0, math.log(_MOST_CRASH_STEP))))
            plans.append(
                _Plan(
                    1 + draws.randrange(_MOST_ACTIONS),
                    crash,
                    step if crash and is_by_step else 0,
                    1 + draws.randrange(_MOST_CRASH_OPERATION) if crash and not is_by_step else 0,
                    _faults(draws) if is_faulty else EMPTY_FAULTS,
                    draws.choice((0.0, 0.1, 0.3)),
                )
            )
        return [*plans, _Plan(1 + draws.randrange(_MOST_ACTIONS), None, 0, 0, EMPTY_FAULTS, 0.0)]


def _faults(draws: random.Random) -> DiskFaults:
    no_space, write, flush, short = (draws.choice(rates) for rates in (_RATES, _RATES, _FLUSH_RATES, _RATES))
    return DiskFaults(no_space=no_space, write_error=write, flush_error=flush, short_write=short)


class _Life:
    """One process of the agent."""

    def __init__(self, simulation: _Simulation, plan: _Plan, number: int) -> None:
        self._of = simulation
        self._plan = plan
        self._number = number
        self._has_crashed = False
        self._steps = 0
        self._operations = 0
        self._clock: MockClock = simulated_clock()
        self._scope = trio.CancelScope()
        self._exit: int | None = None
        self._ended = trio.Event()
        self._client: Client | None = None
        self._pipes: tuple[Pipe, ...] = ()
        self._disk = simulation.disk.begin()

    def play(self) -> None:
        of, plan = self._of, self._plan
        of.trace.note("life", f"{self._number} {plan}")
        script = of.home / "script.json"
        script.write_bytes(draw_script(of.draws(f"model {self._number}"), trouble=plan.trouble))
        is_fresh = not session_files(of.disk.contents())
        disk = self._disk
        failures = of.disk.failures
        left = [
            text
            for name, data in session_files(of.disk.contents()).items()
            if SESSION in name
            for text in queued_texts(data)
        ]
        of.disk.faults = plan.faults
        of.disk.on_operation = self._on_operation
        with scheduled_by(of.draws(f"schedule {self._number}")):
            trio.run(self._live, clock=self._clock, instruments=[StepCounter(self._on_step)])
        disk.stop()
        disk.close_all()
        of.begun_s = of.trace.time_s + RESTART_S
        if self._has_crashed and plan.crash == "machine":
            of.disk.lose_power()
        self._judge(left, is_fresh=is_fresh, has_failed=of.disk.failures > failures)

    def _judge(self, left: list[str], *, is_fresh: bool, has_failed: bool) -> None:
        of = self._of
        for text in find_lost(of.ledger, session_files(of.disk.contents())):
            of.report("messages", text)
        assert self._client is not None
        end = End("killed") if self._has_crashed else End("exit" if self._ended.is_set() else "hang", self._exit)
        for text in find_violations(self._client.steps, end, is_fresh=is_fresh, has_failed=has_failed):
            of.report("observers", text)
        if not self._has_crashed:
            for text in find_unannounced(left, self._client.steps):
                of.report("queue", text)

    # Around each step.

    def _on_step(self, task: str) -> None:
        if self._has_crashed:
            return
        self._steps += 1
        trace = self._of.trace
        trace.time_s = self._of.begun_s + self._clock.current_time()
        trace.step(task)
        if self._steps == self._plan.crash_step:
            self._crash()

    def _on_operation(self, _: ProcessDisk) -> None:
        self._operations += 1
        if self._operations == self._plan.crash_operation:
            self._crash()

    def _crash(self) -> None:
        if self._has_crashed:
            return
        self._has_crashed = True
        self._of.trace.note("crash", str(self._plan.crash))
        self._disk.stop()
        for pipe in self._pipes:
            pipe.break_off()
        self._scope.cancel()

    def _wall_time_ns(self) -> int:
        return EPOCH_NS + round((self._of.begun_s + self._clock.current_time()) * 1e9)

    # Inside of trio.

    async def _live(self) -> None:
        of = self._of
        stdin, stdout = (Pipe(of.draws(f"{name} {self._number}")) for name in ("stdin", "stdout"))
        self._pipes = stdin, stdout
        client = self._client = Client(
            of.draws(f"client {self._number}"),
            of.trace,
            of.ledger,
            stdin,
            stdout,
            self._report,
            lambda number: of.parts.has(f"command:{self._number}.{number}"),
        )
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._serve, stdin, stdout, name="agent")
                nursery.start_soon(client.read, name="client reads")
                await client.drive(self._plan.actions)
                with trio.move_on_after(_EXIT_S):
                    await self._ended.wait()
                if not self._ended.is_set():
                    self._report("stalled", f"the agent has not ended {_EXIT_S:.0f} s after the end of its stdin")
                nursery.cancel_scope.cancel()

    def _report(self, source: str, text: str) -> None:
        if not self._has_crashed:
            self._of.report(source, text)

    async def _serve(self, stdin: Pipe, stdout: Pipe) -> None:
        of = self._of
        flags = (
            *("--model", MODEL, "--tools", TOOLS, "--protocol", "pi"),
            *("--session-dir", str(of.sessions), "--session-id", SESSION),
        )
        environment = {
            "HOME": str(of.home),
            "PATH": "/usr/bin:/bin",
            SCRIPT_VARIABLE: str(of.home / "script.json"),
        }
        seen = len(of.log.defects)
        try:
            self._exit = await of.program(
                flags, environment, str(of.work), stdin, stdout, self._disk, self._wall_time_ns
            )
        except Exception as error:
            self._report("failure", f"the agent has raised {error!r}")
        for defect in of.log.defects[seen:]:
            self._report("failure", f"the agent has logged {defect}")
        if not self._has_crashed:
            of.trace.note("exit", str(self._exit))
            if self._exit:
                self._report("failure", f"the agent has ended with {self._exit}")
        self._ended.set()
