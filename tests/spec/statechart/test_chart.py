"""The rows as a table: total, ordered, and tied to rules, guards and actions."""

import re
import tomllib
from pathlib import Path

import pytest

from pinnace_spec.statechart.transitions import (
    ALWAYS,
    CHART,
    COMMANDS,
    INTERNAL_EVENTS,
    REGIONS,
    STATES,
    Region,
    Transition,
)
from pinnace_statechart.actions import ACTIONS
from pinnace_statechart.guards import GUARDS

ROOT = Path(__file__).resolve().parents[3]
RULES = tomllib.loads((ROOT / "spec" / "rules.toml").read_text(encoding="utf-8"))
CELLS = [(region, state, name) for region in REGIONS for state in STATES[region] for name in COMMANDS[region]]


def rows_of(region: Region, state: str, trigger: str) -> list[Transition]:
    return [row for row in CHART if (row.region, row.source, row.trigger) == (region, state, trigger)]


def test_every_command_has_rows_in_every_state_and_only_the_last_has_no_guard() -> None:
    """The table is total: whatever comes, in whatever state, something is said to happen."""
    for cell in CELLS:
        rows = rows_of(*cell)

        assert rows, cell
        assert [bool(row.guard) for row in rows] == [True] * (len(rows) - 1) + [False], cell


def test_no_command_belongs_to_two_regions() -> None:
    names = [name for region in REGIONS for name in COMMANDS[region]]

    assert len(names) == len(set(names))


def test_rows_name_only_states_and_triggers_that_exist() -> None:
    triggers = {ALWAYS, *INTERNAL_EVENTS, *(name for names in COMMANDS.values() for name in names)}
    for row in CHART:
        assert row.source in STATES[row.region]
        assert row.target is None or row.target in STATES[row.region]
        assert row.trigger in triggers


def test_guards_and_actions_are_exactly_those_that_the_rows_name() -> None:
    assert {row.guard for row in CHART if row.guard} == set(GUARDS)
    assert {name for row in CHART for name in row.effects} == set(ACTIONS)


def test_every_row_cites_rules_that_exist() -> None:
    for row in CHART:
        assert row.rules, row
        assert set(row.rules) <= set(RULES), row


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_is_complete(rule: str) -> None:
    entry = RULES[rule]

    assert entry["level"] in {"MUST", "SHOULD", "MAY"}
    assert entry["origin"] in {"seed", "observed", "ours"}
    assert entry["text"].endswith(".")


def test_every_rule_that_the_sources_cite_exists() -> None:
    """A docstring that cites a rule which nobody wrote down is a promise to nobody."""
    cited: dict[str, str] = {}
    for root in ("spec", "statechart", "agent", "rpc", "fuzz"):
        for path in (ROOT / root).rglob("*.py"):
            for rule in re.findall(r"\b(?:R-[A-Z]{2,3}-\d\d|C-\d{1,2})\b", path.read_text(encoding="utf-8")):
                cited[rule] = str(path.relative_to(ROOT))

    editors = tomllib.loads((ROOT / "fuzz/pinnace_fuzz/acp/rules.toml").read_text(encoding="utf-8"))
    assert {} == {rule: where for rule, where in cited.items() if rule not in {*RULES, *editors}}


def test_every_deviation_is_marked_in_the_code_and_every_mark_is_listed() -> None:
    """A difference that nobody listed is a defect; a listed one that nobody made is a promise not kept."""
    deviations = tomllib.loads((ROOT / "spec" / "deviations.toml").read_text(encoding="utf-8"))
    marked: set[str] = set()
    for root in ("spec", "statechart", "agent", "rpc"):
        for path in (ROOT / root).rglob("*.py"):
            for mark in re.findall(r"# DEVIATION (D-\d\d(?:, D-\d\d)*)", path.read_text(encoding="utf-8")):
                marked.update(mark.split(", "))

    assert set(deviations) == marked
    for entry in deviations.values():
        assert {"rule", "original", "ours"} == set(entry)
        assert entry["rule"] in RULES
