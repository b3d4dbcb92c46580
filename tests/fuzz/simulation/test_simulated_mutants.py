"""The faults of the agent and of the host are found by the simulation, as the table of them says."""

import os
import subprocess
import sys

import pytest

from pinnace_campaigns.mutants import AGENT_MUTANTS, WIRE_MUTANTS
from pinnace_campaigns.mutants.host_faults import HOST_MUTANTS
from pinnace_campaigns.mutants.simulated import (
    AGENT_STEPS,
    CAN_NOT_SHOW,
    FOUND,
    FOUND_OF_HOST,
    HOST_STEPS,
    NOT_FOUND,
)
from pinnace_campaigns.mutants.trial import Copy

ROOTS = ("spec", "statechart", "agent", "rpc", "fuzz")
RUN = "from pinnace_fuzz.simulation.cli import main; main()"
ALL = {mutant.name: mutant for mutant in (*AGENT_MUTANTS, *WIRE_MUTANTS, *HOST_MUTANTS)}


def test_each_fault_has_one_cell_of_the_table() -> None:
    """A fault that is added is tried."""
    cells = [*FOUND, *FOUND_OF_HOST, *CAN_NOT_SHOW, *NOT_FOUND]

    assert sorted(ALL) == sorted(cells)
    assert {mutant.name for mutant in HOST_MUTANTS} >= FOUND_OF_HOST


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A private copy of the checkout."""
    return Copy(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("name", sorted(FOUND | FOUND_OF_HOST))
def test_a_fault_of_the_table_is_found(copy: Copy, name: str) -> None:
    """A seed breaks a rule."""
    options = ["--hosted", "--steps", str(HOST_STEPS)] if name in FOUND_OF_HOST else ["--steps", str(AGENT_STEPS)]
    path = os.pathsep.join(str(copy.root / each) for each in ROOTS)
    with copy.with_fault(ALL[name]):
        done = subprocess.run(
            [sys.executable, "-P", "-c", RUN, *options],
            cwd=copy.root,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
            capture_output=True,
            text=True,
        )

    assert done.returncode == 1, done.stderr
