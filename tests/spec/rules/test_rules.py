"""The rulebook: every rule is complete, belongs to a chapter and has a witness that detects its violation."""

import ast
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from pinnace_spec import data
from pinnace_spec.generate import witnesses
from pinnace_spec.generate.promela.properties import PROPERTIES
from pinnace_spec.generate.rulebook import LEVELS, ORIGINS, Rule, chapter_of, kind_of, row_name
from pinnace_spec.generate.source import Spec, load
from pinnace_spec.profiles.generations import GENERATIONS
from pinnace_spec.statechart.transitions import CHART, Transition

ROOT = Path(__file__).resolve().parents[3]
SPEC = load()
EACH_RULE = pytest.mark.parametrize("rule", list(SPEC.rules.values()), ids=lambda rule: rule.id)


@cache
def named_tests(module: str) -> frozenset[str]:
    """The test functions of a module; none if there is no such module."""
    path = ROOT / module
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions)


@cache
def scenarios() -> frozenset[str]:
    ids: set[str] = set()
    for path in (ROOT / "spec" / "scenarios").rglob("*.yaml"):
        ids.update(
            re.findall(r"^(?:(?:  )?- )?id: *[\"']?([\w/-]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        )
    return frozenset(ids)


def has_pointer(witness: str) -> bool:
    """Whether a JSON pointer leads somewhere in a published schema."""
    name, _, pointer = witness.partition("#")
    if not data.has(name):
        return False
    found: Any = json.loads(data.text(name))
    for key in pointer.removeprefix("/").split("/"):
        if not isinstance(found, dict) or key not in found:
            return False
        found = cast("dict[str, Any]", found)[key]
    return True


def exists(witness: str, rule: Rule, rows: tuple[Transition, ...]) -> bool:
    match kind_of(witness):
        case "rows":
            return any(rule.id in row.rules for row in rows)
        case "invariant":
            return witness in witnesses.invariants()
        case "schema":
            return has_pointer(witness)
        case "scenario":
            return witness in scenarios()
        case "test":
            module, _, name = witness.partition("::")
            return name in named_tests(module)
        case _:
            return False


def problems(spec: Spec) -> list[str]:
    """Return the defects of a rulebook, one text each."""
    found: list[str] = []
    for rule in spec.rules.values():
        if rule.level not in LEVELS or rule.origin not in ORIGINS or not rule.text.endswith("."):
            found.append(f"{rule.id}: incomplete")
        if not re.search(rf"\b{rule.level}\b", rule.text):
            found.append(f"{rule.id}: does not say {rule.level}")
        if chapter_of(rule) is None:
            found.append(f"{rule.id}: in no chapter")
        if unknown := set(rule.generations) - set(GENERATIONS):
            found.append(f"{rule.id}: unknown generations {sorted(unknown)}")
        if not rule.witness and not spec.rows_of(rule.id):
            found.append(f"{rule.id}: no witness")
        found += [f"{rule.id}: no such witness: {each}" for each in rule.witness if not exists(each, rule, spec.rows)]
    for row in spec.rows:
        if not row.rules:
            found.append(f"{row_name(row)}: cites no rule")
        found += [f"{row_name(row)}: no such rule: {each}" for each in row.rules if each not in spec.rules]
    found += [
        f"{each.id}: no such rule: {each.rule}" for each in spec.deviations.values() if each.rule not in spec.rules
    ]
    return found


def test_every_rule_has_a_witness_and_every_witness_exists() -> None:
    assert [] == problems(SPEC)


def test_every_invariant_cites_existing_rules_and_is_the_witness_of_one() -> None:
    """An observer that no rule cites proves a property that the specification does not require."""
    cited = {name for rule in SPEC.rules.values() for name in rule.witness}
    for each in witnesses.invariants().values():
        assert set(each.rules) <= set(SPEC.rules), each
        assert each.id in cited, each


def test_every_model_property_proves_existing_rules() -> None:
    assert {rule for each in PROPERTIES for rule in each.rules} <= set(SPEC.rules)


def test_the_names_of_transitions_are_unique() -> None:
    twice = [name for name, count in Counter(row_name(row) for row in CHART).items() if count > 1]

    assert [] == twice


@EACH_RULE
def test_the_generations_of_a_rule_are_in_order_of_age(rule: Rule) -> None:
    assert [name for name in GENERATIONS if name in rule.generations] == list(rule.generations)


def without(spec: Spec, rule: str) -> Spec:
    return spec._replace(rules={name: each for name, each in spec.rules.items() if name != rule})


def with_rule(spec: Spec, rule: Rule) -> Spec:
    return spec._replace(rules={**spec.rules, rule.id: rule})


ONE = next(iter(SPEC.rules.values()))
BROKEN = {
    "a rule that rows cite is gone": (without(SPEC, "R-QUE-07"), "no such rule: R-QUE-07"),
    "a rule that a deviation cites is gone": (without(SPEC, "R-EXP-01"), "no such rule: R-EXP-01"),
    "a rule without a witness": (with_rule(SPEC, ONE._replace(witness=())), "no witness"),
    "a test that there is not": (
        with_rule(SPEC, ONE._replace(witness=("tests/spec/wire/test_wire.py::test_nothing",))),
        "no such witness",
    ),
    "a module that there is not": (
        with_rule(SPEC, ONE._replace(witness=("tests/spec/test_none.py::test_nothing",))),
        "no such witness",
    ),
    "an invariant that there is not": (with_rule(SPEC, ONE._replace(witness=("I-XXX-9",))), "no such witness"),
    "rows that there are not": (with_rule(SPEC, ONE._replace(witness=("rows",))), "no such witness"),
    "a schema that there is not": (
        with_rule(SPEC, ONE._replace(witness=("schema/pi.json#/$defs/Nothing",))),
        "no such witness",
    ),
    "a witness of no kind": (with_rule(SPEC, ONE._replace(witness=("because",))), "no such witness"),
    "a level that there is not": (with_rule(SPEC, ONE._replace(level="WILL")), "incomplete"),
    "a text without its level": (with_rule(SPEC, ONE._replace(text="Records are JSON objects.")), "does not say MUST"),
    "a family without a chapter": (with_rule(SPEC, ONE._replace(id="R-NEW-01")), "in no chapter"),
    "a generation that there is not": (with_rule(SPEC, ONE._replace(generations=("2.0",))), "unknown generations"),
    "a row without a rule": (
        SPEC._replace(rows=(*SPEC.rows[1:], SPEC.rows[0]._replace(rules=()))),
        "cites no rule",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_rulebook_is_reported(broken: str) -> None:
    """Each of the checks above bites."""
    spec, expected = BROKEN[broken]

    assert any(expected in problem for problem in problems(spec))
