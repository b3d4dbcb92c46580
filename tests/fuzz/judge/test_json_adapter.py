"""The adapter `json`: scenarios of one prompt in `--mode json`, judged by what judges them in mode rpc."""

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.judge import html_reports as made
from tests.fuzz.judge.html_reports import Json
from tests.fuzz.judge.reproduced import run, written_scripts

from pinnace_fuzz.acp.conduct import editor_adapter
from pinnace_fuzz.judge.adapter import AdapterError
from pinnace_fuzz.judge.adapter_names import adapter
from pinnace_fuzz.judge.json_mode import JsonModeAdapter
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.load import LoadMeter
from pinnace_fuzz.judge.running import reason_not_to_run, run_once
from pinnace_fuzz.judge.scenarios.files import load
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.session import JudgeOptions, conduct
from pinnace_spec.profiles.generations import generation

PINNACE = (str(Path(sys.executable).parent / "pinnace"),)
PROMPT: Json = {"send": {"id": "a", "type": "prompt", "message": "START"}}
RULE = {"level": "MUST", "origin": "seed", "text": "A run MUST have turns."}


def source(*client: Any, **more: Any) -> Json:
    return {"id": "PRM/x", "title": "x", "rules": ["R-PRM-02"], "client": [*client], "llm": [{"text": "yes"}], **more}


@pytest.fixture
def kit(tmp_path: Path) -> Generator[AgentUnderTest]:
    used = JsonModeAdapter()
    with LoadMeter() as meter:
        yield AgentUnderTest(PINNACE, used, used.capabilities, generation("pi"), tmp_path, meter, is_ours=True)


@pytest.mark.parametrize("name", ["RUN/an-unknown-tool", "RTY/no-further-try", "RUN/calls-end-as-they-end"])
def test_a_scenario_of_one_prompt_is_played_with_its_gates_to_the_end_of_the_process(
    kit: AgentUnderTest, name: str
) -> None:
    [scenario] = [each for each in load() if each.id == name]
    result = run_once(scenario, kit)

    assert ("PASS", ()) == (result.verdict, result.findings)
    assert result.armed["I-EVT-1"]
    assert scenario.source == result.scenario.source


@pytest.mark.parametrize(
    ("rest", "verdict", "found"),
    [
        ('| grep -v \'"type":"turn_end"\'', "FAIL", "I-EVT-1"),
        ('| sed \'s/"yes"/"no"/\'', "FAIL", "expect"),
        ("; kill -9 $$", "CRASH", "I-CRASH"),
    ],
)
def test_what_such_an_agent_does_wrong_is_found(kit: AgentUnderTest, rest: str, verdict: str, found: str) -> None:
    faulty = kit._replace(command=("/bin/sh", "-c", f'"$@" {rest}', "sh", *PINNACE))
    result = run_once(read_scenario(source(PROMPT, expect='resp(a,ok) ... assistant("yes") ... settled')), faulty)

    assert verdict == result.verdict
    assert found in {each.source for each in result.findings}


def test_a_run_that_fails_is_no_crash(kit: AgentUnderTest) -> None:
    refused = source(PROMPT, llm=[{"error": 401}], expect="assistant(error) ... settled")

    assert "PASS" == run_once(read_scenario(refused), kit).verdict


@pytest.mark.parametrize(
    ("client", "more", "why"),
    [
        ([PROMPT, "quiet"], {}, ""),
        ([PROMPT, {"wait": "resp(a,ok)"}, {"requests": 1}], {"expect": "resp(a,ok) agent_start"}, ""),
        (["quiet", PROMPT], {}, "one prompt"),
        ([{"send": {"id": "a", "type": "get_state"}}], {}, "one prompt"),
        ([{"send": [PROMPT["send"], PROMPT["send"]]}], {}, "one prompt"),
        ([{"send": {"type": "prompt", "message": "x", "images": []}}], {}, "one prompt"),
        ([{"send": {"type": "prompt", "message": "--help"}}], {}, "one prompt"),
        ([{"send": {"type": "prompt", "message": "@file"}}], {}, "one prompt"),
        ([PROMPT, {"send": {"type": "abort"}}], {}, "behind its prompt"),
        ([PROMPT, {"signal": "TERM"}], {}, "behind its prompt"),
        ([PROMPT], {"state": {"isStreaming": False}}, "no responses"),
        ([PROMPT], {"expect": "agent_start ... resp(a,ok)"}, "no responses"),
        ([PROMPT], {"expect": "ui(notify) ... agent_end"}, "dialogs"),
    ],
)
def test_the_mode_has_this(kit: AgentUnderTest, client: list[Any], more: Json, why: str) -> None:
    reason = reason_not_to_run(read_scenario(source(*client, **more)), kit)

    assert why in reason
    assert bool(why) is bool(reason)


def test_a_script_starts_the_mode_and_nothing_else(tmp_path: Path) -> None:
    case = made.case(
        "PRM/x",
        "FAIL",
        findings=(made.finding("expect", "R-PRM-02"),),
        scenario=source(PROMPT, {"requests": 1}, "quiet"),
        reproduction="pinnace-conform --adapter json --only PRM/x -- agent",
    )
    (folder,) = written_scripts(tmp_path, [case], ("R-PRM-02", RULE), adapter("json"), command=[*PINNACE])
    printed = run(folder)

    assert len((folder / "reproduce.sh").read_text(encoding="utf-8").splitlines()) <= 10
    assert '{"type":"agent_settled","aborted":false}' in printed
    assert "exit code: 0" in printed


def test_campaigns_need_commands(tmp_path: Path) -> None:
    options = JudgeOptions(command=PINNACE, adapter=JsonModeAdapter(), campaigns=["sequences"], out=tmp_path)

    with pytest.raises(AdapterError, match="--campaign: the adapter json"):
        conduct(options)


def test_an_editor_is_no_agent_of_this_mode() -> None:
    with pytest.raises(AdapterError, match="--mode json"):
        editor_adapter("json")
