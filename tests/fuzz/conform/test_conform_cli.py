"""The command line: what it judges, and the exit code that tells it. The agent is a stranger in one file."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pinnace_fuzz.conform.cli import main

TINY = [sys.executable, str(Path(__file__).parent / "tiny_agent.py")]


def judge(out: Path, *words: str, faults: str = "", only: str = "ERR/no-object-null") -> int:
    options = ["--adapter", "none", "--only", only, "--out", str(out), "--patience", "0.3", *words]
    return main([*options, "--", *TINY, *faults.split()])


def test_an_agent_without_fault_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path) == 0
    assert "1 PASS" in capsys.readouterr().out


def test_a_violation_exits_with_1_and_shows_what_proves_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, faults="dies-of-null") == 1
    out = capsys.readouterr().out
    assert "CRASH ERR/no-object-null" in out
    assert "1 > null" in out
    assert "TypeError: null has no fields" in out


def test_what_the_baseline_expects_exits_with_0_and_what_it_expects_in_vain_with_2(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"expected_failures": ["ERR/no-object-null"]}))

    assert judge(tmp_path, "--baseline", str(baseline), faults="dies-of-null") == 0
    assert judge(tmp_path, "--baseline", str(baseline)) == 2


@pytest.mark.parametrize(
    "words", [["--adapter", "nothing"], ["--time", "soon"], ["--report", "pdf"], ["--profile", "9"]]
)
def test_a_command_line_that_makes_no_sense_exits_with_3(tmp_path: Path, words: list[str]) -> None:
    assert judge(tmp_path, *words) == 3


def test_an_agent_that_does_not_start_exits_with_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, faults="mute") == 4
    assert "ended with 7" in capsys.readouterr().err
    assert main(["--", str(tmp_path / "nothing")]) == 4


def test_a_fault_of_the_kit_exits_with_5_and_accuses_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, "--adapter", "env", faults="floods") == 5
    assert "nothing is said about the agent" in capsys.readouterr().err


def test_a_stored_failure_is_played_again_until_it_is_fixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge(tmp_path, faults="dies-of-null")
    (stored,) = (tmp_path / "failures").rglob("*.jsonl")
    replay = ["replay", "--adapter", "none", "--out", str(tmp_path), "--times", "1", "--"]

    assert main([*replay, *TINY, "dies-of-null"]) == 1
    assert f"STILL {stored}" in capsys.readouterr().out
    assert main([*replay, *TINY]) == 0
    assert not stored.exists()


def test_a_stored_failure_is_a_trace_that_can_be_observed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge(tmp_path, faults="dies-of-null")
    (stored,) = (tmp_path / "failures").rglob("*.jsonl")
    capsys.readouterr()

    assert main(["observe", str(stored)]) == 1
    assert "I-CRASH" in capsys.readouterr().out


def test_reports_are_written(tmp_path: Path) -> None:
    judge(tmp_path, "--report", "json,junit,md", faults="dies-of-null")
    report = json.loads((tmp_path / "report.json").read_text())
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot().find("testsuite")

    assert (1, "CRASH") == (report["summary"]["exit_code"], report["cases"][0]["verdict"])
    assert "null" in [step["line"] for step in report["cases"][0]["processes"][0]["steps"]]
    assert suite is not None
    assert "1" == suite.get("failures")
    assert "## CRASH" in (tmp_path / "report.md").read_text()


def test_a_dry_run_says_what_would_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, "--dryrun", only="PRM/") == 0
    assert "PRM/one-prompt  NOT-RUN: needs llm" in capsys.readouterr().out


def test_list_shows_the_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--only", "FRM/crlf"]) == 0
    assert "FRM/crlf" in capsys.readouterr().out
