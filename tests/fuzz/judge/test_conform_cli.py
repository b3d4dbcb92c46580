"""The command line: what it judges, and the exit code that tells it. The agent is a stranger in one file."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pinnace_fuzz.harness.agent_process import AgentProcess
from pinnace_fuzz.harness.model_server.fake_llm import HarnessFault
from pinnace_fuzz.judge.cli import main, program
from pinnace_fuzz.judge.results import NOTHING_JUDGED_EXIT

TINY = [sys.executable, str(Path(__file__).parent / "tiny_agent.py")]


def judge(out: Path, *words: str, faults: str | tuple[str, ...] = "", only: str = "ERR/no-object-null") -> int:
    options = ["--adapter", "none", "--only", only, "--out", str(out), "--patience", "0.3", *words]
    return main([*options, "--", *TINY, *(faults.split() if isinstance(faults, str) else faults)])


def test_an_agent_without_fault_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path) == 0
    assert "1 PASS" in capsys.readouterr().out


def test_a_violation_exits_with_1_and_shows_what_proves_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, faults="dies-of-null") == 1
    out = capsys.readouterr().out
    assert "CRASH ERR/no-object-null" in out
    assert "1 > null" in out
    assert "TypeError: null has no fields" in out
    assert "NOT CONFORMANT: 3 findings:" in out.splitlines()[-12:]


def test_what_the_baseline_expects_exits_with_0_and_what_it_expects_in_vain_with_2(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps({"expected_failures": ["ERR/no-object-null"]}))

    assert judge(tmp_path, "--baseline", str(baseline), faults="dies-of-null") == 0
    assert judge(tmp_path, "--baseline", str(baseline)) == 2


def test_with_a_report_of_a_former_state_only_new_findings_exit_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def known(name: str) -> tuple[str, str]:
        return "--known", str(tmp_path / name / "report.json")

    assert judge(tmp_path / "good", "--report", "json") == 0
    assert judge(tmp_path / "bad", "--report", "json", *known("good"), faults="dies-of-null") == 1
    assert "3 new" in capsys.readouterr().out
    assert judge(tmp_path, *known("bad"), faults="dies-of-null") == 0
    assert "0 new, 3 still there" in capsys.readouterr().out


def test_a_file_that_is_no_report_of_a_former_state_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "known.json").write_text("{}")

    assert judge(tmp_path, "--known", str(tmp_path / "known.json")) == 3
    assert judge(tmp_path, "--known", str(tmp_path / "missing.json")) == 3


@pytest.mark.parametrize(
    "words", [["--adapter", "nothing"], ["--time", "soon"], ["--report", "pdf"], ["--profile", "9"]]
)
def test_a_command_line_that_makes_no_sense_exits_with_3(tmp_path: Path, words: list[str]) -> None:
    assert judge(tmp_path, *words) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--campaign", "framng"], "did you mean framing?"),
        (["--campaign", "x"], "there are interleavings"),
        (["--campaign", "none", "--campaign", "framing"], "goes with no other campaign"),
        (["--only", "NOSUCH/"], "no scenario begins with 'NOSUCH/'"),
        (["--only", "FRM/crfl"], "did you mean FRM/crlf?"),
        (["--only", "none"], "goes with no prefix"),
        (["--skip", "NOSUCH/"], "no scenario begins with 'NOSUCH/'"),
        (["--patience", "0"], "--patience"),
    ],
)
def test_a_choice_of_nothing_known_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert judge(tmp_path, *words) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--only", "PRM/one-prompt"], ["--only", "none"], ["--time", "0s"]])
def test_a_run_in_which_nothing_was_judged_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """A scenario that needs a model where there is none, no scenario, no time."""
    options = ["--adapter", "none", "--out", str(tmp_path), "--patience", "0.3", "--campaign", "none", *words]
    assert main([*options, "--", *TINY]) == 3
    assert "nothing was judged" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--only", "ERR/no-object-null"], ["--only", "none", "--campaign", "framing"]])
def test_an_agent_that_refuses_every_command_is_not_conformant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    options = ["--adapter", "none", "--out", str(tmp_path), "--time", "2s", *words]

    assert main([*options, "--", *TINY, "refuses-all"]) in (1, NOTHING_JUDGED_EXIT)
    assert "1 PASS" not in capsys.readouterr().out


def test_no_process_of_a_judged_agent_outlives_the_judge_and_each_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The agent cuts it off from everything by which a process is recognised: parent, session and environment."""
    with pytest.raises(FileNotFoundError):  # an agent that could not be started is no other one that it might be of
        AgentProcess(["/no/such/agent"], lambda _data, _at: None, lambda _data, _at: None)
    numbers = tmp_path / "numbers"
    assert judge(tmp_path / "out", faults=(f"daemon={numbers}",)) in (0, 1)
    daemons = numbers.read_text().split()

    assert daemons
    assert [] == [each for each in daemons if Path(f"/proc/{each}").exists()]
    assert "leftovers" in capsys.readouterr().out


def test_an_interrupt_is_one_also_where_what_it_cuts_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_words: object, **_options: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise HarnessFault("a model server was cut off")

    monkeypatch.setattr(program, "main", interrupted)
    assert main(["judge"]) == 130


def test_a_named_campaign_is_run_however_short_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--adapter", "none", "--out", str(tmp_path), "--only", "none", "--campaign", "framing", "--time", "2s"]
    assert main([*options, "--", *TINY]) in (0, 1)
    assert "framing: " in capsys.readouterr().err


def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    assert main(["--adapter", "none", "--out", str(tmp_path), "--", *TINY]) == 3
    assert "pip install hypothesis" in capsys.readouterr().err


def test_replay_and_observe_of_nothing_exit_with_3(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()

    assert main(["replay", "--adapter", "none", "--out", str(tmp_path), "--", *TINY]) == 3
    assert main(["observe", str(empty)]) == 3


def test_a_stored_failure_that_can_not_be_played_is_not_fixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge(tmp_path, faults="dies-of-null")
    (stored,) = (tmp_path / "failures").rglob("*.jsonl")
    head, *rest = stored.read_text().splitlines()
    case = json.loads(head)
    case["case"]["needs"] = ["llm"]
    stored.write_text("\n".join([json.dumps(case), *rest]) + "\n")

    replay = ["replay", "--adapter", "none", "--out", str(tmp_path), "--times", "1", "--", *TINY]
    assert main(replay) == 3
    assert "UNDECIDED" in capsys.readouterr().out
    assert stored.exists()


def test_an_agent_that_does_not_start_exits_with_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, faults="mute") == 4
    assert "ended with 7" in capsys.readouterr().err
    assert main(["--", str(tmp_path / "nothing")]) == 4


def test_a_fault_of_the_tester_exits_with_5_without_a_verdict_on_the_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(tmp_path, "--adapter", "env", faults="floods") == 5
    assert "no verdict on the agent" in capsys.readouterr().err


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
    assert main(["list", "--only", "NOSUCH/"]) == 3
