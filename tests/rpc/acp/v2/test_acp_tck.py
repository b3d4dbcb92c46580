"""The test kit of the protocol, `acp-tck`, against this agent, in both versions.

No registry has it, so nothing installs it here: a checkout in `.tools/acp-tck`, with an environment in its `.venv`, is
used if it is there.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.rpc.conftest import COMMAND
from tests.source_tree import PYTHONPATH, REPOSITORY

KIT = REPOSITORY / ".tools" / "acp-tck" / ".venv" / "bin" / "acp-tck"
TIMEOUT_S = 900
COUNTS = "PINNACE_ACP_TCK_REPORTS"
"""The folder for the reports of the kit, if they are wanted."""


@pytest.mark.slow
@pytest.mark.skipif(not KIT.exists(), reason="no acp-tck in .tools/acp-tck: no registry has it")
@pytest.mark.parametrize("version", [1, 2])
def test_the_kit_of_the_protocol_finds_no_fault(tmp_path: Path, version: int) -> None:
    report = Path(os.environ.get(COUNTS, tmp_path)) / f"acp-tck-v{version}.json"
    agent = [*COMMAND, "--mode", "acp", "--provider", "offline"]
    options = ["--protocol-version", str(version), "--agent-cwd", str(tmp_path), "--report-json", str(report)]
    env = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": PYTHONPATH, "PI_OFFLINE": "1"}
    command = [str(KIT), *options, "--cancel-prompt", "Please count to 100000", "--", *agent]
    done = subprocess.run(command, env=env, capture_output=True, timeout=TIMEOUT_S, check=False)

    found = json.loads(report.read_text())
    failed = [each["id"] for each in found["requirements"] if each["status"] == "FAIL"]
    assert (done.returncode, found["verdict"]["conformant"]) == (0, True), failed
