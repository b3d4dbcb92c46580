"""The table state x command against what scenarios say they reach: from the files alone, nothing is played."""

from collections import Counter
from collections.abc import Mapping

import pytest

from pinnace_fuzz.judge.coverage import all_cells, other_state_names
from pinnace_fuzz.judge.scenarios.files import load
from pinnace_fuzz.judge.scenarios.scenario import Cell, Scenario
from pinnace_spec import data
from pinnace_spec.statechart.names import COMMANDS, SESSION_COMMANDS

# Commands that are answered otherwise, or wait (C-9), because of a state of another region.
OF_OTHER_REGIONS: Mapping[str, tuple[str, ...]] = {
    "session.confirming": (*SESSION_COMMANDS, "abort", "prompt", "steer", "follow_up", "compact", "get_state", "bash"),
    "shell.running": COMMANDS["shell"],
}
# No command reaches these states, and why.
UNREACHABLE: Mapping[str, str] = {
    "io.draining": "stdin has ended, so that no command can come any more",
    "io.closing": "stdin is not read any more",
    "io.closed": "the process is gone",
}
# In these a command is answered as the table of the region RUN says.
INITIAL: Mapping[str, str] = {
    "io.open": "its first state",
    "session.quiet": "its first state",
    "ui.quiet": "the only state of this region",
    "shell.quiet": "its first state",
}
# Rules that scenarios of states and commands witness.
AREAS = ("R-RUN", "R-QUE", "R-PRM", "R-ABT", "R-RTY", "R-CMP", "R-ORD", "R-SET", "R-BSH", "R-LIM", "R-EXT", "C")
# Those among them that no trace can witness, and why.
NO_WITNESS: Mapping[str, str] = {
    "R-EXT-13": "a scenario can't bring an extension that goes on in the background",
    "R-EXT-14": "a scenario can't bring an extension that does not load",
    "R-EXT-15": "a scenario can't bring an extension that changes a call",
    "R-QUE-18": "a host begins the next process of a crashed agent with it",
    "R-QUE-20": "it allows what agents of a time did",
    "R-RUN-06": "a defect of the agent can't be caused from outside",
    "R-RUN-08": "a defect of the statechart can't be caused from outside",
}
# How a script says a command, if not by its name.
SEEN_AS: Mapping[str, tuple[str, ...]] = {
    "extension_command": ("'/",),
    "get_state": ("get_state", "'state'"),
    "malformed": ("'bytes'",),
    "new_session": ("new_session", "reset"),
    "steer": ("steer", "queue_message"),
    "unknown": ("no_such_command", "'bytes'"),
}
SCENARIOS_AT_LEAST = 170


@pytest.fixture(scope="module")
def scenarios() -> tuple[Scenario, ...]:
    return load()


def wanted() -> set[Cell]:
    others = {Cell(state, command) for state, commands in OF_OTHER_REGIONS.items() for command in commands}
    return {*all_cells(), *others}


def test_every_cell_is_reached_by_a_scenario(scenarios: tuple[Scenario, ...]) -> None:
    reached = Counter(cell for scenario in scenarios for cell in scenario.cells)

    assert [] == sorted(wanted() - reached.keys())


def test_every_state_is_in_the_table_or_out_of_reach() -> None:
    assert set(other_state_names()) == {*OF_OTHER_REGIONS, *UNREACHABLE, *INITIAL}


def test_no_scenario_claims_what_is_out_of_reach(scenarios: tuple[Scenario, ...]) -> None:
    claimed = {cell.state for scenario in scenarios for cell in scenario.cells}

    assert set() == claimed & UNREACHABLE.keys()


def test_a_cell_is_reached_by_what_the_scenario_sends(scenarios: tuple[Scenario, ...]) -> None:
    """A claim of a scenario that never sends the command is no claim."""
    silent = [
        (scenario.id, cell.command)
        for scenario in scenarios
        for cell in scenario.cells
        if not any(word in str(scenario.source["client"]) for word in SEEN_AS.get(cell.command, (cell.command,)))
    ]

    assert [] == silent


def test_every_rule_of_states_and_commands_has_a_scenario(scenarios: tuple[Scenario, ...]) -> None:
    cited = {rule for scenario in scenarios for rule in scenario.rules}
    rules = {rule for rule in data.table("rules.toml") if rule.rpartition("-")[0] in AREAS}

    assert sorted(NO_WITNESS) == sorted(rules - cited)


def test_there_are_as_many_as_the_table_needs(scenarios: tuple[Scenario, ...]) -> None:
    assert len(scenarios) >= SCENARIOS_AT_LEAST
