"""The examples for Inspect AI and Harbor at work: real evaluations of both, with a mock model, on this machine.

Both are in environments of their own, which `scripts/peers evaluations` makes; CI does not.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from tests.ports import unused_port
from tests.source_tree import PYTHONPATH, REPOSITORY

TOOLS = REPOSITORY / ".tools"
INSPECT = TOOLS / "inspect-ai" / "bin" / "python"
HARBOR = TOOLS / "harbor-agents" / "bin" / "harbor"
EXAMPLES = REPOSITORY / "examples" / "evaluations"
OWN = Path(__file__).parent / "evaluations"
TIMEOUT_S = 240.0
pytestmark = [pytest.mark.peer, pytest.mark.slow]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment whose `pinnace` is that of the source tree; its model is offline unless one is named."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "pinnace"
    command = f"PYTHONPATH={quote(PYTHONPATH)} exec {quote(sys.executable)} -P -m pinnace_rpc"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*|*--export*|*--provider*) {command} "$@";; esac\n'
        f'{command} --provider offline "$@"\n'
    )
    program.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(EXAMPLES), str(OWN)]),
        "HOME": str(tmp_path),
        "PINNACE_OFFLINE_DELAY_MS": "0",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it waits for a host of its own
    }


@pytest.mark.skipif(not INSPECT.exists(), reason="Inspect AI is not installed (scripts/peers evaluations)")
def test_an_evaluation_of_inspect_scores_a_task_that_needs_a_tool(env: dict[str, str], tmp_path: Path) -> None:
    command = [str(INSPECT), str(OWN / "mocked_evaluation.py"), str(unused_port()), str(tmp_path / "logs")]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )

    assert "success 1.0 system user assistant tool assistant" == done.stdout.strip(), done.stderr


TASK = {
    "task.toml": 'version = "1.0"\n[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 60.0\n[environment]\n',
    "instruction.md": "run `echo $((6 * 7)) > answer.txt`",
    "environment/Dockerfile": "FROM scratch\n",
    "tests/test.sh": '#!/bin/sh\n[ "$(cat answer.txt)" = 42 ] && echo 1 > /logs/verifier/reward.txt\n',
}


@pytest.mark.skipif(not HARBOR.exists(), reason="Harbor is not installed (scripts/peers evaluations)")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_trial_of_harbor_rewards_a_task_that_needs_a_tool(env: dict[str, str], tmp_path: Path) -> None:
    for name, text in TASK.items():
        (tmp_path / "task" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "task" / name).write_text(text)
    words = ["--agent", "harbor_pinnace:Pinnace", "--env", "local_environment:Local", "--jobs-dir", "jobs"]
    done = subprocess.run(
        [str(HARBOR), "run", "--path", "task", *words],
        cwd=tmp_path,
        env={**env, "LOCAL_ROOT": str(tmp_path / "root")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    [file] = (tmp_path / "jobs").glob("*/*/result.json")
    trial: dict[str, Any] = json.loads(file.read_text())
    assert {"reward": 1.0} == trial["verifier_result"]["rewards"], trial["exception_info"]
    assert {"reason": "completed", "turns": 2} == trial["agent_result"]["metadata"]
    assert trial["agent_result"]["n_output_tokens"] > 0
    trajectory = json.loads((file.parent / "agent" / "trajectory.json").read_text())
    assert ["user", "agent", "agent"] == [step["source"] for step in trajectory["steps"] if step["source"] != "system"]
