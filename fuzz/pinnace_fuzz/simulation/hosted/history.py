"""One history of a host: boots of a machine on one disk, each ended in order or by a crash of the machine.

In a boot live a host, the processes of its agent, and clients that attach to it. Processes crash at a scheduling step
or at an operation of the disk, or are stopped for some time, as the seed decides; the host is started again after its
crash. In the last boot nothing crashes, and the disk and the model work: everything that is owed must be given, and the
whole journal is read again.
"""

import random
from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

import trio

from pinnace_fuzz.simulation.dialogs import EXTENSION, EXTENSION_NAME
from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, ProcessDisk
from pinnace_fuzz.simulation.hosted.agents import Launch, Starter
from pinnace_fuzz.simulation.hosted.client import HostedClient, Sessions, Surroundings, audit
from pinnace_fuzz.simulation.hosted.dialogs import SharedDialogs
from pinnace_fuzz.simulation.hosted.events import EventLog
from pinnace_fuzz.simulation.hosted.machine import (
    PAUSES_S,
    Boot,
    HostOptions,
    Plan,
    draw_fault_moment,
    draw_plans,
    play_boots,
)
from pinnace_fuzz.simulation.moments import Moment, RecordMoment, draw_record_moment, draw_unread_answer
from pinnace_fuzz.simulation.oracles import find_repeated, find_unnamed
from pinnace_fuzz.simulation.processes import Process, has_crashed, is_held
from pinnace_fuzz.simulation.program import HostProgram, Program
from pinnace_fuzz.simulation.results import SESSION, History
from pinnace_fuzz.simulation.streams import Pipe
from pinnace_fuzz.simulation.world import World, quiet_folder

_MOST_CLIENTS: Final = 3
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


def simulate_hosted(seed: int, program: Program, host: HostProgram, left_out: Collection[str] = ()) -> History:
    """Play the history of a seed, without some parts. Runs trio; not for several threads."""
    with quiet_folder() as (folder, log):
        world = World(seed, "hosted ", folder, log, left_out)
        log.is_left_out = has_crashed
        scene = _Scene(world, program, host)
        plans = _plans(world, len(scene.clients))
        return play_boots(world, plans, lambda plan, number: _Boot(scene, plan, number).play())


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


def _plans(world: World, clients: int) -> list[Plan[Fault]]:
    plans = draw_plans(world, clients, _fault, faulty=0.25, on_crash=("pause", "continue"))
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


def _fault(draws: random.Random) -> Fault:
    victim: Victim = draws.choice(("host", "host", "agent", "agent", "machine"))
    pause_s = draws.choice(PAUSES_S) if victim != "machine" and draws.random() < 0.3 else 0.0
    return Fault(victim, pause_s, draw_fault_moment(draws))


class _Boot(Boot[Fault]):
    """The machine, with clients that attach to its host."""

    users = "clients"
    all_done_s = 7200.0

    def __init__(self, scene: _Scene, plan: Plan[Fault], number: int) -> None:
        host = HostOptions(scene.host, str(scene.agent_folder), scene.journal_bytes)
        super().__init__(scene.world, plan, number, host, scene.program)
        self._of = scene
        self._most_open = 0

    def play(self) -> None:
        of, world, plan = self._of, self.world, self.plan
        world.trace.note("boot", f"{self.number} {plan}")
        world.write_script(self.number, trouble=plan.trouble, is_slow=plan.idle_s == _SLEEPY_S)
        if plan.disk != EMPTY_FAULTS:
            of.events.may_have_gaps = True
        self.run(self.live, plan.disk, is_held)
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

    def on_operation(self, disk: ProcessDisk) -> None:
        if self.host is not None and disk is self.host.disk:
            self._most_open = max(self._most_open, disk.open_count)
        super().on_operation(disk)

    def find_victim(self, fault: Fault) -> Process | None:
        newest = self.agents[-1].process if self.agents else None
        return self.host if fault.victim == "host" else newest

    def struck(self, fault: Fault) -> None:
        if fault.pause_s:
            self._of.events.disturbed_s = self.world.trace.time_s + fault.pause_s
        elif fault.victim != "machine":
            self._disturb()

    def _disturb(self) -> None:
        self._of.events.crashes += 1
        self._of.events.disturbed_s = self.world.trace.time_s

    def begin_users(self, nursery: trio.Nursery) -> None:
        for client, count in zip(self._of.clients, self.plan.actions, strict=True):
            nursery.start_soon(client.live, count, self.connect, name=client.name)

    def owed(self) -> Sequence[str]:
        return [f"{client.name}: {[*client.owed]}" for client in self._of.clients if client.owed]

    def make_starter(self, draws: random.Random) -> Starter:
        return Starter(self.agents, self.begin, self.serve_agent, self.world.disk.begin, draws)

    async def serve_agent(self, launch: Launch, stdin: Pipe, stdout: Pipe, disk: ProcessDisk) -> int:
        if self._of.dialogs is not None and not self.world.ledger.is_trusted:
            self._of.dialogs.forget()
        return await super().serve_agent(launch, stdin, stdout, disk)

    async def before_end(self) -> None:
        """Read the whole journal again."""
        if not self.plan.faults and (connection := self.connect()) is not None:
            await audit(connection, self._of.around)
