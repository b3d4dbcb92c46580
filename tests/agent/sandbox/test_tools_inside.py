"""A part of the tests of the tools, run once more with the real sandbox under the tools (`around_tools`).

The rest runs so by a command outside of the suite: `docs/sandbox.md`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.sandbox.around_tools import VARIABLE
from tests.agent.sandbox.conftest import Confined

ROOT = Path(__file__).parents[3]
SAMPLE = (
    "tests/agent/tools/test_tool_write.py",
    "tests/agent/tools/test_tool_bash.py::test_a_success_is_what_was_written",
    "tests/agent/tools/test_tool_bash.py::test_a_failure_ends_with_the_code",
    "tests/agent/tools/test_tool_grep.py::test_a_failure_is_what_was_said_or_the_code",
)


@pytest.mark.slow
def test_a_sample_of_the_tests_of_tools_holds_inside(confined: Confined, tmp_path: Path) -> None:
    """`confined` is where this works at all."""
    del confined
    env = {**os.environ, VARIABLE: "workspace-write"}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", str(tmp_path / "tests")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *SAMPLE],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "1 xfailed" in done.stdout, "the sandbox is there: the exception of the sample fails as it has to"
