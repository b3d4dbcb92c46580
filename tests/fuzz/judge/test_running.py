"""Scenarios one after the other: a failure that takes long does not use up the time of the others."""

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.harness.pump import READ_BYTES
from pinnace_fuzz.judge import running
from pinnace_fuzz.judge.adapter import NoAdapter
from pinnace_fuzz.judge.confirming import CONFIRMATIONS
from pinnace_fuzz.judge.playing import asking, body
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.load import Load, LoadMeter
from pinnace_fuzz.judge.results import CaseResult
from pinnace_fuzz.judge.running import run_all, run_once
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec.profiles.generations import generation

TINY = Path(__file__).parent / "tiny_agent.py"
STATE = {"ask": {"id": "a", "type": "get_state"}}
NEVER = {"wait": "agent_start"}


class Idle(LoadMeter):
    """Finds the machine idle: what is missed here is missed because it never comes."""

    def since(self, begun_s: float, waiting_s: float = 0.0) -> Load:
        return super().since(begun_s)._replace(late_s=0.0, waiting_s=0.0)


class Overloaded(Idle):
    """Finds the machine overloaded as often as it should, then idle."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._left = times

    def since(self, begun_s: float, waiting_s: float = 0.0) -> Load:
        self._left -= 1
        return super().since(begun_s, waiting_s)._replace(late_s=9.0 if self._left >= 0 else 0.0)


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[AgentUnderTest]:
    # A step that waits in vain takes half a second; what comes may take a minute.
    patience = 0.05
    monkeypatch.setattr(asking, "START_S", 60 / patience)
    monkeypatch.setattr(asking, "QUIET_S", 60 / patience)
    with Idle() as meter:
        yield AgentUnderTest(
            (sys.executable, str(TINY)), NoAdapter(), frozenset(), generation("seed"), tmp_path, meter, patience
        )


def scenario(name: str, *steps: Any) -> Scenario:
    return read_scenario({"id": name, "title": "x", "rules": ["R-CMD-01"], "client": [STATE, *steps]})


def played(kit: AgentUnderTest, scenarios: list[Scenario], **how: Any) -> tuple[list[str], dict[str, CaseResult]]:
    """Return what was reported, in this order, and all results."""
    reported: list[CaseResult] = []
    results = run_all(scenarios, kit, report=reported.append, **how)
    assert [each.id for each in scenarios] == [result.scenario.id for result in results]
    return [each.scenario.id for each in reported], {result.scenario.id: result for result in results}


def test_what_fails_slowly_is_played_again_behind_everything_else_and_what_resembles_it_comes_last(
    kit: AgentUnderTest,
) -> None:
    slow, alike, other = scenario("SLO/a", NEVER), scenario("SLO/b"), scenario("OTH/c")

    reported, results = played(kit, [slow, alike, other])

    assert ["OTH/c", "SLO/b", "SLO/a"] == reported
    assert ("FAIL", (CONFIRMATIONS, CONFIRMATIONS)) == (
        results["SLO/a"].verdict,
        results["SLO/a"].reproduced,
    )


def test_what_fails_at_once_is_played_again_at_once(kit: AgentUnderTest) -> None:
    wrong = scenario("QCK/a", {"state": {"isStreaming": "never"}})

    reported, results = played(kit._replace(patience=1.0), [wrong, scenario("OTH/c")])

    assert ["QCK/a", "OTH/c"] == reported
    assert ("FAIL", (5, 5)) == (results["QCK/a"].verdict, results["QCK/a"].reproduced)


def test_a_failure_without_time_to_replay_it_is_not_reported(kit: AgentUnderTest) -> None:
    ticks = iter([False])

    _, results = played(
        kit, [scenario("SLO/a", NEVER), scenario("OTH/c")], is_over=lambda: next(ticks, True), late_s=0.0
    )

    assert ("INCONCLUSIVE", "there was no time to play it again often enough") == (
        results["SLO/a"].verdict,
        results["SLO/a"].why,
    )
    assert ("NOT-RUN", "the time was over") == (results["OTH/c"].verdict, results["OTH/c"].why)


@pytest.mark.parametrize(
    ("steps", "times", "wanted"),
    [
        pytest.param((), 1, ("PASS", (0, 0)), id="nothing is missed"),
        pytest.param((NEVER,), 1, ("FAIL", (CONFIRMATIONS, CONFIRMATIONS)), id="a failure that comes again"),
        pytest.param((NEVER,), 3, ("INCONCLUSIVE", (0, 0)), id="overloaded again"),
    ],
)
def test_what_an_overloaded_machine_left_open_is_played_once_more_at_the_end(
    kit: AgentUnderTest, steps: tuple[Any, ...], times: int, wanted: tuple[str, tuple[int, int]]
) -> None:
    with Overloaded(times) as meter:
        reported, results = played(kit._replace(meter=meter), [scenario("LAT/a", *steps), scenario("OTH/c")])

    result = results["LAT/a"]
    assert wanted == (result.verdict, result.reproduced)
    assert (["OTH/c", "LAT/a"] if steps else ["LAT/a", "OTH/c"]) == reported


def test_what_was_late_for_the_load_alone_passes_in_the_end(
    kit: AgentUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = iter(["INCONCLUSIVE", "PASS"])
    once = running.run_once

    def play(case: Scenario, with_kit: AgentUnderTest, kind: str = "scenario") -> CaseResult:
        return once(case, with_kit, kind)._replace(verdict=next(verdicts))  # type: ignore[arg-type]

    monkeypatch.setattr(running, "run_once", play)
    _, results = played(kit, [scenario("LAT/a")])

    assert "PASS" == results["LAT/a"].verdict


@pytest.mark.parametrize(
    ("fault", "text"),
    [("endless-line", "a line on stdout is longer than 1000000 bytes"), ("endless-records", "more than 4 MiB")],
)
def test_an_agent_that_writes_without_end_fails_and_is_not_kept(
    kit: AgentUnderTest, monkeypatch: pytest.MonkeyPatch, fault: str, text: str
) -> None:
    monkeypatch.setattr(body, "MAX_LINE_BYTES", 1_000_000)
    monkeypatch.setattr(body, "MAX_STDOUT_BYTES", 4 * 1024 * 1024)
    endless = kit._replace(command=(*kit.command, fault), patience=1.0)

    result = run_once(scenario("END/a", {"ask": {"id": "b", "type": "get_messages"}}), endless)

    assert result.verdict in ("FAIL", "HANG")
    assert any(each.source == "excess" and text in each.text for each in result.findings)
    (log,) = result.logs
    # What one read may have brought beyond the limit.
    assert sum(len(step.line) for step in log.steps) + len(log.end.rest) <= 4 * 1024 * 1024 + READ_BYTES


@pytest.mark.parametrize(("fault", "source"), [("closes-stdin", "crash"), ("closes-stdin-alone", "hang")])
def test_an_agent_that_reads_no_more_has_crashed_if_it_ends_and_is_deaf_if_it_lives_on(
    kit: AgentUnderTest, monkeypatch: pytest.MonkeyPatch, fault: str, source: str
) -> None:
    if source == "hang":
        monkeypatch.setattr(body, "EXIT_SEEN_S", 0.1)
    closing = kit._replace(command=(*kit.command, fault), patience=1.0)
    last = {"type": "no_such_command"}

    result = run_once(scenario("END/b", {"bytes": "42\n"}, {"wait": {"type": "stopping"}}, {"send": last}), closing)

    assert source in [each.source for each in result.findings]
