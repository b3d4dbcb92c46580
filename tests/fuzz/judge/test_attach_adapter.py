"""The adapter `attach`: the judge plays its scenarios on agents of a host of its own, which ends with the run."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.judge.adapter import AdapterError, AttachAdapter
from pinnace_fuzz.judge.results import BAD
from pinnace_fuzz.judge.session import JudgeOptions, conduct
from pinnace_fuzz.process_tree import kill_each, processes_with

pytestmark = pytest.mark.slow
# Homes have no PYTHONPATH, and the host starts further interpreters.
START = f"import os, sys; os.environ['PYTHONPATH'] = {PYTHONPATH!r}; sys.path[:0] = {PYTHONPATH!r}.split(os.pathsep)"
RUN = "from pinnace_rpc.cli.main import main; sys.exit(main())"
ATTACH = (sys.executable, "-c", f"{START}; {RUN}", "attach")
# What the process that was started does not do by itself: the agent is another one, and is killed, counted, resumed.
SAMPLE = ("BSH/the-whole-group", "SIG/term-while-idle", "SES/killed-and-opened-again")


def test_a_sample_of_the_scenarios_passes_over_attach(tmp_path: Path) -> None:
    options = JudgeOptions(
        command=ATTACH, adapter=AttachAdapter(), only=SAMPLE, campaigns=(), jobs=2, seed=1, patience=3, out=tmp_path
    )
    run = conduct(options)

    assert {} == {case.scenario.id: case.findings for case in run.cases if case.verdict in BAD}
    assert [case.verdict for case in run.cases] == ["PASS"] * len(SAMPLE)
    assert (0, "pi", True) == (run.exit_code, run.agent["generation"], run.agent["is_ours"])


def test_the_adapter_refuses_a_command_that_does_not_attach(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="pinnace attach"), AttachAdapter().begun(("pinnace",), tmp_path):
        pass


def test_a_judge_that_is_ended_by_a_signal_ends_its_host(tmp_path: Path) -> None:
    """Its processes are found by their environment, which names their folders: too long ones for a socket."""
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    words = [
        "-P",
        "-m",
        "pinnace_fuzz.judge.cli",
        "--adapter",
        "attach",
        "--campaign",
        "none",
        "--only",
        "QUE/",
        "--jobs",
        "1",
    ]
    with (tmp_path / "stderr").open("wb") as stderr:
        judge = subprocess.Popen(
            [sys.executable, *words, "--out", str(tmp_path / "out"), "--", *ATTACH],
            env={**os.environ, "PYTHONPATH": PYTHONPATH, "TMPDIR": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    while judge.poll() is None and not any(lock.stat().st_size for lock in folder.rglob("host.lock")):
        time.sleep(0.01)
    judge.terminate()

    code = judge.wait(60)
    left = processes_with(os.fsencode(tmp_path))
    kill_each(left)
    assert (130, []) == (code, left), (tmp_path / "stderr").read_text()
