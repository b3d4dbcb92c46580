"""Each fault of the model is found by its property, and the way to it does the real program no harm."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.parts import part

from pinnace_campaigns.model_check.__main__ import search_mutant
from pinnace_campaigns.model_check.campaign import own_agent
from pinnace_campaigns.model_check.paths import read_path
from pinnace_campaigns.model_check.replay import Replay
from pinnace_campaigns.model_check.spin import Verdict
from pinnace_spec.generate.promela.mutants import MUTANTS, Mutant, mutated
from pinnace_spec.generate.promela.properties import PROPERTIES
from pinnace_spec.generate.source import load

# A third of them: each takes as long as its model takes to compile.
SEARCHED = [MUTANTS[place] for place in part(len(MUTANTS), 3)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Verdict]:
    """What the search for a fault has found; each is searched for once."""

    @cache
    def search(name: str) -> Verdict:
        return search_mutant(next(each for each in MUTANTS if each.name == name), tmp_path_factory.mktemp(name))

    return search


def test_there_are_enough_faults_and_each_names_a_property() -> None:
    names = {each.name for each in PROPERTIES} | {"deadlock"}

    assert len(MUTANTS) >= 12
    assert [] == [mutant.name for mutant in MUTANTS if mutant.property not in names]
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_fault_still_changes_the_model(mutant: Mutant) -> None:
    """A fault whose row or text is gone is an error."""
    assert mutated(mutant, load().rows)


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("mutant", SEARCHED, ids=lambda mutant: mutant.name)
def test_a_fault_is_found_by_its_property(spin: list[str], found: Callable[[str], Verdict], mutant: Mutant) -> None:
    verdict = found(mutant.name)

    assert mutant.property == verdict.property
    assert verdict.path, "the way to it can't be shown"


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("name", ["hold_forgotten", "texts_overtake", "results_forgotten"])
def test_the_program_takes_the_path_of_a_fault_as_any_other(
    spin: list[str], found: Callable[[str], Verdict], name: str, tmp_path: Path
) -> None:
    """Judged by the observers alone: what the faulty model expects is wrong."""
    verdict = found(name)
    with own_agent(tmp_path) as starter:
        Replay(starter, tmp_path).endure(read_path(verdict.path))
