"""One history: lives of an agent on one disk, each ended by the client, by a crash of the process or of the machine.

A crash is the cancellation of everything at one scheduling step, or at one operation of the disk, after which nothing
has an effect: no write, no record. What the machine's crash leaves is decided by the disk. The last life is calm: its
disk and its model work, so everything that is owed must be given.
"""

import random
from collections.abc import Collection
from typing import Final, Literal, NamedTuple

import trio

from pinnace_fuzz.session_verdict import queued_texts
from pinnace_fuzz.simulation.client import Client
from pinnace_fuzz.simulation.dialogs import EXTENSION, EXTENSION_NAME
from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, DiskFaults
from pinnace_fuzz.simulation.moments import Moment, RecordMoment, draw_double_crash, draw_moment, draw_record_moment
from pinnace_fuzz.simulation.oracles import find_unannounced, find_violations
from pinnace_fuzz.simulation.pointed import Bursts
from pinnace_fuzz.simulation.program import Program
from pinnace_fuzz.simulation.results import SESSION, History
from pinnace_fuzz.simulation.streams import Pipe
from pinnace_fuzz.simulation.world import Span, World, draw_disk_faults, quiet_folder
from pinnace_spec.observers.verdicts import End

_MOST_LIVES: Final = 5
_MOST_ACTIONS: Final = 20
_MOST_CRASH_STEP: Final = 4_000
_MOST_CRASH_OPERATION: Final = 60
_WITH_DIALOGS: Final = 0.15
_AT_RECORDS: Final = 0.6
"""How many of the crashes of a pointed history strike at a record."""
_TWO_CRASHES: Final = 0.4
"""In how many of these a process crashes, and the machine when the next one has answered what its client repeats."""
_ASKED_AGAIN: Final = 0.3
"""In how many of those flushes fail in that next life, and its client sends again what could not be saved."""
_FAILING_FLUSHES: Final = EMPTY_FAULTS._replace(flush_error=0.5)
_EXIT_S: Final = 30.0


class Crash(NamedTuple):
    """The end of a life."""

    victim: Literal["process", "machine"]
    moment: Moment | RecordMoment


class _Plan(NamedTuple):
    """How one life goes."""

    actions: int
    crash: Crash | None
    disk: DiskFaults
    trouble: float


def simulate(seed: int, program: Program, left_out: Collection[str] = ()) -> History:
    """Play the history of a seed, without some parts. Runs trio; not for several threads."""
    with quiet_folder() as (folder, log):
        world = World(seed, "", folder, log, left_out)
        has_dialogs = world.draws("dialogs").random() < _WITH_DIALOGS
        if has_dialogs:
            (world.home / EXTENSION_NAME).write_text(EXTENSION)
        lives = 0
        for number, plan in enumerate(_plans(world), 1):
            if not world.parts.has(f"life:{number}"):
                continue
            lives = number
            _Life(world, _without_parts(plan, world, number), number, program, has_dialogs=has_dialogs).play()
            if world.findings:
                break
        return world.history(lives)


def _without_parts(plan: _Plan, world: World, number: int) -> _Plan:
    if plan.crash is not None and not world.parts.has(f"crash:{number}"):
        plan = plan._replace(crash=None)
    if plan.disk != EMPTY_FAULTS and not world.parts.has(f"disk:{number}"):
        plan = plan._replace(disk=EMPTY_FAULTS)
    return plan


def _plans(world: World) -> list[_Plan]:
    draws = world.draws("plan")
    is_faulty = draws.random() < 0.4
    plans: list[_Plan] = []
    for _ in range(draws.randrange(_MOST_LIVES)):
        crash = Crash(
            draws.choice(("process", "machine", "machine")),
            draw_moment(draws, 1, _MOST_CRASH_STEP, _MOST_CRASH_OPERATION),
        )
        plans.append(
            _Plan(
                1 + draws.randrange(_MOST_ACTIONS),
                crash if draws.random() < 0.75 else None,
                draw_disk_faults(draws) if is_faulty else EMPTY_FAULTS,
                draws.choice((0.0, 0.1, 0.3)),
            )
        )
    last = _Plan(1 + draws.randrange(_MOST_ACTIONS), None, EMPTY_FAULTS, 0.0)
    return [*(_pointed(plans, world.draws("crashes")) if world.is_pointed else plans), last]


def _pointed(plans: list[_Plan], draws: random.Random) -> list[_Plan]:
    """Let crashes strike where something was just promised."""
    for number, plan in enumerate(plans):
        moment = draw_record_moment(draws)
        if plan.crash is not None and draws.random() < _AT_RECORDS:
            plans[number] = plan._replace(crash=plan.crash._replace(moment=moment))
    if len(plans) > 1 and draws.random() < _TWO_CRASHES:
        number = draws.randrange(len(plans) - 1)
        at_work, answered = draw_double_crash(draws, _MOST_CRASH_OPERATION)
        plans[number] = plans[number]._replace(crash=Crash("process", at_work))
        plans[number + 1] = plans[number + 1]._replace(crash=Crash("machine", answered))
        if draws.random() < _ASKED_AGAIN:
            plans[number + 1] = plans[number + 1]._replace(disk=_FAILING_FLUSHES)
    return plans


class _Life(Span[Crash]):
    """One process of the agent."""

    def __init__(self, world: World, plan: _Plan, number: int, program: Program, *, has_dialogs: bool) -> None:
        super().__init__(world, number, [] if plan.crash is None else [plan.crash])
        self._plan = plan
        self._program = program
        self._has_dialogs = has_dialogs
        self._exit: int | None = None
        self._ended = trio.Event()
        self._client: Client | None = None
        self._pipes: tuple[Pipe, ...] = ()
        self._disk = world.disk.begin()
        self._bursts = Bursts(world.draws(f"bursts {number}")) if world.is_pointed else None

    def play(self) -> None:
        world, plan = self.world, self._plan
        world.trace.note("life", f"{self.number} {plan}")
        world.write_script(self.number, trouble=plan.trouble)
        files = world.session_files()
        failures = world.disk.failures
        left = [text for name, data in files.items() if SESSION in name for text in queued_texts(data)]
        self.run(self._live, plan.disk)
        self._disk.stop()
        self._disk.close_all()
        if self.has_crashed and plan.crash is not None and plan.crash.victim == "machine":
            world.disk.lose_power()
        self._judge(left, is_fresh=not files, has_failed=world.disk.failures > failures)

    def _judge(self, left: list[str], *, is_fresh: bool, has_failed: bool) -> None:
        world = self.world
        world.find_lost()
        assert self._client is not None
        end = End("killed") if self.has_crashed else End("exit" if self._ended.is_set() else "hang", self._exit)
        for text in find_violations(
            self._client.steps,
            end,
            left=left,
            is_fresh=is_fresh,
            has_failed=has_failed,
            has_extensions=self._has_dialogs,
        ):
            world.report("observers", text)
        if not self.has_crashed:
            for text in find_unannounced(left, self._client.steps):
                world.report("queue", text)

    def strike(self, fault: Crash) -> None:
        if self.has_crashed:
            return
        self.has_crashed = True
        self.world.trace.note("crash", fault.victim)
        self._disk.stop()
        for pipe in self._pipes:
            pipe.break_off()
        self.scope.cancel()

    # Inside of trio.

    async def _live(self) -> None:
        world = self.world
        stdin, stdout = (Pipe(world.draws(f"{name} {self.number}")) for name in ("stdin", "stdout"))
        self._pipes = stdin, stdout
        client = self._client = Client(
            world.draws(f"client {self.number}"),
            world.trace,
            world.ledger,
            stdin,
            stdout,
            self.report,
            lambda number: world.parts.has(f"command:{self.number}.{number}"),
            has_dialogs=self._has_dialogs,
            on_record=world.take_record,
            bursts=self._bursts,
            tries_again=self._plan.disk == _FAILING_FLUSHES,
        )
        with self.scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._serve, stdin, stdout, name="agent")
                nursery.start_soon(client.read, name="client reads")
                await client.drive(self._plan.actions)
                with trio.move_on_after(_EXIT_S):
                    await self._ended.wait()
                if not self._ended.is_set():
                    self.report("stalled", f"the agent has not ended {_EXIT_S:.0f} s after the end of its stdin")
                nursery.cancel_scope.cancel()

    async def _serve(self, stdin: Pipe, stdout: Pipe) -> None:
        world = self.world
        extension = ("--extension", str(world.home / EXTENSION_NAME)) if self._has_dialogs else ()
        flags = (*world.flags, "--session-id", SESSION, *extension)
        seen = len(world.log.defects)
        try:
            self._exit = await self._program(
                flags, dict(world.environment), str(world.work), stdin, stdout, self._disk, self.wall_time_ns
            )
        except Exception as error:
            self.report("failure", f"the agent has raised {error!r}")
        for defect in world.log.defects[seen:]:
            self.report("failure", f"the agent has logged {defect}")
        if not self.has_crashed:
            world.trace.note("exit", str(self._exit))
            if self._exit:
                self.report("failure", f"the agent has ended with {self._exit}")
        self._ended.set()
