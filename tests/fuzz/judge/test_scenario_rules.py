"""Every rule that a trace can witness has a scenario; the others stand here, with the reason."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import pytest

from pinnace_fuzz.judge.scenarios.applicability import concerns, holds
from pinnace_fuzz.judge.scenarios.files import load
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec import data
from pinnace_spec.profiles.generations import GENERATIONS, GenerationName, generation

RULES: Final = data.table("rules.toml")

# Rule -> why no client, model or file can bring about what it is about.
NO_TRACE: Final[Mapping[str, str]] = {
    "R-RUN-06": "A client can't cause a defect of the program; tests seed one.",
    "R-RUN-08": "A client can't cause a defect of the statechart; tests seed one.",
    "R-EXT-13": "A scenario can't bring an extension that goes on in the background; tests do.",
    **dict.fromkeys(
        ("R-HST-01", "R-HST-02", "R-HST-03", "R-HST-04", "R-HST-05", "R-HST-06"),
        "Records of a host, which no agent writes; tests hold what hosts write to them.",
    ),
    "R-HST-07": "A scenario has no host; tests have commands that connect to one.",
    "R-HST-08": "A scenario's model answers one agent; tests list and stop sub-agents of a host's.",
    "R-SUB-12": "No trace shows what is on the disk; tests hold and fail a flush.",
    "R-HST-09": "A scenario has no host; tests play both sides of a view, and attach one.",
    "R-HST-10": "A scenario has no host; tests have a folder where it would write.",
    "R-QUE-20": "It allows what agents of a time did; none has to.",
    "R-QUE-18": "What a host does after a crash; tests kill its agents.",
    "R-CFG-04": "A scenario can't damage a file of the user between two commands; tests do.",
    "R-FIL-05": "What an abort leaves of a file is on the disk, and how fast it is over; tests look.",
    "R-FIL-06": "What the disk had before, no trace has; tests look.",
    **dict.fromkeys(("R-KEY-03", "R-KEY-06", "R-KEY-07"), "It needs a server or an extension; tests have one."),
    "R-UI-07": "It needs a server that asks for an address.",
    "R-LLM-03": "How long an answer may be is in no record; tests read it from the requests.",
    "R-LLM-04": "What a model is sent is in no record; tests read it from the requests.",
    "R-LLM-06": "What a model is sent is in no record; tests read it from the requests.",
    "R-STA-12": "A cache is kept alive after minutes; tests have a clock of their own.",
    "R-STA-11": "A scenario's model reports no cache; tests have sessions in which one was missed.",
    "R-STA-08": "A scenario can't bring a session with branches that it has left; tests do, in each profile.",
    "R-EXT-14": "A scenario can't bring an extension that does not load; tests do.",
    "R-EXT-15": "A scenario can't bring an extension that changes a call; tests do.",
    "R-TOL-11": "What a model is sent is in no record; tests read it from the requests.",
    "R-CLI-04": "Scenarios play mode rpc; tests start the other modes.",
    "R-CLI-03": "Scenarios start the agent under its own name; tests start it under that of the original.",
    "R-WRN-02": "A scenario can't mend a file of the user between two commands; tests do.",
    "R-WRN-03": "A scenario can't bring an extension that does not load; tests do.",
    **dict.fromkeys(
        (*(f"R-MCP-{number:02}" for number in range(2, 12)), "R-MCP-20"),
        "A scenario has no MCP server that answers; tests connect real ones.",
    ),
    **dict.fromkeys(
        tuple(f"R-SBX-0{number}" for number in range(1, 9)),
        "What a command can reach depends on the machine; tests try to leave the sandbox.",
    ),
    **dict.fromkeys(
        ("R-RES-01", "R-RES-02", "R-RES-03"), "Of the command line, which scenarios do not choose; tests read results."
    ),
    **dict.fromkeys(
        ("R-SUB-01", "R-SUB-02", "R-SUB-03", "R-SUB-04", "R-SUB-05", "R-SUB-06", "R-SUB-09", "R-SUB-11"),
        "A scenario's model answers one agent; tests have sub-agents, and kill them.",
    ),
    "R-EOF-03": "Only an extension holds up the end of an agent whose stdin is open.",
    **dict.fromkeys(("R-BAT-01", "R-BAT-02"), "A batch is no agent; tests run batches."),
}
# Rule -> why no scenario of it is played on some of the generations that it holds for.
NOT_EVERYWHERE: Final[Mapping[str, str]] = {
    "C-11": "Reads while a session is replaced are told apart by what `get_entries` shows.",
    "C-17": "Only this program can be told to drain.",
    "R-CLI-01": "The codes are this program's.",
    "R-MCP-01": "They are played in the fullest profile of this program alone.",
    "R-QUE-14": "Only messages of the youngest generation have a `messageId`.",
    **dict.fromkeys(
        ("R-QUE-15", "R-QUE-16", "R-QUE-17"), "They are played in the fullest profile of this program alone."
    ),
    "R-SES-01": "The oldest generation has `reset`, and other session files.",
    "R-TOL-06": "The flags that choose tools are younger.",
    "R-TOL-07": "The tools that search are found by names that only this program is sure to have.",
    "R-TOL-08": "Tools tell nothing while they work.",
}
AREAS: Final = {
    *(
        "ABT",
        "BSH",
        "CLI",
        "CMD",
        "CMP",
        "EOF",
        "ERR",
        "EVT",
        "EXP",
        "EXT",
        "FRM",
        "HEL",
        "ID",
        "KEY",
        "LIM",
        "MOD",
        "MSG",
    ),
    *("OLD", "PRM", "PRO", "QUE", "RSP", "RTY", "SES", "SET", "SIG", "STA", "TOL", "UI"),
}


@cache
def scenarios() -> tuple[Scenario, ...]:
    return load()


def named() -> set[str]:
    return {rule for scenario in scenarios() for rule in scenario.rules}


def test_every_rule_has_a_scenario_or_a_reason() -> None:
    witnessed = named()

    assert {rule for rule in RULES if rule not in witnessed} == NO_TRACE.keys()


def test_every_area_has_a_scenario() -> None:
    assert {scenario.id.partition("/")[0] for scenario in scenarios()} >= AREAS


def test_every_area_but_a_few_is_part_of_the_run_of_a_minute() -> None:
    smoke = [scenario for scenario in scenarios() if scenario.is_smoke]

    assert 40 <= len(smoke) <= 80
    assert AREAS - {scenario.id.partition("/")[0] for scenario in smoke} <= {"EVT"}


def test_no_scenario_with_a_gate_of_the_shell_lists_its_folder() -> None:
    """Such gates are in the working folder, where commands reach them that are confined."""
    lists = re.compile(r"""["']name["']: ["'](ls|find|grep)["']|command["']: ["'](ls|find|git)\\b""")

    assert [] == [each.id for each in scenarios() if "${gate:" in repr(each.source) and lists.search(repr(each.source))]


@pytest.mark.parametrize("name", GENERATIONS)
def test_rules_of_other_generations_do_not_apply(name: GenerationName) -> None:
    which = generation(name)
    wrong = [
        (scenario.id, rule)
        for scenario in scenarios()
        if concerns(scenario, which)
        for rule in scenario.rules
        if name not in RULES.get(rule, {}).get("generations", GENERATIONS)
    ]

    assert [] == wrong


def test_this_program_is_asked_for_everything() -> None:
    assert [] == [scenario.id for scenario in scenarios() if not concerns(scenario, generation("pi"))]


@pytest.mark.parametrize("name", GENERATIONS)
def test_every_rule_of_a_generation_has_a_scenario_there_or_a_reason(name: GenerationName) -> None:
    """What its other rules or its dates leave out of a generation must not be all that a rule has."""
    which = generation(name)
    witnessed = {rule for scenario in scenarios() if concerns(scenario, which) for rule in scenario.rules}
    wanted = {rule for rule in RULES if holds(rule, which)}

    assert wanted - witnessed - NOT_EVERYWHERE.keys() == NO_TRACE.keys() & wanted
