"""Runs scenarios, several at a time, and confirms in fresh processes what fails.

An accusation is repeated before it is report: what fails is played again, and what does not come every time is
inconclusive. A case of an agent that hangs runs into its timeouts: slow failures are played again when
everything else is done, and less often, and what resembles it comes last; so a single fault does not use up the time.
"""

import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from pinnace_fuzz.judge.judging import judge
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.play import play
from pinnace_fuzz.judge.results import BAD, CaseResult, Finding
from pinnace_fuzz.judge.scenarios.applicability import concerns
from pinnace_fuzz.judge.scenarios.scenario import Scenario

# A failure is reported only if it recurs in every one of so many fresh processes.
CONFIRMATIONS = 5
# What takes so long was waiting for something that does not come: no deadline is shorter than 10 s.
SLOW_S = 9.0
# Confirmations of what failed last may take so long when the time is over.
LATE_S = 60.0

_numbers = count(1)
_lock = threading.Lock()


@contextmanager
def folder(kit: AgentUnderTest) -> Generator[Path]:
    """Make a folder for one case, gone behind it."""
    with _lock:
        path = kit.root / f"case-{next(_numbers)}"
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run_once(scenario: Scenario, kit: AgentUnderTest, kind: str = "scenario") -> CaseResult:
    """Play and judge a scenario once, in a process of its own."""
    with folder(kit) as root:
        return judge(play(kit, scenario, root), kit, kind)


def run(scenario: Scenario, kit: AgentUnderTest, confirmations: int = CONFIRMATIONS) -> CaseResult:
    """Play and judge a scenario; a failure is played again, with longer timeouts.

    Returns:
        The first result, with how often it came again. What does not always is INCONCLUSIVE.
    """
    if why := reason_not_to_run(scenario, kit):
        return not_run(scenario, why)
    first = run_once(scenario, kit)
    return _again(first, kit, confirmations=confirmations) if _is_unconfirmed(first) and confirmations else first


def confirmed(
    first: CaseResult, kit: AgentUnderTest, times: int, is_late: Callable[[], bool] = lambda: False
) -> CaseResult:
    """Play a failing case again in fresh processes (`confirmed_result`); without time for it nothing is reported."""
    again: list[CaseResult] = []
    while len(again) < times and (not again or _is_same(first, again[-1])):
        if is_late():
            return _marked_late(first)
        again.append(run_once(first.scenario, kit, first.kind))
    return confirmed_result(first, again, signature_of)


def _is_same(first: CaseResult, other: CaseResult) -> bool:
    return other.verdict in BAD and bool(broken(first, signature_of) & broken(other, signature_of))


def signature_of(finding: Finding) -> str:
    """Name the fault that a finding of a scenario is of."""
    return finding.signature


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


def broken(result: CaseResult, name: Callable[[Finding], str]) -> set[str]:
    """Name the faults of a case."""
    return {name(each) for each in result.findings if each.level == "violation"}


def not_run(scenario: Scenario, why: str) -> CaseResult:
    """Make the result of a case that is left out."""
    return CaseResult(scenario, "scenario", "NOT-RUN", "none", "", (), (), {}, (), 0.0, why=why)


def reason_not_to_run(scenario: Scenario, kit: AgentUnderTest) -> str:
    """Say why a scenario is not for this agent; empty if it is."""
    if missing := scenario.needs - kit.capabilities:
        return f"needs {', '.join(sorted(missing))}"
    if not concerns(scenario, kit.generation):
        return f"not of generation {kit.generation.name}"
    return kit.adapter.not_for(scenario)


def run_all(
    scenarios: Sequence[Scenario],
    kit: AgentUnderTest,
    *,
    jobs: int = 1,
    report: Callable[[CaseResult], None] = lambda result: None,
    is_over: Callable[[], bool] = lambda: False,
    late_s: float = LATE_S,
) -> list[CaseResult]:
    """Run scenarios, `jobs` at a time; return the results in the order of the scenarios.

    Args:
        scenarios: What to run.
        kit: The agent and its adapter.
        jobs: How many at a time.
        report: Called with each result as it comes, in this thread.
        is_over: No further scenario is begun once this returns True; the others are NOT-RUN.
        late_s: How long slow failures and what load left open may then still be played again; those that can't be are
            INCONCLUSIVE.
    """
    results: dict[int, CaseResult] = {}
    slow: list[tuple[int, CaseResult]] = []
    left = list(enumerate(scenarios))

    def begun() -> Iterable[tuple[int, Callable[[], CaseResult]]]:
        while left and not is_over():
            number, scenario = left.pop(0)
            yield number, partial(_first, scenario, kit)

    def come(number: int, result: CaseResult) -> None:
        if _is_unconfirmed(result):
            slow.append((number, result))
            left.sort(key=lambda each: _subject(each[1]) == _subject(result.scenario))
        else:
            results[number] = result
            report(result)

    in_parallel(jobs, begun(), come)
    end_s = time.monotonic() + late_s

    def is_late() -> bool:
        return is_over() and time.monotonic() >= end_s

    def again() -> Iterable[tuple[int, Callable[[], CaseResult]]]:
        for number, result in slow:
            yield number, partial(_again, result, kit, is_late)

    def come_again(number: int, result: CaseResult) -> None:
        results[number] = result
        report(result)

    in_parallel(jobs, again(), come_again)
    for number, scenario in left:
        results[number] = not_run(scenario, "the time was over")
    return [results[number] for number in sorted(results)]


def _first(scenario: Scenario, kit: AgentUnderTest) -> CaseResult:
    """Play a scenario; confirm its failure at once, unless it was a timeout."""
    if why := reason_not_to_run(scenario, kit):
        return not_run(scenario, why)
    first = run_once(scenario, kit)
    is_slow = first.seconds > SLOW_S * kit.patience
    has_waited = any(each.is_timed for each in first.findings if each.level == "violation")
    if first.verdict not in BAD or (is_slow and has_waited):
        return first
    return confirmed(first, _patient(kit), CONFIRMATIONS)


def _again(
    first: CaseResult,
    kit: AgentUnderTest,
    is_late: Callable[[], bool] = lambda: False,
    confirmations: int = CONFIRMATIONS,
) -> CaseResult:
    """Play with more patience what has failed, and what the load of the machine left open: that once, as if new."""
    if is_late():
        return _marked_late(first)
    patient = _patient(kit)
    if first.verdict == "INCONCLUSIVE":
        first = run_once(first.scenario, patient, first.kind)
        if first.verdict not in BAD:
            return first
    return confirmed(first, patient, confirmations, is_late)


def _marked_late(first: CaseResult) -> CaseResult:
    if first.verdict == "INCONCLUSIVE":
        return first
    return first._replace(verdict="INCONCLUSIVE", why="there was no time to play it again often enough")


def _is_unconfirmed(result: CaseResult) -> bool:
    """Return whether it was played once, and this proves nothing yet."""
    return result.verdict in (*BAD, "INCONCLUSIVE") and result.reproduced[1] == 0


def _patient(kit: AgentUnderTest) -> AgentUnderTest:
    return kit._replace(patience=kit.patience * 1.5)


def _subject(scenario: Scenario) -> str:
    """Say what a scenario is about: the first part of its id."""
    return scenario.id.partition("/")[0]


def in_parallel(
    jobs: int,
    work: Iterable[tuple[int, Callable[[], CaseResult]]],
    come: Callable[[int, CaseResult], None],
) -> None:
    """Do numbered work, `jobs` at a time; the next item is taken only when a worker is free."""
    source = iter(work)
    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="case") as pool:
        running: dict[Future[CaseResult], int] = {}
        try:
            while True:
                while len(running) < jobs and (following := next(source, None)):
                    running[pool.submit(following[1])] = following[0]
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED, timeout=0.5)
                for each in done:
                    come(running.pop(each), each.result())
        finally:
            for each in running:
                each.cancel()
