"""Reproductions: each finding as a script that needs the shell and the agent alone, and a draft of a report."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.fuzz.judge import html_reports as made
from tests.fuzz.judge.html_reports import HOSTILE, Json
from tests.fuzz.judge.reproduced import run, written_scripts

from pinnace_fuzz.judge.adapter import AttachAdapter
from pinnace_fuzz.judge.adapter_names import adapter
from pinnace_fuzz.judge.html.reading import read_report
from pinnace_fuzz.judge.reports.reproducing import quoted, write_reproductions
from pinnace_fuzz.judge.scenarios.files import load
from pinnace_fuzz.judge.scenarios.scenario import Scenario

TINY = [sys.executable, str(Path(__file__).parent / "tiny_agent.py")]
PINNACE = str(Path(sys.executable).parent / "pinnace")
RULE = {"level": "MUST", "origin": "seed", "text": "The agent MUST answer."}


NULL: Json = {
    "id": "ERR/null-is-no-command",
    "title": "A line that is null is refused.",
    "rules": ["R-RSP-01"],
    "client": [{"bytes": "null\n"}, {"send": [{"id": "b", "type": "get_state"}]}, {"wait": "resp(b)"}],
}


@cache
def scenarios() -> Mapping[str, Scenario]:
    return {each.id: each for each in load()}


def case_of(source: Json = NULL, *findings: Json) -> Json:
    """Write a case of a scenario that failed."""
    scenario, id_ = source, source["id"]
    found = findings or (made.finding("expect", "R-RSP-01"),)
    return made.case(id_, "FAIL", findings=found, scenario=scenario, reproduction="pinnace-conform --only X -- agent")


def written(folder: Path, *cases: Json, name: str = "none", **agent: Any) -> list[Path]:
    return written_scripts(folder, cases, ("R-RSP-01", RULE), adapter(name), **{"command": TINY, **agent})


def test_a_script_shows_the_fault_of_a_faulty_agent_and_none_of_a_right_one(tmp_path: Path) -> None:
    (folder,) = written(tmp_path, case_of())
    faulty, right = run(folder, *TINY, "dies-of-null"), run(folder, *TINY)

    assert "TypeError: null has no fields" in faulty
    assert "exit code: 1" in faulty
    assert "exit code: 0" in right
    assert '"success": false' in right
    assert "the rule asks: R-RSP-01 (MUST): The agent MUST answer. Source: the published protocol." in right
    assert right == run(folder)


def test_a_script_is_short_names_the_rule_and_contains_no_place_of_this_machine(tmp_path: Path) -> None:
    prompt = {"send": [{"id": "p", "type": "prompt", "message": "hi"}]}
    asked: Json = {**NULL, "id": "PRM/asked", "needs": ["llm"], "client": [prompt], "llm": [{"text": "yes"}]}
    for folder in written(tmp_path, case_of(), case_of(asked), name="pi"):
        lines = (folder / "reproduce.sh").read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 10
        assert "# R-RSP-01 (MUST): The agent MUST answer. Source: the published protocol." == lines[1]
        text = "\n".join(lines).replace(str(Path(__file__).parent), "").replace(sys.executable, "")
        assert re.search(r"pinnace|conform-|/tmp/", text) is None
        for file in (folder / "home").rglob("*.json"):
            assert "conform-" not in file.read_text(encoding="utf-8")


def test_the_draft_has_the_rule_the_records_and_the_script(tmp_path: Path) -> None:
    case = case_of()
    case["processes"] = made.failure()["processes"]
    (folder,) = written(tmp_path, case)
    draft = (folder / "report.md").read_text(encoding="utf-8")

    assert "The agent MUST answer. Source: the published protocol." in draft
    assert '> {"id": "a", "type": "prompt", "message": "hi"}' in draft
    assert (folder / "reproduce.sh").read_text(encoding="utf-8").strip() in draft


@pytest.mark.parametrize(
    ("step", "why"),
    [({"signal": "TERM"}, "sends a signal"), ({"restart": "same"}, "kills the agent and starts it again")],
)
def test_what_a_script_can_not_show_is_named_in_its_place(tmp_path: Path, step: Json, why: str) -> None:
    (folder,) = written(tmp_path, case_of({**NULL, "client": [*NULL["client"], step]}))

    assert why in (folder / "reproduce.sh").read_text(encoding="utf-8")
    assert "with the judge: pinnace-conform --only X -- agent" in run(folder)
    assert 3 == subprocess.run(["sh", str(folder / "reproduce.sh")], check=False, capture_output=True).returncode


def test_an_adapter_with_a_host_has_no_scripts(tmp_path: Path) -> None:
    report = read_report({**made.report(case_of())}, 1)
    (folder,) = write_reproductions(report, AttachAdapter(), tmp_path)

    assert "is of the adapter attach" in (folder / "reproduce.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [*HOSTILE, "'; touch hit; '", "$(touch hit)", "`touch hit`", "\n touch hit"])
def test_no_text_of_an_agent_is_carried_out(tmp_path: Path, text: str) -> None:
    case = case_of(NULL, {**made.finding("expect", "R-RSP-01"), "text": text})
    (folder,) = written(tmp_path, {**case, "title": text}, name="none", command=[text])
    script = (folder / "reproduce.sh").read_text(encoding="utf-8")
    subprocess.run(["sh", "-n", str(folder / "reproduce.sh")], check=True)
    echoes = next(line for line in script.splitlines() if line.startswith("cut "))
    command = f"t=.; touch out err end; {echoes}"
    found = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=True)

    assert not (tmp_path / "hit").exists()
    assert b"the judge found: expect" in found.stdout


@pytest.mark.parametrize("data", ["a'b\\n", "%s \\ $t `x` \u2028", "\x00\x01", "@ROOT"])
def test_a_word_is_what_it_was(data: str) -> None:
    data = data.replace("\x00", "")
    found = subprocess.run(["sh", "-c", f"printf %s {quoted(data)}"], capture_output=True, check=True)

    assert data == found.stdout.decode()


def test_every_scenario_has_a_script_or_a_reason(tmp_path: Path) -> None:
    """Of those that an agent of pi's files can play."""
    played = [each for each in scenarios().values() if "extensions" not in each.needs][::9]
    folders = written(tmp_path, *(case_of(dict(each.source)) for each in played), name="pi")
    scripts = [(each / "reproduce.sh").read_text(encoding="utf-8") for each in folders]
    alone = [each for each in scripts if "env -i" in each]

    assert len(played) == len(folders)
    assert len(alone) > len(scripts) / 2
    assert all("can't be reproduced by sh and the agent alone: it " in each for each in scripts if each not in alone)


def test_the_model_beside_a_script_answers_in_order_and_waits_at_its_gates(tmp_path: Path) -> None:
    """It runs alone: isolated from the environment and the packages of the project."""
    llm = [{"error": 429}, {"text": ["one", "two"], "gate": "g"}]
    source: Json = {**NULL, "id": "PRM/asked", "needs": ["llm"], "client": [{"open": "g"}], "llm": llm}
    (folder,) = written(tmp_path / "out", case_of(source), name="pi")
    shutil.copy(folder / "home" / "answers.json", tmp_path)
    with subprocess.Popen([sys.executable, "-I", "-S", str(folder / "model.py"), str(tmp_path)]) as model:
        try:
            while not (tmp_path / "port").exists():
                assert model.poll() is None
                time.sleep(0.01)
            url = f"http://127.0.0.1:{(tmp_path / 'port').read_text()}/v1/chat/completions"
            assert 429 == httpx.post(url, json={}).status_code
            (tmp_path / "open-g").touch()
            answer = httpx.post(url, json={})
            assert '"content":"one"' in answer.text
            assert answer.text.endswith("data: [DONE]\n\n")
            assert 500 == httpx.post(url, json={}).status_code
        finally:
            model.kill()
    assert (tmp_path / "at-g").exists()


# Whole agents.


@pytest.mark.parametrize(
    ("scenario", "wanted"),
    [
        ("PRM/one-prompt", ['"agent_end"', "Hello"]),
        ("QUE/steer-after-tools", ['"tool_execution_end"', "NEW PLAN"]),
        ("RTY/attempts-are-counted", ['"auto_retry_start"']),
    ],
)
def test_a_script_with_a_model_shows_a_whole_conversation(tmp_path: Path, scenario: str, wanted: list[str]) -> None:
    """A filter before the agent loses the end of runs: the script shows that, too."""
    (folder,) = written(tmp_path / "out", case_of(dict(scenarios()[scenario].source)), name="pi")
    moved = shutil.move(folder, tmp_path / "elsewhere")
    faulty = tmp_path / "faulty"
    faulty.write_text(f'#!/bin/sh\n\'{PINNACE}\' "$@" | grep -v \'"type": *"agent_end"\'\n')
    faulty.chmod(0o755)
    right, wrong = run(Path(moved), PINNACE), run(Path(moved), str(faulty))

    assert [] == [each for each in wanted if each not in right], right
    assert "exit code: 0" in right
    assert '"type":"agent_end"' in right
    assert '"type":"agent_end"' not in wrong
    assert '"type":"agent_start"' in wrong


def test_a_run_writes_a_script_for_each_finding(tmp_path: Path) -> None:
    from tests.fuzz.judge.test_conform_cli import judge

    assert 1 == judge(tmp_path, "--reproduce", str(tmp_path / "found"), "--report", "json", faults="dies-of-null")
    folders = sorted((tmp_path / "found").iterdir())
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    identities = {
        each["identity"] for case in report["cases"] for each in case["findings"] if each["level"] == "violation"
    }

    assert {each[:8] for each in identities} == {each.name.rpartition("-")[2] for each in folders}
    for folder in folders:
        assert "exit code: 1" in run(folder)
        assert "exit code: 0" in run(folder, *TINY)
