"""The judge of one trace: all observers, fed in step; as a whole, or record by record while a trace grows.

Pure. Prints nothing. `never_armed` reports the observers that judged nothing in a set of traces.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.invariants.aborts import Aborted
from pinnace_spec.observers.invariants.announcements import ChangesAnnounced, DialogsTakenBack
from pinnace_spec.observers.invariants.answers import (
    AnsweredOnce,
    CauseFirst,
    DialogsUnanswered,
    NoInternals,
    ResponseShape,
)
from pinnace_spec.observers.invariants.brackets import NoIds, RunGrammar, Times, UpdatesInside
from pinnace_spec.observers.invariants.causes import Compactions, Retries, Settled
from pinnace_spec.observers.invariants.contexts import CountsAgree, MessagesAgree
from pinnace_spec.observers.invariants.deliveries import DeliveryOrder, DeliveryPlaces
from pinnace_spec.observers.invariants.endings import ClosedInTime, NoCrash
from pinnace_spec.observers.invariants.frames import Alive, Framing, OnlyRecords, RoundTrip
from pinnace_spec.observers.invariants.logins import LoginsEnd
from pinnace_spec.observers.invariants.names import NamesAgree
from pinnace_spec.observers.invariants.queues import NothingStranded, QueuesShown, TextsConserved
from pinnace_spec.observers.invariants.states import RefusedChangesNothing, StateAgrees
from pinnace_spec.observers.invariants.subagents import AgentMessagesKept, SubagentsEnd
from pinnace_spec.observers.invariants.sums import Sums
from pinnace_spec.observers.invariants.surfaces import SurfacesOpen
from pinnace_spec.observers.invariants.tools import CallsPaired, FileRequests, OutputGrows
from pinnace_spec.observers.invariants.updates import DeltasAddUp, PartialsGrow
from pinnace_spec.observers.state.fold import Fold
from pinnace_spec.observers.verdicts import WHOLE, Checks, End, Observer, Report, Step, Verdict
from pinnace_spec.profiles.generations import Generation

# MessagesAgree is after all readers of the fold, since it updates the fold.
OBSERVERS: Final[tuple[type[Automaton], ...]] = (
    Framing,
    OnlyRecords,
    RoundTrip,
    Alive,
    AnsweredOnce,
    ResponseShape,
    DialogsUnanswered,
    CauseFirst,
    NoInternals,
    RunGrammar,
    UpdatesInside,
    DeltasAddUp,
    PartialsGrow,
    NoIds,
    CallsPaired,
    OutputGrows,
    FileRequests,
    SurfacesOpen,
    SubagentsEnd,
    AgentMessagesKept,
    LoginsEnd,
    Sums,
    Retries,
    Compactions,
    Settled,
    Times,
    NamesAgree,
    QueuesShown,
    TextsConserved,
    DeliveryOrder,
    DeliveryPlaces,
    NothingStranded,
    Aborted,
    StateAgrees,
    RefusedChangesNothing,
    ChangesAnnounced,
    DialogsTakenBack,
    CountsAgree,
    MessagesAgree,
    ClosedInTime,
    NoCrash,
)
MULTI_TRACE: Final = ("I-FRM-3", "I-FRM-4", "I-ABT-2", "I-LLM-1", "I-PER-1")
"""Judged by functions over more than one trace (`comparisons`)."""
INVARIANTS: Final[tuple[str, ...]] = (*(each.id for each in OBSERVERS), *MULTI_TRACE)


def observers(generation: Generation, *, checks: Checks = WHOLE) -> list[Observer]:
    """Make one observer for each invariant that one trace can break; they share a fold, so feed all of them."""
    fold = Fold(generation, checks)
    return [each(fold) for each in OBSERVERS]


class Judge:
    """Judges a trace that may still grow."""

    def __init__(self, generation: Generation, *, checks: Checks = WHOLE) -> None:
        """Begin before the first step."""
        self._fold = Fold(generation, checks)
        self._observers: list[Automaton] = [each(self._fold) for each in OBSERVERS]
        # Not `feed` of each: most judge little of most steps, and the calls are what they cost.
        self._takes = [each.take for each in self._observers if type(each).take is not Automaton.take]
        self._verdicts: list[Verdict] = []
        self._steps = 0

    def feed(self, step: Step) -> list[Verdict]:
        """Take the next step; return its violations."""
        self._steps += 1
        self._fold.advance(step)
        for take in self._takes:
            take(step)
        found = self._fold.take_found()
        self._verdicts += found
        return found

    def finish(self, end: End) -> list[Verdict]:
        """Take the end; return its violations."""
        found = [verdict for observer in self._observers for verdict in observer.finish(end)]
        self._verdicts += found
        return found

    @property
    def report(self) -> Report:
        """The judgement so far."""
        armed = {observer.id: observer.armed for observer in self._observers}
        return Report(tuple(self._verdicts), armed, self._steps)


def judge(steps: Iterable[Step], end: End, generation: Generation, checks: Checks = WHOLE) -> Report:
    """Judge a whole trace.

    Args:
        steps: In order.
        end: How it ended.
        generation: The protocol generation of the agent.
        checks: The facts about the trace.
    """
    judging = Judge(generation, checks=checks)
    for step in steps:
        judging.feed(step)
    judging.finish(end)
    return judging.report


def never_armed(reports: Iterable[Report]) -> list[str]:
    """Return the invariants that were never armed: these traces prove nothing about them."""
    total = armed_in(reports)
    return [invariant for invariant, count in total.items() if not count]


def armed_in(reports: Iterable[Report]) -> dict[str, int]:
    """Add up how often each invariant was armed."""
    total: Counter[str] = Counter({each.id: 0 for each in OBSERVERS})
    for report in reports:
        total.update(report.armed)
    return dict(total)


def armed_table(reports: Sequence[Report]) -> str:
    """Print how often each invariant was armed, one line each."""
    rows = [
        f"{invariant:10} {count:8}{'' if count else '  never armed'}" for invariant, count in armed_in(reports).items()
    ]
    return "\n".join(rows) + "\n"
