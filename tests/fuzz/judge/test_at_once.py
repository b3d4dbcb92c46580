"""The number of cases at once follows the processors; verdicts do not depend on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock

import pytest

from pinnace_fuzz.judge.at_once import AtOnce, idle_s
from pinnace_fuzz.judge.confirming import CONFIRMATIONS, Case, play_all
from pinnace_fuzz.judge.results import CaseResult, Finding, Verdict
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.scenario import Scenario


@dataclass
class Machine:
    """A clock, and processors that are idle for a share of the time."""

    seconds: float = 0.0
    idle_seconds: float = 0.0

    def passes(self, seconds: float, idle: float) -> None:
        self.seconds += seconds
        self.idle_seconds += idle * seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


def following(machine: Machine, idle: Callable[[], float | None] | None = None) -> AtOnce:
    return AtOnce(clock=lambda: machine.seconds, idle=idle or (lambda: machine.idle_seconds), least=2)


def test_one_more_is_played_while_a_processor_is_idle_and_one_less_while_none_is(machine: Machine) -> None:
    at_once = following(machine)
    numbers: list[int] = []
    for idle in [1.0, 0.3, 0.1, 0.0, 0.0, 0.0]:
        machine.passes(1.0, idle)
        numbers.append(at_once.now())

    assert [3, 4, 4, 3, 2, 2] == numbers
    assert 4 == at_once.peak


def test_the_number_follows_no_shorter_time_than_a_second_and_has_a_limit(machine: Machine) -> None:
    at_once = following(machine)
    machine.passes(0.9, 2.0)
    assert 2 == at_once.now()
    for _ in range(20):
        machine.passes(1.0, 2.0)
        at_once.now()
    assert 8 == at_once.now() == at_once.most


def test_a_number_that_is_given_stays(machine: Machine) -> None:
    at_once = AtOnce(3, clock=lambda: machine.seconds, idle=lambda: machine.idle_seconds)
    machine.passes(5.0, 2.0)
    assert (3, 3, 3) == (at_once.now(), at_once.most, at_once.peak)


def test_where_the_system_has_no_data_it_is_one_a_processor(machine: Machine) -> None:
    at_once = following(machine, lambda: None)
    machine.passes(5.0, 2.0)
    assert 2 == at_once.now()


def test_this_system_has_data() -> None:
    first, second = idle_s(), idle_s()
    assert first is not None
    assert second is not None
    assert 0 < first <= second


@dataclass
class Staged:
    """A case with prepared verdicts, which notes how many were played beside each play."""

    name: str
    verdicts: Sequence[Verdict]
    others: "list[Staged]" = field(default_factory=list)
    is_playing: bool = False
    company: list[int] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    seconds: float = 0.1

    def play(self, _: float) -> CaseResult:
        with self.lock:
            self.is_playing = True
            self.company.append(sum(each.is_playing for each in self.others))
        verdict = self.verdicts[min(len(self.company), len(self.verdicts)) - 1]
        finding = Finding("state", ("R-CMD-01",), "x", is_timed=verdict == "HANG")
        found = (finding,) if verdict in ("FAIL", "HANG") else ()
        with self.lock:
            self.is_playing = False
        return CaseResult(scenario(self.name), "scenario", verdict, "clean", "", found, (), {}, (), self.seconds)


def scenario(name: str) -> Scenario:
    return read_scenario({"id": name, "title": "x", "rules": ["R-CMD-01"], "client": ["quiet"]})


def settled(jobs: int, *verdicts: Verdict, seconds: float = 0.1) -> tuple[Verdict, tuple[int, int], int]:
    """Return the verdict on a case that is played with nineteen others, how often it came again, and how many plays."""
    lock = Lock()
    cases = [Staged(f"OTH/{number}", ["PASS"], lock=lock) for number in range(19)]
    judged = Staged("AAA/judged", verdicts, lock=lock, seconds=seconds)
    cases.insert(5, judged)
    for each in cases:
        each.others = [other for other in cases if other is not each]
    results = play_all([Case(scenario(each.name), "scenario", each.play) for each in cases], AtOnce(jobs))
    assert [each.name for each in cases] == [each.scenario.id for each in results]
    return results[5].verdict, results[5].reproduced, len(judged.company)


ALL = (CONFIRMATIONS, CONFIRMATIONS)


@pytest.mark.parametrize("jobs", [1, 2, 8])
@pytest.mark.parametrize(
    ("verdicts", "seconds"),
    [(["FAIL"], 0.1), (["HANG"], 30.0), (["HANG"], 0.1), (["PASS"], 0.1), (["NON-STRICT"], 0.1)],
)
def test_a_verdict_that_comes_every_time_is_the_same_however_many_are_played_at_once(
    jobs: int, verdicts: list[Verdict], seconds: float
) -> None:
    is_bad = verdicts[0] in ("FAIL", "HANG")
    wanted = (verdicts[0], ALL if is_bad else (0, 0), 1 + CONFIRMATIONS if is_bad else 1)

    assert wanted == settled(jobs, *verdicts, seconds=seconds)


BESIDE: list[Verdict] = ["FAIL" for _ in range(CONFIRMATIONS)]
"""The first play, and the repetitions that are not alone."""


@pytest.mark.parametrize(
    ("verdicts", "wanted"),
    [
        pytest.param((*BESIDE, "PASS"), ("PASS", (0, 0), 2 * CONFIRMATIONS), id="it fails beside others alone"),
        pytest.param(("FAIL", "PASS"), ("PASS", (0, 0), 2 + CONFIRMATIONS), id="it fails beside others once"),
        pytest.param((*BESIDE, "PASS", "FAIL"), ("INCONCLUSIVE", (1, 2), 7), id="alone it fails sometimes"),
        pytest.param(("FAIL", "PASS", "FAIL"), ("FAIL", ALL, 3 + CONFIRMATIONS), id="alone it fails every time"),
        pytest.param(("INCONCLUSIVE", "PASS"), ("PASS", (0, 0), 2), id="the load left it open"),
        pytest.param(("INCONCLUSIVE", "FAIL"), ("FAIL", ALL, 2 + CONFIRMATIONS), id="the load hid a failure"),
    ],
)
def test_a_failure_counts_only_if_it_comes_alone(
    verdicts: tuple[Verdict, ...], wanted: tuple[Verdict, tuple[int, int], int]
) -> None:
    assert wanted == settled(4, *verdicts)


def test_the_last_repetition_is_alone() -> None:
    lock = Lock()
    cases = [Staged(f"OTH/{number}", ["FAIL"], lock=lock) for number in range(6)]
    for each in cases:
        each.others = [other for other in cases if other is not each]
    results = play_all([Case(scenario(each.name), "scenario", each.play) for each in cases], AtOnce(3))

    assert {("FAIL", ALL)} == {(each.verdict, each.reproduced) for each in results}
    assert [0] * len(cases) == [each.company[-1] for each in cases]
