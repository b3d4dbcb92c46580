"""Plays one scenario in a process of its own, and all of a run: the agent and the adapter of `confirming`'s cases."""

import shutil
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from pinnace_fuzz.judge.at_once import AtOnce
from pinnace_fuzz.judge.confirming import (
    CONFIRMATIONS,
    LATE_S,
    MORE_PATIENCE,
    SLOW_S,
    Case,
    confirmed,
    is_unconfirmed,
    not_run,
    play_all,
)
from pinnace_fuzz.judge.judging import judge
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.play import play
from pinnace_fuzz.judge.results import BAD, CaseResult
from pinnace_fuzz.judge.scenarios.applicability import concerns
from pinnace_fuzz.judge.scenarios.scenario import Scenario

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
    if not (is_unconfirmed(first) and confirmations):
        return first
    return _again(first, kit, confirmations)


def _again(first: CaseResult, kit: AgentUnderTest, confirmations: int) -> CaseResult:
    """Play with more patience what has failed, and what the load of the machine left open: that once, as if new."""
    repeat = partial(run_once, first.scenario, _patient(kit, MORE_PATIENCE), first.kind)
    if first.verdict == "INCONCLUSIVE":
        first = repeat()
        if first.verdict not in BAD:
            return first
    return confirmed(first, repeat, confirmations)


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
    at_once: AtOnce | None = None,
    report: Callable[[CaseResult], None] = lambda result: None,
    is_over: Callable[[], bool] = lambda: False,
    late_s: float = LATE_S,
) -> list[CaseResult]:
    """Run scenarios as `play_all` does, one at a time if `at_once` is None."""
    cases = [
        Case(
            scenario,
            "scenario",
            partial(_played, scenario, kit),
            SLOW_S * kit.patience,
            reason_not_to_run(scenario, kit),
        )
        for scenario in scenarios
    ]
    return play_all(cases, at_once or AtOnce(1), report=report, is_over=is_over, late_s=late_s)


def _played(scenario: Scenario, kit: AgentUnderTest, patience: float) -> CaseResult:
    return run_once(scenario, _patient(kit, patience))


def _patient(kit: AgentUnderTest, patience: float) -> AgentUnderTest:
    return kit._replace(patience=kit.patience * patience)
