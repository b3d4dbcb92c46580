"""What all histories have in common: the seed's numbers, the disk, the trace, and spans of time that crashes end.

A `World` outlives everything in it: its disk, its messages and its findings. A `Span` is one run of trio within it: the
life of an agent, or the time between two starts of a machine. It counts scheduling steps, operations of the disk and
records that clients read, and faults strike at one of them.
"""

import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Generic, Protocol, TypeVar

import trio

from pinnace_fuzz.session_verdict import Files
from pinnace_fuzz.simulation.client import Ledger
from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, Disk, DiskFaults, ProcessDisk
from pinnace_fuzz.simulation.model import CALLS, MODEL, READ_FILE, SCRIPT_VARIABLE, TOOLS, draw_script, draw_settings
from pinnace_fuzz.simulation.moments import ANY_RECORD, UPDATE, Moment, RecordMoment
from pinnace_fuzz.simulation.oracles import find_lost, session_files
from pinnace_fuzz.simulation.parts import Parts
from pinnace_fuzz.simulation.results import EPOCH_NS, RESTART_S, Finding, History, Log, without_surprises
from pinnace_fuzz.simulation.scheduling import StepCounter, scheduled_by, simulated_clock
from pinnace_fuzz.simulation.trace import Trace

# Flushes are fewer than writes, and only one behind which nothing is written shows.
_RATES: Final = (0.0, 0.0, 0.01, 0.05)
_FLUSH_RATES: Final = (0.0, 0.0, 0.1, 0.4)
_MEMORY: Final = "/dev/shm"
"""Where files need no disk: what a crash leaves of them is decided by the simulated one."""
_POINTED: Final = (5, 6)
_OF_SEEDS: Final = 8
"""Of so many seeds those have pointed histories."""


class Timed(Protocol):
    """Something that happens in a span."""

    @property
    def moment(self) -> Moment | RecordMoment:
        """When."""
        ...


FaultT = TypeVar("FaultT", bound=Timed)


def draw_disk_faults(draws: random.Random) -> DiskFaults:
    """Draw how often operations fail."""
    no_space, write, flush, short = (draws.choice(rates) for rates in (_RATES, _RATES, _FLUSH_RATES, _RATES))
    return DiskFaults(no_space=no_space, write_error=write, flush_error=flush, short_write=short)


@contextmanager
def quiet_folder() -> Generator[tuple[str, Log]]:
    """Have an empty folder and the agent's log, with nothing else going on in the process."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="pinnace-simulation-", dir=memory) as folder, without_surprises() as log:
        yield os.path.realpath(folder), log


class World:
    """The whole of a history."""

    def __init__(self, seed: int, kind: str, folder: str, log: Log, left_out: Collection[str]) -> None:
        """Begin with an empty disk.

        Args:
            seed: Decides.
            kind: Of the history: those of another kind have other numbers.
            folder: An empty one.
            log: That of what is simulated.
            left_out: Parts that are not played.
        """
        self._seed = seed
        self._kind = kind
        self.is_pointed = seed % _OF_SEEDS in _POINTED
        """Whether its traffic and its crashes come where something is being promised (`pointed`)."""
        self.log = log
        self.parts = Parts(left_out)
        self.trace = Trace(folder)
        self.findings: list[Finding] = []
        self.ledger = Ledger()
        self.home, self.work, root = (Path(folder, name) for name in ("home", "work", "disk"))
        for each in (self.home, self.work, root):
            each.mkdir()
        (self.work / READ_FILE).write_text("a line\n" * 20)
        self.disk = Disk(root, self.draws("disk"), EMPTY_FAULTS, lambda text: self.trace.note("disk", text))
        self.sessions = root / "sessions"
        self.begun_s = 0.0
        """Simulated seconds before the current span."""
        self.on_record: Callable[[str], bool] = _nothing_happens
        """That of the current span."""
        self.environment = {
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            SCRIPT_VARIABLE: str(self.home / "script.json"),
        }
        settings = self.home / ".pi" / "agent" / "settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_bytes(draw_settings(self.draws("settings")))

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of each agent."""
        return ("--model", MODEL, "--tools", TOOLS, "--protocol", "pi", "--session-dir", str(self.sessions))

    def draws(self, name: str) -> random.Random:
        """Return the numbers of one part: the same for every interpreter, and of no other part."""
        return random.Random(f"{self._seed} {self._kind}{name}")

    def report(self, source: str, text: str) -> None:
        """Take a finding."""
        self.findings.append(Finding(self.trace.steps, source, text))
        self.trace.note("finding", f"{source}: {text}")

    def write_script(
        self,
        number: int,
        calls: Sequence[Mapping[str, object]] = CALLS,
        *,
        trouble: float,
        is_slow: bool = False,
    ) -> None:
        """Give the model its script for a span, with these calls of tools."""
        script = draw_script(self.draws(f"model {number}"), calls, trouble=trouble, is_slow=is_slow)
        (self.home / "script.json").write_bytes(script)

    def take_record(self, kind: str) -> bool:
        """Take the type of a record that a client reads; return whether it is too late for that: all has crashed."""
        return self.on_record(kind)

    def session_files(self) -> Files:
        """Return the session files, by name."""
        return session_files(self.disk.contents(self.sessions.name))

    def find_lost(self) -> None:
        """Report messages that are in no file, or in more than they may be."""
        for text in find_lost(self.ledger, self.session_files()):
            self.report("messages", text)

    def history(self, spans: int) -> History:
        """Return what it has come to."""
        return History(self._seed, self.trace.steps, spans, tuple(self.findings), self.trace, self.parts)


class Span(Generic[FaultT]):
    """One run of trio in a world."""

    def __init__(self, world: World, number: int, faults: Sequence[FaultT]) -> None:
        """Begin at step 0.

        Args:
            world: Around it.
            number: 1 for the first one.
            faults: What strikes in it.
        """
        self.world = world
        self.number = number
        self.has_crashed = False
        """Whether it has ended by a crash: nothing has an effect any more."""
        self.clock = simulated_clock()
        self.scope = trio.CancelScope()
        """Around everything."""
        self._at_step: dict[int, list[FaultT]] = {}
        self._at_operation: dict[int, list[tuple[FaultT, int]]] = {}  # with how many steps behind it
        self._at_record: dict[tuple[str, int], list[tuple[FaultT, bool]]] = {}  # with whether the client has it
        for fault in faults:
            moment = fault.moment
            if isinstance(moment, RecordMoment):
                self._at_record.setdefault((moment.record, moment.number), []).append((fault, moment.is_read))
            elif moment.step:
                self._at_step.setdefault(moment.step, []).append(fault)
            else:
                self._at_operation.setdefault(moment.operation, []).append((fault, moment.behind))
        self._records: Counter[str] = Counter()
        self._latest_record = ""
        self._steps = 0
        self._operations = 0

    def run(
        self,
        live: Callable[[], Awaitable[None]],
        disk_faults: DiskFaults,
        is_held: Callable[[trio.lowlevel.Task], bool] | None = None,
    ) -> None:
        """Run it to its end, with a disk that fails."""
        world = self.world
        world.disk.faults = disk_faults
        world.ledger.is_trusted = world.ledger.is_trusted and disk_faults == EMPTY_FAULTS
        world.disk.on_operation = self.on_operation
        world.on_record = self.on_record
        with scheduled_by(world.draws(f"schedule {self.number}"), is_held):
            trio.run(live, clock=self.clock, instruments=[StepCounter(self.on_step)])
        world.begun_s = world.trace.time_s + RESTART_S

    def strike(self, fault: FaultT) -> None:
        """Let a fault happen."""
        raise NotImplementedError

    def report(self, source: str, text: str) -> None:
        """Take a finding, unless it comes from what has crashed."""
        if not self.has_crashed:
            self.world.report(source, text)

    def wall_time_ns(self) -> int:
        """Return the wall clock's time."""
        return EPOCH_NS + round((self.world.begun_s + self.clock.current_time()) * 1e9)

    def on_step(self, task: str) -> None:
        """Count a step."""
        if self.has_crashed:
            return
        self._steps += 1
        trace = self.world.trace
        trace.time_s = self.world.begun_s + self.clock.current_time()
        trace.step(task)
        if self._steps in self._at_step:
            for fault in self._at_step.pop(self._steps):
                self.strike(fault)

    def on_operation(self, disk: ProcessDisk) -> None:
        """Count an operation of the disk."""
        self._operations += 1
        for fault, behind in self._at_operation.pop(self._operations, ()):
            if behind:
                self._at_step.setdefault(self._steps + behind, []).append(fault)
            else:
                self.strike(fault)

    def on_record(self, kind: str) -> bool:
        """Count a record; return whether everything has crashed before it was read."""
        latest, self._latest_record = self._latest_record, kind
        if kind == latest == UPDATE:
            return self.has_crashed
        for each in (kind, ANY_RECORD):
            self._records[each] += 1
            for fault, is_read in self._at_record.pop((each, self._records[each]), ()):
                if is_read:
                    self._at_step.setdefault(self._steps + 1, []).append(fault)
                else:
                    self.strike(fault)
        return self.has_crashed


def _nothing_happens(_: str) -> bool:
    return False
