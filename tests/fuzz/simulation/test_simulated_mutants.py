"""The faults of the agent, of the host and of its model are found by the simulation, as the table of them says."""

import pytest
from tests.fuzz.simulation.fault_seeds import FOUND as FOUND_ONE
from tests.fuzz.simulation.fault_seeds import searched

from pinnace_campaigns.model_check.host import MUTANTS as MODEL_FAULTS
from pinnace_campaigns.mutants import AGENT_MUTANTS, WIRE_MUTANTS, AgentMutant
from pinnace_campaigns.mutants.durability import DURABILITY_MUTANTS, HOSTED_MUTANTS, NOT_FOUND
from pinnace_campaigns.mutants.host_faults import HOST_MUTANTS
from pinnace_campaigns.mutants.model_faults import NOT_IN_CODE, OF_AGENT, OF_HOST, SAME
from pinnace_campaigns.mutants.simulated import (
    AGENT_STEPS,
    CAN_NOT_SHOW,
    FOUND,
    FOUND_OF_HOST,
    FOUND_OF_MODEL,
    FOUND_OF_MODEL_HOST,
    HOST_STEPS,
    MORE_STEPS,
)
from pinnace_campaigns.mutants.trial import CHECKOUT, Copy, patched

ALL = {mutant.name: mutant for mutant in (*AGENT_MUTANTS, *WIRE_MUTANTS, *HOST_MUTANTS, *OF_AGENT, *OF_HOST)}


def test_each_fault_has_one_cell_of_the_table() -> None:
    """A fault that is added is tried."""
    cells = [*FOUND, *FOUND_OF_HOST, *FOUND_OF_MODEL, *FOUND_OF_MODEL_HOST, *CAN_NOT_SHOW]

    assert sorted(ALL) == sorted(cells)
    assert {mutant.name for mutant in HOST_MUTANTS} >= FOUND_OF_HOST


def test_each_fault_of_the_model_has_a_place() -> None:
    """A change of the code, of this catalogue or of another one, or the reason why there is none."""
    others = {each.name for each in (*DURABILITY_MUTANTS, *HOSTED_MUTANTS, *NOT_FOUND)}

    assert sorted(each.name for each in MODEL_FAULTS) == sorted(
        [*(mutant.name for mutant in (*OF_AGENT, *OF_HOST)), *SAME, *NOT_IN_CODE]
    )
    assert set(SAME.values()) <= others | ALL.keys()


@pytest.mark.parametrize("mutant", [*OF_AGENT, *OF_HOST], ids=lambda mutant: mutant.name)
def test_a_fault_of_the_model_has_its_text_once(mutant: AgentMutant) -> None:
    """Who moves the text updates the catalogue."""
    assert patched(mutant) != (CHECKOUT / mutant.file).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A private copy of the checkout."""
    return Copy(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("name", sorted(FOUND | FOUND_OF_HOST | FOUND_OF_MODEL | FOUND_OF_MODEL_HOST))
def test_a_fault_of_the_table_is_found(copy: Copy, name: str) -> None:
    """A seed breaks a rule."""
    is_hosted = name in FOUND_OF_HOST | FOUND_OF_MODEL_HOST
    options, steps = (["--hosted"], HOST_STEPS) if is_hosted else ([], AGENT_STEPS)
    with copy.with_fault(ALL[name]):
        done = searched(copy, name, options, MORE_STEPS.get(name, steps))

    assert done.returncode == FOUND_ONE, done.stderr
