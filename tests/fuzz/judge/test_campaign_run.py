"""Campaigns: what they generate, and what becomes of a case that breaks an invariant."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pinnace_fuzz.judge.adapter import NoAdapter
from pinnace_fuzz.judge.campaigns.arguments import argument_cases, valid
from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
from pinnace_fuzz.judge.campaigns.cases import case
from pinnace_fuzz.judge.campaigns.findings import signature
from pinnace_fuzz.judge.campaigns.framing import byte_cases
from pinnace_fuzz.judge.campaigns.interleavings import orders
from pinnace_fuzz.judge.campaigns.schedule import CAMPAIGNS, run_campaigns
from pinnace_fuzz.judge.campaigns.sequences import weights
from pinnace_fuzz.judge.confirming import confirmed_result, not_run, signature_of
from pinnace_fuzz.judge.coverage import Coverage
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.load import LoadMeter
from pinnace_fuzz.judge.results import CaseResult, Finding
from pinnace_fuzz.judge.session import JudgeOptions
from pinnace_spec.profiles.generations import generation
from pinnace_spec.records.commands import MODELS

TINY = Path(__file__).parent / "tiny_agent.py"
STATE = {"send": {"id": "s", "type": "get_state"}}
CLIENT = [STATE, {"bytes": "[]\n"}, {"bytes": "null\n"}, STATE, "answered"]


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[AgentUnderTest]:
    with LoadMeter() as meter:
        adapter = NoAdapter()
        yield AgentUnderTest(
            (sys.executable, str(TINY)), adapter, adapter.capabilities, generation("seed"), tmp_path, meter
        )


def run_for(kit: AgentUnderTest, fault: str) -> CampaignRun:
    return CampaignRun(kit._replace(command=(*kit.command, fault)), Coverage(), time.monotonic() + 120, seed=1)


def test_what_breaks_an_invariant_is_made_small_and_confirmed(kit: AgentUnderTest) -> None:
    run = run_for(kit, "dies-of-null")
    with run.pool() as pool:
        run.try_case(pool, case("framing", CLIENT), "framing")
        run.try_case(pool, case("framing", CLIENT), "framing")

    (result,) = run.results
    assert ("CRASH", (5, 5)) == (result.verdict, result.reproduced)
    assert [{"bytes": "null\n"}] == result.scenario.source["client"]


def crash(words: str, number: int) -> Finding:
    return Finding(
        "I-CRASH", ("R-ERR-02",), f'the process ends with 1 behind record {number}: "{words}"', steps=(number,)
    )


def test_two_crashes_are_two_catches_however_alike_the_inputs_are() -> None:
    first = signature(crash("TypeError: null", 4), ())

    assert first == signature(crash("TypeError: null", 7), ())
    assert first != signature(crash("RangeError: too deep", 4), ())


def failed(*sources: str) -> CaseResult:
    findings = tuple(Finding(each, ("R-RSP-01",), "wrong") for each in sources)
    return not_run(case("framing", CLIENT), "")._replace(verdict="FAIL" if sources else "PASS", findings=findings)


def test_a_catch_whose_text_holds_half_a_pair_has_a_name() -> None:
    for source in ("I-CRASH", "I-RSP-4"):
        assert signature(Finding(source, ("R-RSP-01",), "answers \ud800 and nobody", steps=()), ())


def test_a_campaign_that_fails_takes_nothing_with_it(kit: AgentUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")

    monkeypatch.setitem(CAMPAIGNS, "arguments", CAMPAIGNS["arguments"]._replace(campaign=fails))
    logged: list[str] = []
    options = JudgeOptions(
        command=kit.command, adapter=kit.adapter, seed=1, jobs=1, campaigns=("arguments", "framing"), log=logged.append
    )
    _, campaigns = run_campaigns(kit, options, time.monotonic() + 5, Coverage())

    assert "UnicodeEncodeError" in campaigns["arguments"]["fault"]
    assert any("the tester itself failed" in text for text in logged)
    assert "fault" not in campaigns["framing"]
    assert campaigns["framing"]["examples"]


def test_what_comes_every_time_is_reported_and_the_rest_counts_against_no_agent() -> None:
    result = confirmed_result(
        failed("I-RSP-1", "I-RSP-2"), [failed("I-RSP-1"), failed("I-RSP-1", "I-RSP-2")], signature_of
    )

    assert ("FAIL", (2, 2)) == (result.verdict, result.reproduced)
    assert ["violation", "information"] == [each.level for each in result.findings]


@pytest.mark.parametrize("last", [failed(), failed("I-RSP-2")], ids=["passed", "other fault"])
def test_what_does_not_come_every_time_is_inconclusive(last: CaseResult) -> None:
    result = confirmed_result(failed("I-RSP-1"), [failed("I-RSP-1"), last], signature_of)

    assert ("INCONCLUSIVE", (1, 2)) == (result.verdict, result.reproduced)


def test_the_nasty_cases_come_first() -> None:
    known = generation("0.87")
    orders_first = [each for _, each in zip(range(3), orders(known, Random(1)), strict=False)]

    assert {"bytes": "null\n"} == next(byte_cases()).source["client"][0]
    assert ["prompt", "prompt"] == [each["type"] for each in orders_first[0].source["client"][0]["send"]]
    assert ["new_session", "prompt"] == [each["type"] for each in orders_first[2].source["client"][0]["send"]]


def test_a_process_that_behaves_plays_many_cases(kit: AgentUnderTest) -> None:
    run = run_for(kit, "")
    with run.pool() as pool:
        glances = [run.glance(pool, case("framing", [STATE, "answered"]), "framing") for _ in range(3)]

    assert [True, False, False] == [glance.was_first for glance in glances]
    assert [(), (), ()] == [glance.findings for glance in glances]


def test_nothing_is_said_of_an_agent_without_fault(kit: AgentUnderTest) -> None:
    run = run_for(kit, "")
    with run.pool() as pool:
        for each in [*byte_cases()][:12]:
            run.try_case(pool, each, "framing")

    assert [] == run.results


def test_arguments_try_every_command_of_a_generation_as_it_should_be_first() -> None:
    known = generation("pi")
    wanted = [name for name in MODELS if name in known.commands]
    cases = [each for _, each in zip(wanted, argument_cases(known), strict=False)]

    assert wanted == [each.source["client"][1]["send"]["type"] for each in cases]
    for name in wanted:
        MODELS[name].model_validate(valid(name))


def test_interleavings_are_the_same_for_a_seed_and_others_for_another() -> None:
    def some(seed: int) -> list[str]:
        return [each.id for _, each in zip(range(300), orders(generation("pi"), Random(seed)), strict=False)]

    assert some(1) == some(1)
    assert some(1) != some(2)


def test_the_chart_says_which_commands_have_something_to_do() -> None:
    assert weights("llm")["abort"] > weights("llm")["get_state"]
