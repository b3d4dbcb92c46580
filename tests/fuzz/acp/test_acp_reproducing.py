"""Findings of agents of the Agent Client Protocol as scripts, which need the shell and the agent alone."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.fuzz.judge import html_reports as made
from tests.fuzz.judge.reproduced import run, written_scripts

from pinnace_fuzz.acp.conduct import editor_adapter
from pinnace_fuzz.acp.reading import load
from pinnace_fuzz.acp.reproducing import HELPERS, play_of
from pinnace_fuzz.judge.cli import main

HERE = Path(__file__).parent
TINY = [sys.executable, "-I", str(HERE / "tiny_acp_agent.py")]
TINY2 = [sys.executable, "-I", str(HERE / "tiny_acp_agent_v2.py")]
PINNACE = [str(Path(sys.executable).parent / "pinnace"), "acp"]
SCENARIOS = {each.id: each for each in load()}
RULE = {"level": "MUST", "origin": "schema", "text": "The agent MUST answer."}


def written(folder: Path, *ids: str, name: str = "env", agent: Sequence[str] = TINY2) -> list[Path]:
    """Write the scripts of scenarios that have failed."""
    cases = [
        made.case(id_, "FAIL", findings=(made.finding("step", "R-ACP-02"),), scenario=dict(SCENARIOS[id_].source))
        for id_ in ids
    ]
    return written_scripts(folder, cases, ("R-ACP-02", RULE), editor_adapter(name), play_of, HELPERS, command=[*agent])


def test_every_scenario_has_a_short_script_or_a_reason(tmp_path: Path) -> None:
    folders = written(tmp_path, *SCENARIOS)
    scripts = {each.name.rpartition("-")[0]: (each / "reproduce.sh").read_text(encoding="utf-8") for each in folders}
    alone = {name for name, text in scripts.items() if "env -i" in text}

    assert len(SCENARIOS) == len(scripts)
    assert len(scripts) - 27 == len(alone)
    assert {name[:3] for name in scripts.keys() - alone} == {"AUT", "KIL", "MCP", "SUB"}
    for name, text in scripts.items():
        assert len(text.splitlines()) <= 10, name
        assert name in alone or "can't be reproduced by sh and the agent alone: it " in text
        subprocess.run(["sh", "-n"], input=text.encode(), check=True)


SHOWN = [
    ("PRM/an-answer", TINY, ['"stopReason": "end_turn"', "Hel"]),
    ("SES/load", TINY, ["What does it say?", '"sessionUpdate": "tool_call"']),
    ("FRM/accepted", TINY, ['"stopReason": "end_turn"', "elicitation/create"]),
    ("CAN2/one-call", TINY2, ['"status": "cancelled"', "-32602", '"stopReason": "end_turn"']),
    ("SES2/resume-from-the-start", TINY2, ['"sessionUpdate": "user_message"', '"state": "idle"']),
    ("PRM2/a-permission", TINY2, ["session/request_permission", '"state": "requires_action"', '"status": "completed"']),
]


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "agent", "wanted"), SHOWN)
def test_a_script_shows_the_conversation_of_its_scenario(
    tmp_path: Path, scenario: str, agent: Sequence[str], wanted: Sequence[str]
) -> None:
    """With ids that the agent has made, questions that are answered, and a restart."""
    (folder,) = written(tmp_path, scenario, agent=agent)
    shown = run(folder)

    assert [] == [each for each in wanted if each not in shown], shown
    assert "exit code: 0" in shown
    assert "the rule asks: R-ACP-02 (MUST): The agent MUST answer. Source: the schema" in shown


def test_a_run_writes_scripts_that_show_the_fault_of_a_faulty_agent_and_none_of_a_right_one(tmp_path: Path) -> None:
    options = ["--adapter", "env", "--only", "LIN2/a-version-before-all", "--out", str(tmp_path)]
    found = tmp_path / "found"
    assert 1 == main(["acp", *options, "--reproduce", str(found), "--", *TINY2, "takes-old-versions"])
    (folder,) = found.iterdir()
    faulty, right = run(folder), run(folder, *TINY2)

    assert "-32602" in faulty
    assert "-32022" in right
    assert "-32602" not in right.partition("the judge found")[0]
    assert "R-ACP-101 (MUST)" in (folder / "report.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_script_runs_with_this_projects_agent(tmp_path: Path) -> None:
    """Of the files that the adapter pi writes."""
    (folder,) = written(tmp_path, "PRM2/its-message-is-shown", name="pi", agent=PINNACE)
    shown = run(folder)

    assert '"sessionUpdate":"user_message"' in shown
    assert '"stopReason":"end_turn"' in shown
