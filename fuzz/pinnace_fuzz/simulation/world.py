"""What all histories have in common: the seed's numbers, the disk, the trace, and spans of time that crashes end.

A `World` outlives everything in it: its disk, its messages and its findings. A `Span` is one run of trio within it: the
life of an agent, or the time between two starts of a machine. It counts scheduling steps and operations of the disk,
and faults strike at one of them.
"""

import math
import os
import random
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import trio

from pinnace_fuzz.session_verdict import Files
from pinnace_fuzz.simulation.client import Ledger
from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, Disk, DiskFaults, ProcessDisk
from pinnace_fuzz.simulation.model import MODEL, READ_FILE, SCRIPT_VARIABLE, TOOLS, draw_script, draw_settings
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
_MOST_BEHIND: Final = 30
"""Scheduling steps between an operation of the disk and a fault that follows it."""


class Moment(NamedTuple):
    """When something happens in a span."""

    step: int
    """At which scheduling step; 0: behind an operation."""
    operation: int
    """At which operation of the disk; 0: at a step."""
    behind: int = 0
    """So many steps behind the operation; 0: just before it."""


class Timed(Protocol):
    """Something that happens in a span."""

    @property
    def moment(self) -> Moment:
        """When."""
        ...


FaultT = TypeVar("FaultT", bound=Timed)


def draw_moment(draws: random.Random, first_step: int, last_step: int, last_operation: int) -> Moment:
    """Draw a moment: a step, early ones more often, or an operation, or a step behind one."""
    step = round(math.exp(draws.uniform(math.log(first_step), math.log(last_step))))
    operation, behind = 1 + draws.randrange(last_operation), draws.choice((0, 1 + draws.randrange(_MOST_BEHIND)))
    return Moment(step, 0) if draws.random() < 0.5 else Moment(0, operation, behind)


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

    def write_script(self, number: int, *, trouble: float) -> None:
        """Give the model its script for a span."""
        (self.home / "script.json").write_bytes(draw_script(self.draws(f"model {number}"), trouble=trouble))

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
        self._at_operation: dict[int, list[FaultT]] = {}
        for fault in faults:
            step, operation, _ = fault.moment
            (self._at_step if step else self._at_operation).setdefault(step or operation, []).append(fault)
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
        for fault in self._at_operation.pop(self._operations, ()):
            if fault.moment.behind:
                self._at_step.setdefault(self._steps + fault.moment.behind, []).append(fault)
            else:
                self.strike(fault)
