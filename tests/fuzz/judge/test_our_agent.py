"""Our own agent: it passes every scenario that is smoke, some in a sandbox, and the judge says what it is."""

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.forked_agents import COMMAND

from pinnace_fuzz.judge.adapter import PiAdapter
from pinnace_fuzz.judge.results import BAD
from pinnace_fuzz.judge.scenarios.files import load
from pinnace_fuzz.judge.session import SMOKE_S, JudgeOptions, chosen, conduct

pytestmark = pytest.mark.slow
# Where the judge has to reach confined commands, and files beside them: gates of a tool and of the client's shell,
# processes, damage to session files, a file that the client alone has.
CONFINED = (
    *("ABT/a-tool", "EOF/in-bash", "FIL/reads-what-the-client-has", "PRM/a-skill-that-can-not-be-read"),
    *("SES/can-not-be-saved", "SES/in-use-by-another"),
)


def bubblewrap_works() -> bool:
    program = shutil.which("bwrap")
    words = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--", "true"]
    return program is not None and subprocess.run([program, *words], capture_output=True, check=False).returncode == 0


def test_smoke(tmp_path: Path) -> None:
    options = JudgeOptions(command=COMMAND, adapter=PiAdapter(), time_s=SMOKE_S, seed=1, out=tmp_path)
    smoke = tuple(each.id for each in chosen(load(), options))
    # The scenarios of so short a run, all of them, however busy the machine is.
    run = conduct(dataclasses.replace(options, only=smoke, campaigns=(), time_s=3600))

    assert {} == {case.scenario.id: case.findings for case in run.cases if case.verdict in BAD}
    assert (0, "pi", True) == (run.exit_code, run.agent["generation"], run.agent["is_ours"])
    assert not [case.why for case in run.cases if case.verdict == "NOT-RUN"]


@pytest.mark.skipif(not bubblewrap_works(), reason="needs bubblewrap (scripts/peers), and user namespaces")
def test_a_sample_of_the_scenarios_passes_in_a_sandbox(tmp_path: Path) -> None:
    command = (*COMMAND, "--sandbox", "workspace-write")
    options = JudgeOptions(
        command=command, adapter=PiAdapter(), only=CONFINED, campaigns=(), jobs=2, seed=1, patience=3, out=tmp_path
    )
    run = conduct(options)

    assert {} == {case.scenario.id: case.findings for case in run.cases if case.verdict in BAD}
    assert ["PASS"] * len(CONFINED) == [case.verdict for case in run.cases]
