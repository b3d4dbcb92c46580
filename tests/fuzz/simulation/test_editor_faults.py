"""Faults of an adapter are found by the histories of editors, each within so many scheduling steps."""

import pytest
from tests.fuzz.simulation.fault_seeds import FOUND, searched

from pinnace_campaigns.mutants import AgentMutant
from pinnace_campaigns.mutants.editor_faults import EDITOR_MUTANTS, EDITOR_STEPS, MORE_STEPS, NOT_FOUND
from pinnace_campaigns.mutants.trial import CHECKOUT, Copy, patched


@pytest.mark.parametrize("mutant", [*EDITOR_MUTANTS, *NOT_FOUND], ids=lambda mutant: mutant.name)
def test_a_fault_of_an_adapter_has_its_text_once(mutant: AgentMutant) -> None:
    """Who moves the text updates the catalogue."""
    assert patched(mutant) != (CHECKOUT / mutant.file).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A private copy of the checkout."""
    return Copy(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("mutant", EDITOR_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_of_an_adapter_is_found(copy: Copy, mutant: AgentMutant) -> None:
    """A seed breaks a rule."""
    with copy.with_fault(mutant):
        done = searched(copy, mutant.name, ["--editors"], MORE_STEPS.get(mutant.name, EDITOR_STEPS))

    assert done.returncode == FOUND, done.stderr
    assert "replay: pinnace-simulate --seed" in done.stdout
