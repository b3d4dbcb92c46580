"""Faults in what reaches the disk are found by the simulation, each within so many scheduling steps."""

import shlex

import pytest
from tests.fuzz.simulation.fault_seeds import FOUND, searched, simulated

from pinnace_campaigns.mutants import AgentMutant
from pinnace_campaigns.mutants.durability import DURABILITY_MUTANTS, HOSTED_MUTANTS, MORE_STEPS, NOT_FOUND, TRIED_STEPS
from pinnace_campaigns.mutants.trial import CHECKOUT, Copy, patched


@pytest.mark.parametrize("mutant", [*DURABILITY_MUTANTS, *HOSTED_MUTANTS, *NOT_FOUND], ids=lambda mutant: mutant.name)
def test_a_fault_has_its_text_once(mutant: AgentMutant) -> None:
    """Who moves the text updates the catalogue."""
    assert patched(mutant) != (CHECKOUT / mutant.file).read_text(encoding="utf-8")


def test_there_are_enough_faults() -> None:
    """Ten in durability."""
    assert len(DURABILITY_MUTANTS) >= 10


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A private copy of the checkout."""
    return Copy(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("mutant", [*DURABILITY_MUTANTS, *HOSTED_MUTANTS], ids=lambda mutant: mutant.name)
def test_a_fault_is_found_by_the_simulation(copy: Copy, mutant: AgentMutant) -> None:
    """A seed breaks a rule."""
    options = ["--hosted"] if mutant in HOSTED_MUTANTS else []
    with copy.with_fault(mutant):
        done = searched(copy, mutant.name, options, MORE_STEPS.get(mutant.name, TRIED_STEPS))

    assert done.returncode == FOUND, done.stderr
    assert "replay: pinnace-simulate --seed" in done.stdout


def test_a_smaller_history_of_a_fault_breaks_the_rule_again(copy: Copy) -> None:
    """What is left of it when it has been made smaller."""
    mutant = DURABILITY_MUTANTS[0]
    with copy.with_fault(mutant):
        done = searched(copy, mutant.name, ["--shrink"], TRIED_STEPS)
        command = done.stdout.partition("replay: pinnace-simulate ")[2]
        again = simulated(copy, *shlex.split(command.partition("--trace")[0]))

    assert done.returncode == FOUND, done.stderr
    assert done.stdout == again.stdout
