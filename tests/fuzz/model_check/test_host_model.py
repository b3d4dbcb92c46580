"""The model of the durable host holds within small bounds, and each of its faults is found by its property.

Larger bounds are a command: docs/model-checking.md.
"""

import re
from pathlib import Path

import pytest

from pinnace_campaigns.model_check.host import (
    BOUNDS,
    LARGE,
    MODEL,
    MUTANTS,
    PROPERTIES,
    QUICK,
    Bound,
    HostMutant,
    main,
    search_host,
)
from pinnace_campaigns.model_check.reporting import HOLDS
from pinnace_spec import data

TEXT = data.text(MODEL)


def test_the_model_and_the_runner_name_the_same_properties_and_faults() -> None:
    asserted = {name.removeprefix("p_") for name in re.findall(r"\bp_\w+", TEXT)} - {""}

    assert PROPERTIES.keys() - {"deadlock"} == asserted
    assert {mutant.name for mutant in MUTANTS} == set(re.findall(r"\bM_(\w+)", TEXT)) - {"name"}
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len(BOUNDS) == len(QUICK) + len(LARGE)


def test_each_property_has_a_fault_that_breaks_it() -> None:
    assert PROPERTIES.keys() == {mutant.property for mutant in MUTANTS}


@pytest.mark.peer
@pytest.mark.parametrize("bound", QUICK, ids=lambda bound: bound.name)
def test_no_reachable_state_breaks_a_property(spin: list[str], bound: Bound, tmp_path: Path) -> None:
    """Every order of commands, answers, fsyncs, records and crashes of two clients, within the bound."""
    verdict = search_host(bound, tmp_path)

    assert (0, "", True) == (verdict.errors, verdict.property, verdict.is_complete), verdict.path
    assert verdict.states > 10_000, "too few to have looked at anything"


@pytest.mark.peer
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_of_the_host_is_found_by_its_property(spin: list[str], mutant: HostMutant, tmp_path: Path) -> None:
    verdict = search_host(mutant.bound, tmp_path, mutant=mutant.name, optimise=0)

    assert mutant.property == verdict.property
    assert verdict.path, "the way to it can't be shown"


@pytest.mark.peer
def test_a_bound_of_ones_own_is_searched(spin: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--commands", "1", "--crashes", "1"]) == HOLDS
    assert "own (1 commands, 1 crashes): holds" in capsys.readouterr().out
