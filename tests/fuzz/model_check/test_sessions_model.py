"""The model of session files holds, and each of its faults is found by its property."""

import re
from pathlib import Path

import pytest

from pinnace_campaigns.model_check.reporting import HOLDS
from pinnace_campaigns.model_check.sessions import (
    MODEL,
    MUTANTS,
    PROPERTIES,
    RETURNING,
    SHARED,
    SessionsMutant,
    main,
    search_sessions,
)
from pinnace_spec import data


def test_the_model_and_the_runner_name_the_same_properties_and_faults() -> None:
    text = data.text(MODEL)
    asserted = {name.removeprefix("p_") for name in re.findall(r"\bp_\w+", text)} - {""}

    assert PROPERTIES.keys() == asserted == {mutant.property for mutant in MUTANTS} | {"at_most_once"}
    assert {mutant.name for mutant in MUTANTS} == set(re.findall(r"\bM_(\w+)", text)) - {"name"}


@pytest.mark.peer
def test_no_reachable_state_breaks_a_property(spin: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """R-SES-06, R-HST-06: every order of openings, appends, replacements and crashes, within the bounds."""
    code = main([])

    lines = capsys.readouterr().out.splitlines()
    assert (HOLDS, 2) == (code, len(lines)), lines
    for part, line in zip((SHARED, RETURNING), lines, strict=True):
        assert line.startswith(f"{part.name}: holds"), line


@pytest.mark.peer
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_of_a_process_is_found_by_its_property(spin: list[str], mutant: SessionsMutant, tmp_path: Path) -> None:
    assert mutant.property == search_sessions(mutant.part, tmp_path, mutant=mutant.name).property
