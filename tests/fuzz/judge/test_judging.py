"""Verdicts on agents that are wrong in one way each, played for real."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.judge.adapter import FileAdapter, NoAdapter
from pinnace_fuzz.judge.campaigns.shrinking import shrink
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.load import Load, LoadMeter
from pinnace_fuzz.judge.reports.transcript import transcript
from pinnace_fuzz.judge.results import CaseResult
from pinnace_fuzz.judge.running import run, run_once
from pinnace_fuzz.judge.scenarios.applicability import concerns
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec.profiles.generations import generation

TINY = Path(__file__).parent / "tiny_agent.py"


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[AgentUnderTest]:
    with LoadMeter() as meter:
        adapter = NoAdapter()
        yield AgentUnderTest(
            (sys.executable, str(TINY)),
            adapter,
            adapter.capabilities,
            generation("seed"),
            tmp_path,
            meter,
            patience=0.2,
        )


def scenario(*client: object, **fields: Any) -> Scenario:
    rules = fields.pop("rules", ["R-RSP-01"])
    return read_scenario({"id": "AB/c", "title": "T.", "rules": rules, "client": list(client), **fields})


STATE = {"send": {"id": "a", "type": "get_state"}}


def judged(kit: AgentUnderTest, fault: str, *client: object, **fields: Any) -> CaseResult:
    return run_once(scenario(*client, **fields), kit._replace(command=(*kit.command, fault)))


def test_a_good_agent_passes_and_ends_cleanly(kit: AgentUnderTest) -> None:
    result = judged(kit, "", STATE, {"answered": "a"}, expect="resp(a,ok)", state={"isStreaming": False})

    assert ("PASS", "clean", ()) == (result.verdict, result.shutdown, result.findings)


def test_an_agent_that_is_gone_crashed(kit: AgentUnderTest) -> None:
    assert judged(kit, "dies-of-null", {"bytes": "null\n"}, "quiet").verdict == "CRASH"


def test_an_agent_that_does_not_answer_hangs(kit: AgentUnderTest) -> None:
    result = judged(kit, "deaf", STATE, {"answered": "a"})

    assert result.verdict in {"HANG", "INCONCLUSIVE"}  # the latter on a busy machine
    assert "hang" == result.shutdown


def test_an_agent_that_lives_on_fails_at_the_end(kit: AgentUnderTest) -> None:
    result = judged(kit, "slow-to-end", STATE, {"answered": "a"})

    assert ("FAIL", "hang") == (result.verdict, result.shutdown)


def test_observers_judge_every_scenario(kit: AgentUnderTest) -> None:
    result = judged(kit, "answers-twice", STATE, {"answered": "a"})

    assert "I-RSP-1" in {finding.source for finding in result.findings}


def test_a_wait_for_what_never_comes_fails_and_says_at_which_step(kit: AgentUnderTest) -> None:
    result = judged(kit, "", STATE, {"wait": "agent_start"})

    assert [("step", "step 2: ")] == [(each.source, each.text[:8]) for each in result.findings]


@pytest.mark.parametrize("wanted", ["agent_start", {"type": "agent_start"}])
def test_a_wait_that_failed_says_what_it_waited_for(kit: AgentUnderTest, wanted: Any) -> None:
    (finding,) = judged(kit, "", STATE, {"wait": wanted}).findings

    assert "agent_start" in finding.text
    assert "lambda" not in finding.text


def test_what_the_script_kills_has_not_crashed(kit: AgentUnderTest) -> None:
    result = judged(kit, "", STATE, {"signal": "KILL"}, {"exit": {"code": None}})

    assert ("PASS", "killed") == (result.verdict, result.shutdown)


def test_what_waits_for_the_killed_is_a_mistake_and_no_crash(kit: AgentUnderTest) -> None:
    result = judged(kit, "", {"signal": "KILL"}, {"ask": STATE["send"]})

    assert ["step"] == [each.source for each in result.findings]


def test_an_agent_started_again_behind_a_kill_is_judged_by_itself(kit: AgentUnderTest) -> None:
    result = judged(kit, "", STATE, {"signal": "KILL"}, {"restart": "new"}, {"ask": {"id": "b", "type": "get_state"}})

    assert ("PASS", "clean") == (result.verdict, result.shutdown)


def test_one_rule_of_this_project_is_enough_to_bind_no_stranger(kit: AgentUnderTest) -> None:
    wrong = scenario(STATE, {"answered": "a"}, rules=["R-QUE-07", "R-STA-01"], expect="agent_start")

    assert "NON-STRICT" == run_once(wrong, kit).verdict


def test_an_expression_that_does_not_match_says_behind_which_line(kit: AgentUnderTest) -> None:
    (finding,) = judged(kit, "", STATE, {"answered": "a"}, expect="resp(a) agent_start").findings

    assert "behind line 2 (response a) wanted agent_start" in finding.text


def test_rules_of_this_project_alone_bind_strangers_only_if_that_is_wanted(kit: AgentUnderTest) -> None:
    wrong = scenario(STATE, {"answered": "a"}, rules=["R-QUE-07"], expect="agent_start")

    assert "NON-STRICT" == run_once(wrong, kit).verdict
    assert "FAIL" == run_once(wrong, kit._replace(is_strict=True)).verdict


def test_a_command_that_is_not_known_is_unimplemented(kit: AgentUnderTest) -> None:
    assert "UNIMPLEMENTED" == judged(kit, "", {"ask": {"id": "a", "type": "compact"}}).verdict


def test_a_command_that_is_not_known_is_unimplemented_also_where_its_refusal_has_no_id(kit: AgentUnderTest) -> None:
    asked = judged(kit, "loses-ids", {"ask": {"id": "a", "type": "compact"}})
    sent = judged(kit, "loses-ids", {"send": {"id": "a", "type": "compact"}}, {"answered": "a"})

    assert ["UNIMPLEMENTED"] * 2 == [asked.verdict, sent.verdict]


def test_what_an_agent_lacks_is_not_run(kit: AgentUnderTest) -> None:
    assert "NOT-RUN" == run(scenario(STATE, needs=["llm"]), kit).verdict
    assert "NOT-RUN" == run(scenario(STATE, since="1.5"), kit).verdict


def test_generations_and_releases_bound_a_scenario() -> None:
    seed, later, ours = generation("seed"), generation("1.5"), generation("pi")
    assert [False, True, True] == [concerns(scenario(STATE, since="0.84.4"), each) for each in (seed, later, ours)]
    assert [True, False, True] == [concerns(scenario(STATE, until="seed"), each) for each in (seed, later, ours)]
    assert [False, False, True] == [concerns(scenario(STATE, since="pi"), each) for each in (seed, later, ours)]


def test_a_missed_deadline_on_an_overloaded_machine_is_inconclusive() -> None:
    assert Load(2.0, 0.0, 5.0).is_overloaded
    assert Load(0.0, 4.0, 5.0).is_overloaded
    assert not Load(0.1, 0.5, 5.0).is_overloaded


def test_shrinking_leaves_what_is_needed() -> None:
    def make(source: Any) -> Scenario:
        return read_scenario(source)

    whole = scenario({"mark": "a"}, {"send": [{"id": "x"}, {"id": "y"}]}, {"mark": "b"}, "quiet", {"send": {"id": "z"}})

    smallest = shrink(whole, lambda each: "'y'" in str(each.source) and "'z'" in str(each.source), make, 200)

    assert [{"send": [{"id": "y"}]}, {"send": {"id": "z"}}] == smallest.source["client"]


def test_an_adapter_of_a_file_says_how_an_agent_is_started(kit: AgentUnderTest, tmp_path: Path) -> None:
    text = """
        capabilities = ["bash"]
        arguments = ["--home", "${home}"]
        [variables]
        MODEL_URL = "${base_url}"
        [files]
        "home/.agent.json" = '{"url": "${base_url}", "key": "${key}"}'
    """
    from pinnace_fuzz.judge.adapter import LaunchOptions

    prepared = FileAdapter(text).prepare(["agent"], tmp_path / "one", "http://127.0.0.1:1", LaunchOptions())

    assert ("agent", "--home", str(prepared.folders["home"])) == prepared.command
    assert "http://127.0.0.1:1" == prepared.env["MODEL_URL"]
    assert '{"url": "http://127.0.0.1:1"' in (prepared.folders["home"] / ".agent.json").read_text()


def test_fields_that_a_generation_does_not_describe_are_allowed(kit: AgentUnderTest) -> None:
    """`settled` matches nothing in the seed generation: what stands around it would be forbidden."""
    told = judged(kit, "", STATE, {"answered": "a"}, forbid=["resp(a)"])
    untold = judged(kit, "", STATE, {"answered": "a"}, forbid=["settled? resp(a)", "resp(a) ... settled"])

    assert ("FAIL", "PASS") == (told.verdict, untold.verdict)


def test_records_of_any_shape_can_be_shown(kit: AgentUnderTest) -> None:
    odd = [{"bytes": '{"type":["a"]}\n{"type":{"b":1}}\n{"type":7,"id":[]}\n'}, STATE]
    result = judged(kit, "says-no-command", *odd)

    assert "NON-STRICT" == result.verdict
    assert any('["a"]' in line for line in transcript(result))
