"""The faults of the agent and of the host are found by the simulation, as the table of them says."""

import pytest
from tests.fuzz.simulation.fault_seeds import FOUND as FOUND_ONE
from tests.fuzz.simulation.fault_seeds import searched

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
    options, steps = (["--hosted"], HOST_STEPS) if name in FOUND_OF_HOST else ([], AGENT_STEPS)
    with copy.with_fault(ALL[name]):
        done = searched(copy, name, options, steps)

    assert done.returncode == FOUND_ONE, done.stderr
