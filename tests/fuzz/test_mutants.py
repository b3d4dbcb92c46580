"""The faults of the real program are up to date, and are found by the checks that they name."""

import os

import pytest

from pinnace_fuzz.mutants import AGENT_MUTANTS, AgentMutant
from pinnace_fuzz.mutants.trial import CHECKOUT, Copy, patched
from pinnace_spec.publish.source import load

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
# The quick ones; the others by command, or here in long runs: `python -m pinnace_fuzz.mutants`.
TRIED = ("nothing-is-held", "abort-before-settled", "results-as-they-come", "separators-as-they-are")


@pytest.mark.parametrize("mutant", AGENT_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_has_its_text_once_and_names_what_exists(mutant: AgentMutant) -> None:
    """Who moves the text updates the catalogue."""
    file, _, test = mutant.check.partition("::")

    assert patched(mutant) != (CHECKOUT / mutant.file).read_text(encoding="utf-8")
    assert f"def {test}(" in (CHECKOUT / file).read_text(encoding="utf-8")
    assert [] == [rule for rule in mutant.rules if rule not in load().rules]


def test_there_are_enough_faults() -> None:
    assert len(AGENT_MUTANTS) >= 12
    assert len({mutant.name for mutant in AGENT_MUTANTS}) == len(AGENT_MUTANTS)
    assert sum(mutant.is_on_wire for mutant in AGENT_MUTANTS) >= 12


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A private copy of the checkout."""
    return Copy(tmp_path_factory.mktemp("mutants"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", [each for each in AGENT_MUTANTS if IS_LONG or each.name in TRIED], ids=lambda mutant: mutant.name
)
def test_a_fault_is_found_by_its_check(copy: Copy, mutant: AgentMutant) -> None:
    trial = copy.attempt(mutant)

    assert trial.is_found, trial.printed[-2_000:]


def test_a_check_passes_without_the_fault(copy: Copy) -> None:
    """Or it would find anything."""
    assert copy.passes(AGENT_MUTANTS[0].check)
