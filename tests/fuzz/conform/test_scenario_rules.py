"""Every rule that a trace can witness has a scenario; the others stand here, with the reason."""

from collections.abc import Mapping
from typing import Final

import pytest

from pinnace_fuzz.conform.running import concerns
from pinnace_fuzz.conform.scenario_files import load
from pinnace_spec import data
from pinnace_spec.generations import GENERATIONS, generation

RULES: Final = data.table("rules.toml")
SCENARIOS: Final = load()

# Rule -> why no client, model or file can bring about what it is about.
NO_TRACE: Final[Mapping[str, str]] = {
    "R-RUN-06": "A client can't cause a defect of the program; tests seed one.",
}
AREAS: Final = {
    *("ABT", "BSH", "CLI", "CMD", "CMP", "EOF", "ERR", "EVT", "EXP", "EXT", "FRM", "HEL", "ID", "LIM", "MOD", "MSG"),
    *("OLD", "PRM", "PRO", "QUE", "RSP", "RTY", "SES", "SET", "SIG", "STA", "TOL", "UI"),
}


def named() -> set[str]:
    return {rule for scenario in SCENARIOS for rule in scenario.rules}


def test_every_rule_has_a_scenario_or_a_reason() -> None:
    assert {rule for rule in RULES if rule not in named()} == NO_TRACE.keys()


def test_every_area_has_a_scenario() -> None:
    assert {scenario.id.partition("/")[0] for scenario in SCENARIOS} >= AREAS


def test_every_area_but_a_few_is_part_of_the_run_of_a_minute() -> None:
    smoke = [scenario for scenario in SCENARIOS if scenario.is_smoke]

    assert 40 <= len(smoke) <= 80
    assert AREAS - {scenario.id.partition("/")[0] for scenario in smoke} <= {"EVT"}


@pytest.mark.parametrize("name", [name for name in GENERATIONS if generation(name).is_ours])
def test_every_scenario_has_a_rule_that_holds_for_this_program(name: str) -> None:
    """A scenario of which no rule holds would accuse for nothing."""
    wrong = [
        scenario.id
        for scenario in SCENARIOS
        if concerns(scenario, generation(name))
        and not any(name in RULES.get(rule, {}).get("generations", [name]) for rule in scenario.rules)
    ]

    assert [] == wrong
