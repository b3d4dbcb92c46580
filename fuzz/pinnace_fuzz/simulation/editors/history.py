"""One history of editors: boots of a machine on one disk, each ended in order or by a crash of the machine.

In a boot live editors, each with an adapter, the agents of their sessions, and in most histories a durable host, which
starts agents while it runs; else the adapters do. Adapters, agents and the host crash at a scheduling step or at an
operation of the disk, or are stopped for some time, as the seed decides; the host is started again after its crash,
adapters by their editors. In the last boot nothing crashes, and the disk and the model work: everything that is owed
must be given, and each session is shown again.
"""

import random
from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

import trio

from pinnace_fuzz.simulation.dialogs import EXTENSION, EXTENSION_NAME
from pinnace_fuzz.simulation.editors.adapters import AdapterMachine, AdapterProcess, SessionStarter
from pinnace_fuzz.simulation.editors.client import Editor
from pinnace_fuzz.simulation.editors.connection import Surroundings
from pinnace_fuzz.simulation.editors.prompts import Messages, find_wrong
from pinnace_fuzz.simulation.editors.questions import (
    APPROVED_CALLS,
    APPROVED_EXTENSION,
    APPROVED_EXTENSION_NAME,
    APPROVED_FLAGS,
    FEW_ASKS,
    MANY_ASKS,
    NO_ASKS,
)
from pinnace_fuzz.simulation.hosted.machine import (
    PAUSES_S,
    Boot,
    HostOptions,
    Plan,
    draw_fault_moment,
    draw_plans,
    play_boots,
)
from pinnace_fuzz.simulation.model import CALLS, MODEL, TOOLS
from pinnace_fuzz.simulation.moments import Moment, draw_moment_behind
from pinnace_fuzz.simulation.processes import Process, has_crashed, is_held
from pinnace_fuzz.simulation.program import AdapterProgram, HostProgram, Program
from pinnace_fuzz.simulation.results import History
from pinnace_fuzz.simulation.world import World, quiet_folder

_MOST_EDITORS: Final = 2
_JOURNAL_BYTES: Final = 64 * 1024 * 1024
_WITH_HOST: Final = 0.6
_WITH_DIALOGS: Final = 0.4
_AT_FLUSHES: Final = 0.7
_MOST_OPERATION: Final = 80
_WITH_APPROVAL: Final = 0.3
"""In how many histories the user approves calls."""

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


def simulate_editors(seed: int, programs: Programs, left_out: Collection[str] = ()) -> History:
    """Play the history of a seed, without some parts. Runs trio; not for several threads."""
    with quiet_folder() as (folder, log):
        world = World(seed, "editors ", folder, log, left_out)
        log.is_left_out = has_crashed
        scene = _Scene(world, programs)
        plans = draw_plans(world, len(scene.editors), _fault, faulty=0.2, on_crash=("pause",))
        if world.is_pointed:
            plans = _pointed(plans, world.draws("crashes"))
        last = len(plans)
        return play_boots(world, plans, lambda plan, number: _Boot(scene, plan, number, is_last=number == last).play())


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
        # Numbers of their own: histories without approval stay as they are.
        has_approval = world.draws("permission").random() < _WITH_APPROVAL
        extensions = [
            *([(EXTENSION_NAME, EXTENSION)] if has_dialogs or has_approval else []),
            *([(APPROVED_EXTENSION_NAME, APPROVED_EXTENSION)] if has_approval else []),
        ]
        for name, text in extensions:
            (world.home / name).write_text(text)
        self.messages = Messages()
        self.calls = APPROVED_CALLS if has_approval else CALLS
        """Those that the model makes."""
        tools = APPROVED_FLAGS if has_approval else ("--tools", TOOLS)
        flags = ("--model", MODEL, *tools, "--session-dir", str(world.sessions))
        self.around = Surroundings(
            world.trace,
            self.messages,
            world.report,
            world.parts,
            str(world.work),
            (*flags, *(part for name, _ in extensions for part in ("--extension", str(world.home / name)))),
            MANY_ASKS if has_approval else FEW_ASKS if has_dialogs else NO_ASKS,
        )
        count = 1 + draws.randrange(_MOST_EDITORS)
        self.editors = [
            Editor(
                f"editor-{n}",
                world.draws(f"editor {n}"),
                self.around,
                world.draws(f"bursts {n}") if world.is_pointed else None,
            )
            for n in range(count)
        ]


def _fault(draws: random.Random) -> Fault:
    victim = draws.choice(_VICTIMS)
    pause_s = draws.choice(PAUSES_S) if victim != "machine" and draws.random() < 0.3 else 0.0
    return Fault(victim, draws.randrange(4), pause_s, draw_fault_moment(draws))


def _pointed(plans: Sequence[Plan[Fault]], draws: random.Random) -> list[Plan[Fault]]:
    """Let most faults be crashes of agents soon behind an operation of the disk, before they say what it has kept."""

    def at_flush(fault: Fault) -> Fault:
        moment = draw_moment_behind(draws, _MOST_OPERATION)
        return fault._replace(victim="agent", pause_s=0.0, moment=moment) if draws.random() < _AT_FLUSHES else fault

    return [plan._replace(faults=tuple(at_flush(each) for each in plan.faults)) for plan in plans]


class _Boot(Boot[Fault]):
    """The machine, with editors and their adapters."""

    users = "editors"
    all_done_s = 14_400.0

    def __init__(self, scene: _Scene, plan: Plan[Fault], number: int, *, is_last: bool) -> None:
        programs = scene.programs
        host = HostOptions(programs.host, str(scene.agent_folder), _JOURNAL_BYTES) if scene.has_host else None
        super().__init__(scene.world, plan, number, host, programs.agent)
        self._of = scene
        self._is_last = is_last
        self._adapters: list[AdapterProcess] = []
        self._is_calm = True

    def play(self) -> None:
        of, world, plan = self._of, self.world, self.plan
        world.trace.note("boot", f"{self.number} {plan}")
        world.write_script(self.number, of.calls, trouble=plan.trouble)
        first = len(of.messages.every)
        for editor in of.editors:
            editor.is_disturbed = False
            editor.questions.begin()
        self.run(self.live, plan.disk, is_held)
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

    def find_victim(self, fault: Fault) -> Process | None:
        living = [each for each in self._victims(fault.victim) if not (each.ended.is_set() or each.has_crashed)]
        return living[fault.which % len(living)] if living else None

    def struck(self, fault: Fault) -> None:
        self._is_calm = False
        if not fault.pause_s and fault.victim in ("host", "agent"):
            for editor in self._of.editors:
                editor.lose_records()

    def _victims(self, victim: Victim) -> list[Process]:
        match victim:
            case "host":
                return [] if self.host is None else [self.host]
            case "adapter":
                return [each.process for each in self._adapters]
            case _:
                return [each.process for each in self.agents]

    def processes(self) -> list[Process]:
        return [process for victim in ("host", "adapter", "agent") for process in self._victims(victim)]

    def begin_users(self, nursery: trio.Nursery) -> None:
        for editor, count in zip(self._of.editors, self.plan.actions, strict=True):
            nursery.start_soon(self._have_live, editor, count, name=editor.name)

    async def _have_live(self, editor: Editor, count: int) -> None:
        await editor.live(count, self._start_adapter, is_last=self._is_last)

    def owed(self) -> Sequence[str]:
        return [f"{editor.name}: {editor.owed}" for editor in self._of.editors]

    def make_starter(self, draws: random.Random) -> SessionStarter:
        return SessionStarter(self.agents, self.begin, self.serve_agent, self.world.disk.begin, draws)

    def _start_adapter(self, name: str, flags: Sequence[str]) -> AdapterProcess:
        disk = self.world.disk.begin()
        starter = self.make_starter(random.Random(self.draws.getrandbits(64)))
        machine = AdapterMachine(self.has_host, self.connect, starter)
        adapter = AdapterProcess(f"adapter of {name}", disk, machine, random.Random(self.draws.getrandbits(64)))
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

        self.begin(adapter.process, lambda: adapter.serve(run))
        return adapter
