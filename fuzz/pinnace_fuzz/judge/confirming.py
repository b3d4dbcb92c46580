"""Plays cases, several at once, and confirms what fails: no verdict depends on how many are played at once.

An accusation is repeated before it is reported: what fails is played again, and what does not come every time is
inconclusive. What fails beside other cases may fail because of them, whatever the judge has measured of the machine's
load: it counts only if it comes without company too, in the last of its repetitions. What does not is played alone, as
if it had not been played. So a play beside others decides only that a case does not fail.

A case of an agent that hangs runs into its timeouts: slow failures are played again when everything else is done, and
what resembles them comes last; so a single fault does not use up the time.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import NamedTuple

from pinnace_fuzz.judge.at_once import AtOnce
from pinnace_fuzz.judge.results import BAD, CaseResult, Finding
from pinnace_fuzz.judge.scenarios.scenario import Scenario

# A failure is reported only if it recurs in every one of so many fresh processes.
CONFIRMATIONS = 5
# What takes so long was waiting for something that does not come: no deadline is shorter than 10 s.
SLOW_S = 9.0
# Confirmations of what failed last may take so long when the time is over.
LATE_S = 60.0
# Repetitions have longer timeouts.
MORE_PATIENCE = 1.5
# So many failures wait until they are played alone, since the others have to end before.
_BATCH = 8


class Case(NamedTuple):
    """What can be played any number of times, each time in a process of its own."""

    scenario: Scenario
    """As reports show it."""
    kind: str
    play: Callable[[float], CaseResult]
    """Plays and judges it once, with deadlines multiplied by the argument."""
    slow_s: float = SLOW_S
    why_not: str = ""
    """Why it is not for this agent; empty if it is."""


class _Failed(NamedTuple):
    """A failure that is not confirmed, or what the load of the machine left open."""

    number: int
    first: CaseResult
    again: tuple[CaseResult, ...] = ()
    """Repetitions, beside other cases."""


def signature_of(finding: Finding) -> str:
    """Name the fault that a finding of a scenario is of."""
    return finding.signature


def broken(result: CaseResult, name: Callable[[Finding], str]) -> set[str]:
    """Name the faults of a case."""
    return {name(each) for each in result.findings if each.level == "violation"}


def _is_same(first: CaseResult, other: CaseResult) -> bool:
    return other.verdict in BAD and bool(broken(first, signature_of) & broken(other, signature_of))


def confirmed_result(first: CaseResult, again: Sequence[CaseResult], name: Callable[[Finding], str]) -> CaseResult:
    """Keep of a failing case what came in every process; others are information only.

    Args:
        first: What has failed.
        again: What the further processes have shown. The last one may be the one in which it did not come again.
        name: Names the fault that a finding is of.
    """
    faults = broken(first, name)
    shown = [each for each in again if each.verdict in BAD and faults & broken(each, name)]
    lasting = faults.intersection(*(broken(each, name) for each in again))
    findings = tuple(
        each if each.level != "violation" or name(each) in lasting else each._replace(level="information")
        for each in first.findings
    )
    result = first._replace(reproduced=(len(shown), len(again)))
    if len(shown) < len(again) or not lasting:
        why = f"came again in {len(shown)} of {len(again)} further processes"
        return result._replace(verdict="INCONCLUSIVE", why=why)
    return result._replace(findings=findings)


def confirmed(
    first: CaseResult, play: Callable[[], CaseResult], times: int, is_late: Callable[[], bool] = lambda: False
) -> CaseResult:
    """Play a failing case again in fresh processes (`confirmed_result`); without time for it nothing is reported."""
    again: list[CaseResult] = []
    while len(again) < times and (not again or _is_same(first, again[-1])):
        if is_late():
            return marked_late(first)
        again.append(play())
    return confirmed_result(first, again, signature_of)


def marked_late(first: CaseResult) -> CaseResult:
    """Return the result of a failure that there was no time to play again."""
    if first.verdict == "INCONCLUSIVE":
        return first
    return first._replace(verdict="INCONCLUSIVE", why="there was no time to play it again often enough")


def is_unconfirmed(result: CaseResult) -> bool:
    """Return whether it was played once, and this proves nothing yet."""
    return result.verdict in (*BAD, "INCONCLUSIVE") and result.reproduced[1] == 0


def not_run(scenario: Scenario, why: str, kind: str = "scenario") -> CaseResult:
    """Make the result of a case that is left out."""
    return CaseResult(scenario, kind, "NOT-RUN", "none", "", (), (), {}, (), 0.0, why=why)


def decided_alone(
    first: CaseResult,
    play: Callable[[], CaseResult],
    again: Sequence[CaseResult] = (),
    is_late: Callable[[], bool] = lambda: False,
) -> CaseResult:
    """Decide without company on what has failed, or was left open by the load of the machine: as if it were new.

    Args:
        first: The first play.
        play: Plays it once; nothing else is being played.
        again: Repetitions of a failure beside other cases. If it came in all of them, one alone is enough.
        is_late: Returns whether there is no time any more.
    """
    plays: list[CaseResult] = []
    # What the load left open has shown nothing: once is enough, as for any other case.
    while not plays or (first.verdict in BAD and plays[-1].verdict not in BAD and len(plays) < CONFIRMATIONS):
        if is_late():
            return marked_late(first)
        plays.append(play())
    last = plays[-1]
    if last.verdict not in BAD:
        return plays[0]
    if len(plays) > 1:
        why = f"came in 1 of {len(plays)} processes that were played alone"
        return last._replace(verdict="INCONCLUSIVE", reproduced=(1, len(plays)), why=why)
    if again and all(_is_same(first, each) for each in (*again, last)):
        return confirmed_result(first, (*again, last), signature_of)
    return confirmed(last, play, CONFIRMATIONS, is_late)


class _Run:
    """The state of `play_all`: what is left, and what is not decided."""

    def __init__(self, cases: Sequence[Case], at_once: AtOnce, report: Callable[[CaseResult], None]) -> None:
        self.cases = cases
        self.left = list(range(len(cases)))
        self.results: dict[int, CaseResult] = {}
        self.failed: list[_Failed] = []
        """Failed beside others every time: to be played alone soon."""
        self.slow: list[_Failed] = []
        """To be played again when all others are decided."""
        self.open: list[_Failed] = []
        """Left open by the load of the machine: to be played alone in the end."""
        self.has_company = at_once.most > 1 and len(cases) > 1
        self._report = report

    def take(self, number: int, result: CaseResult) -> None:
        self.results[number] = result
        self._report(result)

    def once_more(self, number: int) -> CaseResult:
        return self.cases[number].play(MORE_PATIENCE)

    def first(self, number: int) -> _Failed:
        """Play a case; repeat its failure at once, unless it was a timeout."""
        case = self.cases[number]
        if case.why_not:
            return _Failed(number, not_run(case.scenario, case.why_not, case.kind))
        first = case.play(1.0)
        if first.verdict not in BAD or self.is_slow(number, first):
            return _Failed(number, first)
        return self.repeated(number, first)

    def repeated(self, number: int, first: CaseResult, is_late: Callable[[], bool] = lambda: False) -> _Failed:
        """Repeat a failure; with company all times but the last one, which is to be alone."""
        times = CONFIRMATIONS - self.has_company
        again: list[CaseResult] = []
        while len(again) < times and (not again or _is_same(first, again[-1])):
            if is_late():
                return _Failed(number, marked_late(first))
            again.append(self.once_more(number))
        return _Failed(number, first, tuple(again))

    def is_slow(self, number: int, first: CaseResult) -> bool:
        has_waited = any(each.is_timed for each in first.findings if each.level == "violation")
        return has_waited and first.seconds > self.cases[number].slow_s

    def sort(self, number: int, played: _Failed) -> None:
        """Put what was played where it belongs."""
        if played.again:
            if self.has_company:
                self.failed.append(played)
            else:
                self.take(number, confirmed_result(played.first, played.again, signature_of))
        elif not is_unconfirmed(played.first):
            self.take(number, played.first)
        else:
            (self.open if played.first.verdict == "INCONCLUSIVE" else self.slow).append(played)
            subject = _subject(played.first.scenario)
            self.left.sort(key=lambda each: _subject(self.cases[each].scenario) == subject)

    def decide(self, waiting: list[_Failed], is_late: Callable[[], bool]) -> None:
        """Play alone what is waiting."""
        while waiting:
            number, first, again = waiting.pop(0)
            self.take(number, decided_alone(first, partial(self.once_more, number), again, is_late))


def play_all(
    cases: Sequence[Case],
    at_once: AtOnce,
    *,
    report: Callable[[CaseResult], None] = lambda result: None,
    is_over: Callable[[], bool] = lambda: False,
    late_s: float = LATE_S,
) -> list[CaseResult]:
    """Play cases; return the results in their order.

    Args:
        cases: What to play.
        at_once: How many at once.
        report: Called with each result when it is final, in this thread.
        is_over: No further case is begun once this returns True; the others are NOT-RUN.
        late_s: How long failures and what load left open may then still be played again; those that can't be are
            INCONCLUSIVE.
    """
    run = _Run(cases, at_once, report)
    over_s: list[float] = []

    def is_late() -> bool:
        if is_over() and not over_s:
            over_s.append(time.monotonic())
        return bool(over_s) and time.monotonic() >= over_s[0] + late_s

    def begun() -> Iterator[tuple[int, Callable[[], _Failed]]]:
        while run.left and len(run.failed) < _BATCH and not is_over():
            number = run.left.pop(0)
            yield number, partial(run.first, number)

    def repeated() -> Iterator[tuple[int, Callable[[], _Failed]]]:
        while run.slow:
            number, first, _ = run.slow.pop(0)
            if is_late():
                run.take(number, marked_late(first))
            else:
                yield number, partial(run.repeated, number, first, is_late)

    while True:
        before = len(run.left)
        in_parallel(at_once, begun(), run.sort)
        run.decide(run.failed, is_late)
        if len(run.left) == before:
            break
    in_parallel(at_once, repeated(), run.sort)
    run.decide(run.failed, is_late)
    run.decide(run.open, is_late)
    for number in run.left:
        run.results[number] = not_run(cases[number].scenario, "the time was over", cases[number].kind)
    return [run.results[number] for number in sorted(run.results)]


def _subject(scenario: Scenario) -> str:
    """Say what a scenario is about: the first part of its id."""
    return scenario.id.partition("/")[0]


def in_parallel(
    at_once: AtOnce,
    work: Iterable[tuple[int, Callable[[], _Failed]]],
    come: Callable[[int, _Failed], None],
) -> None:
    """Do numbered work, so many at once as it is now; the next item is taken only when there is a place for it."""
    source = iter(work)
    with ThreadPoolExecutor(max_workers=at_once.most, thread_name_prefix="case") as pool:
        running: dict[Future[_Failed], int] = {}
        try:
            while True:
                while len(running) < at_once.now() and (following := next(source, None)):
                    running[pool.submit(following[1])] = following[0]
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED, timeout=0.25)
                for each in done:
                    come(running.pop(each), each.result())
        finally:
            for each in running:
                each.cancel()
