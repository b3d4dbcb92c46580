"""`.ci/run` exits with 0 exactly if each of its parts did, and repeats at its end what has failed.

The real script runs in a folder of its own, where each part is a stand-in that says a line and exits as the test wants.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("scripts/setup", "scripts/peers", "scripts/check", ".ci/without-programs", ".ci/as-user")
"""What `.ci/run` starts; `scripts/check` twice: what reads the code (`lint …`), and the tests (`tests`)."""

_STAND_IN = """#!/bin/sh
echo "{name} $1"
case " {failing} " in *" {name}:${{1-}} "* | *" {name} "*) echo "FAILED {name} $1"; exit 3 ;; esac
"""


def _run(folder: Path, failing: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script where the parts in `failing` (`name` or `name:first argument`, with blanks between) fail."""
    for name in (*PARTS, ".venv/bin/python"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_STAND_IN.format(name=name, failing=failing))
        path.chmod(0o755)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    return subprocess.run(
        ["bash", folder / ".ci" / "run"],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_run_of_which_all_passes_exits_with_0(tmp_path: Path) -> None:
    """The status was 2 when no job was left to kill at the end, though all had passed."""
    run = _run(tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "what failed" not in run.stdout


@pytest.mark.parametrize(
    "failing", ["scripts/check:lint", "scripts/check:tests", ".ci/without-programs", ".ci/as-user"]
)
def test_a_run_of_which_one_part_fails_says_so(tmp_path: Path, failing: str) -> None:
    """The status is 1, and the part's own line of failure is repeated behind `what failed`."""
    run = _run(tmp_path, failing)
    assert run.returncode == 1, run.stdout + run.stderr
    assert f"FAILED {failing.partition(':')[0]}" in run.stdout.partition("== what failed")[2]


@pytest.mark.parametrize("failing", ["scripts/setup", "scripts/peers"])
def test_a_run_that_cannot_install_exits_with_an_error(tmp_path: Path, failing: str) -> None:
    """The tests are not run."""
    run = _run(tmp_path, failing)
    assert run.returncode != 0
    assert "scripts/check tests" not in run.stdout
