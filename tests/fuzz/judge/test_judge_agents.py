"""The script that judges several agents: beside each other, each with its own files, and never twice."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "judge_agents.py"


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location("judge_agents", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


JUDGING = loaded()
TINY = (sys.executable, str(Path(__file__).parent / "tiny_agent.py"))
OPTIONS = ["--only", "ERR/no-object-null", "--jobs", "1", "--patience", "0.3"]


def test_agents_are_judged_beside_each_other_and_what_is_there_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = [
        JUDGING.Agent("good", TINY, "none"),
        JUDGING.Agent("bad 1", (*TINY, "dies-of-null"), "none"),
        JUDGING.Agent("absent", (str(tmp_path / "nothing"),)),
    ]
    folders = JUDGING.judge_all(agents, tmp_path, OPTIONS, at_once=2)

    assert {"good": tmp_path / "good", "bad 1": tmp_path / "bad-1"} == folders
    assert "absent: not judged" in capsys.readouterr().err

    # Whoever has a report with these options is not started again, and would fail here.
    gone = [agent._replace(command=(str(tmp_path / "nothing"),)) for agent in agents]
    assert folders == JUDGING.judge_all(gone, tmp_path, OPTIONS, at_once=2)
    assert {} == JUDGING.judge_all(gone, tmp_path, [*OPTIONS, "--seed", "2"], at_once=2)
    reports = {name: JUDGING.shipped((folder / "report.json").read_text(), folder) for name, folder in folders.items()}
    text = "\n".join(JUDGING.table(reports))
    assert text.index("## bad 1") < text.index("## good")
    assert "| Agent | Generation | Minutes | CRASH | HANG | FAIL |" in text
    assert str(tmp_path) not in text

    # The committed page links to none that is built; the built one has every agent and every case.
    summary, page = tmp_path / "judged.md", tmp_path / "build" / "judged.html"
    JUDGING.write(reports, summary, page)
    assert f"{text}\n" == summary.read_text()
    assert "](judged.html)" not in text
    built = page.read_text()
    assert all(name in built for name in ("good", "bad 1", "ERR/no-object-null"))

    # One that was interrupted has no report.
    (folders["good"] / "report.json").unlink()
    assert ["bad 1"] == list(JUDGING.judge_all(gone, tmp_path, OPTIONS, at_once=1))
