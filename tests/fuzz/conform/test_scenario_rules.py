"""Every rule that a trace can witness has a scenario; the others stand here, with the reason."""

from collections.abc import Mapping
from typing import Final

import pytest

from pinnace_fuzz.conform.applicability import concerns, holds
from pinnace_fuzz.conform.scenario_files import load
from pinnace_spec import data
from pinnace_spec.generations import GENERATIONS, GenerationName, generation

RULES: Final = data.table("rules.toml")
SCENARIOS: Final = load()

# Rule -> why no client, model or file can bring about what it is about.
NO_TRACE: Final[Mapping[str, str]] = {
    "R-RUN-06": "A client can't cause a defect of the program; tests seed one.",
    "R-LLM-03": "How long an answer may be is in no record; tests read it from the requests.",
}
# Rule -> why no scenario of it is played on some of the generations that it holds for.
NOT_EVERYWHERE: Final[Mapping[str, str]] = {
    "C-11": "Reads while a session is replaced are told apart by what `get_entries` shows.",
    "C-17": "Only this program can be told to drain.",
    "R-CLI-01": "The codes are this program's.",
    "R-SES-01": "The oldest generation has `reset`, and other session files.",
    "R-TOL-06": "The flags that choose tools are younger.",
    "R-TOL-07": "The tools that search are found by names that only this program is sure to have.",
    "R-TOL-08": "Tools tell nothing while they work.",
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


@pytest.mark.parametrize("name", GENERATIONS)
def test_nobody_is_accused_of_a_rule_that_is_not_his(name: GenerationName) -> None:
    which = generation(name)
    wrong = [
        (scenario.id, rule)
        for scenario in SCENARIOS
        if concerns(scenario, which)
        for rule in scenario.rules
        if name not in RULES.get(rule, {}).get("generations", GENERATIONS)
    ]

    assert [] == wrong


def test_this_program_is_asked_for_everything() -> None:
    assert [] == [scenario.id for scenario in SCENARIOS if not concerns(scenario, generation("pi"))]


@pytest.mark.parametrize("name", GENERATIONS)
def test_every_rule_of_a_generation_has_a_scenario_there_or_a_reason(name: GenerationName) -> None:
    """What its other rules or its dates leave out of a generation must not be all that a rule has."""
    which = generation(name)
    witnessed = {rule for scenario in SCENARIOS if concerns(scenario, which) for rule in scenario.rules}
    wanted = {rule for rule in RULES if holds(rule, which)}

    assert wanted - witnessed - NOT_EVERYWHERE.keys() == NO_TRACE.keys()
