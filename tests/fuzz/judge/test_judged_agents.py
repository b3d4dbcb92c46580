"""The command that judges several agents: beside each other, each with its own files, and never twice."""

import json
import sys
from pathlib import Path

import pytest

from pinnace_campaigns.judged.catalogue import AGENTS, REPOSITORY, Agent
from pinnace_campaigns.judged.page import shipped, table, write
from pinnace_campaigns.judged.runs import judge_all
from pinnace_fuzz.judge.adapter_names import adapter

TINY = (sys.executable, str(Path(__file__).parent / "tiny_agent.py"))
TINY_EDITOR = (sys.executable, str(Path(__file__).parents[1] / "acp" / "tiny_acp_agent.py"))
OPTIONS = ["--only", "ERR/no-object-null", "--jobs", "1", "--patience", "0.3", "--seed", "1"]


def test_agents_are_judged_beside_each_other_and_what_is_there_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = [
        Agent("good", TINY, "none"),
        Agent("bad 1", (*TINY, "dies-of-null"), "none"),
        Agent("absent", (str(tmp_path / "nothing"),)),
        Agent("silent", ("false",), "none"),
    ]
    outcomes = judge_all(agents, tmp_path, OPTIONS, at_once=2)

    assert [tmp_path / "good", tmp_path / "bad-1", None, None] == [each.folder for each in outcomes]
    absent = {each.agent.name: each.why for each in outcomes if each.folder is None}
    assert absent["absent"] == f"not installed: {tmp_path / 'nothing'} is missing"
    assert absent["silent"].startswith("pinnace-conform ended with 4: the agent does not start")
    assert "absent: not judged" in capsys.readouterr().err

    # An agent that has a report with these options is not started again, and would fail here.
    gone = [agent._replace(command=(str(tmp_path / "nothing"),)) for agent in agents]
    assert [each.folder for each in outcomes] == [each.folder for each in judge_all(gone, tmp_path, OPTIONS, at_once=2)]
    other_seed = [*OPTIONS[:-1], "2"]
    assert {None} == {each.folder for each in judge_all(gone, tmp_path, other_seed, at_once=2)}
    folders = {each.agent.name: each.folder for each in outcomes if each.folder is not None}
    reports = {name: shipped((folder / "report.json").read_text(), folder) for name, folder in folders.items()}
    text = "\n".join(table(reports, absent))
    assert text.index("## bad 1") < text.index("## good")
    assert "| Agent | Generation | Minutes | CRASH | HANG | FAIL |" in text
    assert f"| silent | {absent['silent']} |" in text
    assert str(tmp_path) not in "\n".join(table(reports, {}))

    # The committed page links to none that is built; the built one has every agent and every case.
    summary, page = tmp_path / "judged.md", tmp_path / "build" / "judged.html"
    write(reports, absent, summary, page)
    assert f"{text}\n" == summary.read_text()
    assert "](judged.html)" not in text
    built = page.read_text()
    assert all(name in built for name in ("good", "bad 1", "ERR/no-object-null"))

    # One that was interrupted has no report.
    (folders["good"] / "report.json").unlink()
    assert [None, tmp_path / "bad-1"] == [each.folder for each in judge_all(gone[:2], tmp_path, OPTIONS, at_once=1)]


def test_agents_of_editors_have_the_same_time_and_no_seed(tmp_path: Path) -> None:
    options = ["--only", "LIN/", "--time", "30s", "--jobs", "2", "--seed", "1"]
    (outcome,) = judge_all([Agent("tiny acp", TINY_EDITOR, "none", "acp")], tmp_path, options, at_once=1)

    assert outcome.folder is not None, outcome.why
    report = shipped((outcome.folder / "report.json").read_text(), outcome.folder)
    assert (30, "ACP v1") == (report["kit"]["budget_s"], report["agent"]["generation"])
    assert {"PASS"} == {case["verdict"] for case in report["cases"] if case["verdict"] != "NOT-RUN"}
    section = "\n".join(table({"tiny acp": report}, {})).partition("## tiny acp")[2]
    assert "Seed" not in section


def test_a_page_shows_no_folder_of_this_machine(tmp_path: Path) -> None:
    places = [
        str(REPOSITORY / "docs"),
        str((REPOSITORY / ".tools").resolve() / "pp"),
        "/elsewhere/.tools/pi",
        sys.prefix,
    ]
    line = json.dumps({"places": [*places, "/tmp/conform-x1/case-3-0/work/a.txt"]})  # a text alone
    case = {
        "id": "A/b",
        "verdict": "FAIL",
        "findings": [{"source": "s", "rules": [], "steps": [1], "level": "violation", "text": line}],
        "processes": [{"steps": [{"n": 1, "line": line}], "end": {}}],
    }
    shown = json.dumps(shipped(json.dumps({"cases": [case]}), tmp_path))

    assert not [each for each in (*places, "conform-x1") if each in shown]


def test_each_agent_of_the_catalogue_has_an_adapter_and_is_installed_by_the_script() -> None:
    installed = (REPOSITORY / "scripts" / "peers").read_text()
    for agent in AGENTS:
        assert adapter(agent.adapter).name
        for word in agent.command:
            if word.startswith(".tools/"):
                assert word.split("/")[1] in installed, word


def test_no_two_agents_share_a_folder_of_reports() -> None:
    names = [agent.name.replace(" ", "-") for agent in AGENTS]
    assert len(names) == len({*names})
