"""The Promela models follow from the rows, and leave out exactly what they say."""

import re
from collections.abc import Callable

import pytest

from pinnace_spec import data
from pinnace_spec.generate.promela.environment import CANCELLED, CAUSED_INSIDE, REPORTS
from pinnace_spec.generate.promela.names import EXCLUDED, SAME_ROWS, SETS
from pinnace_spec.generate.promela.promela import BODIES, model_text
from pinnace_spec.generate.promela.properties import ASSERTED, MODELS, PROPERTIES, ModelName, properties
from pinnace_spec.generate.promela.rows import PromelaError, table
from pinnace_spec.generate.source import load
from pinnace_spec.statechart.transitions import CHART, JOB_TRIGGERS, Transition

STOPS = {"stop_abort", "stop_drain"}


def changed(change: Callable[[Transition], Transition]) -> tuple[Transition, ...]:
    return tuple(change(row) for row in CHART)


@pytest.mark.parametrize("model", MODELS)
def test_a_changed_row_changes_every_model(model: ModelName) -> None:
    def change(row: Transition) -> Transition:
        return row._replace(target="llm") if (row.source, row.trigger) == ("idle", "compact") else row

    assert model_text(model, CHART) != model_text(model, changed(change))


@pytest.mark.parametrize("field", ["guard", "effects"])
def test_a_name_without_a_body_ends_the_generation(field: str) -> None:
    def change(row: Transition) -> Transition:
        return row._replace(guard="unheard_of") if field == "guard" else row._replace(effects=("unheard_of",))

    with pytest.raises(PromelaError, match="unheard_of"):
        model_text("run", changed(change))


def test_a_trigger_that_is_neither_modelled_nor_excluded_ends_the_generation() -> None:
    new = Transition("run", "idle", "unheard_of", "", None, (), ())

    with pytest.raises(PromelaError, match="unheard_of"):
        model_text("run", (*CHART, new))


def test_an_exclusion_of_nothing_ends_the_generation() -> None:
    rows = tuple(row for row in CHART if row.trigger != "get_tree")

    with pytest.raises(PromelaError, match="get_tree"):
        model_text("run", rows)


def test_every_trigger_is_modelled_or_excluded_and_none_is_both() -> None:
    modelled = {report.trigger for report in REPORTS} | {name for names in CANCELLED.values() for name in names}
    modelled |= {sent.trigger for each in SETS.values() for sent in each.sent} | STOPS | set(CAUSED_INSIDE)
    modelled |= {"extension_ui_response"}  # of the third model alone

    assert set() == modelled & EXCLUDED.keys()
    assert {row.trigger for row in CHART} | set(JOB_TRIGGERS) == modelled | EXCLUDED.keys() | {"always"}


@pytest.mark.parametrize(("left_out", "modelled"), SAME_ROWS.items())
def test_what_is_left_out_for_another_has_the_same_rows(left_out: str, modelled: str) -> None:
    """The claim that stands beside it in the table of exclusions."""

    def rows(trigger: str) -> list[str]:
        own = [row._replace(trigger="", rules=()) for row in CHART if row.trigger == trigger]
        return sorted(map(repr, own))

    assert rows(modelled) == rows(left_out)


def test_no_body_is_left_without_a_row() -> None:
    effects = {effect for row in CHART for effect in row.effects}
    guards = {row.guard for row in CHART if row.guard}

    assert set() == BODIES.actions.keys() - effects
    assert set() == BODIES.guards.keys() - guards


@pytest.mark.parametrize("model", MODELS)
def test_every_assertion_names_a_property_and_every_property_is_asserted(model: ModelName) -> None:
    used = set(re.findall(r"HOLDS\((\w+),", model_text(model, CHART))) - {"property"}

    assert used <= {each.name for each in ASSERTED}
    assert {each.name for each in properties(model) if not each.formula} <= used


def test_every_property_names_rules_that_exist() -> None:
    rules = load().rules

    assert [] == [(each.name, rule) for each in PROPERTIES for rule in each.rules if rule not in rules]
    assert [] == [each.name for each in PROPERTIES if not each.rules]


def test_rows_stay_in_their_order() -> None:
    """Of a state's rows the first one whose guard holds is taken."""
    doing = table(CHART, "run")["llm_stop"]["llm"]

    assert [row.guard for row in CHART if (row.source, row.trigger) == ("llm", "llm_stop")] == [
        guard for guard, _, _ in doing
    ]


def test_the_statement_names_files_that_exist() -> None:
    text = data.text("model/STATEMENT.md")

    assert "not a proof for all lengths" in text
    assert data.has("model/properties.toml")
