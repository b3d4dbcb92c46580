"""What an exception inside `step` does to the statechart, and that no effect is left without a body."""

import ast
import inspect
import textwrap
from types import UnionType
from typing import get_args

import pytest

from pinnace_agent.engine.interpreter import EffectInterpreter
from pinnace_statechart import effects as fx
from pinnace_statechart.machine import Chart, ChartError
from pinnace_statechart.triggers import Command, InternalEvent

DATA = {fx.View}
"""Classes of the module that stand in effects and are none."""


def test_a_statechart_can_not_be_used_after_a_defect() -> None:
    chart = Chart()
    with pytest.raises(ChartError, match="no row"):
        chart.step(InternalEvent("session_approved_twice"))

    for trigger in (Command("get_state", 1), InternalEvent("stop_abort"), Command("prompt", 2)):
        with pytest.raises(ChartError, match="after a defect"):
            chart.step(trigger)


def test_the_union_of_effects_holds_every_effect_class() -> None:
    """`assert_never` proves a match over the union complete, and nothing about a class outside of it."""
    assert isinstance(fx.Effect, UnionType)
    members = get_args(fx.Effect)

    defined = {value for value in vars(fx).values() if inspect.isclass(value) and value.__module__ == fx.__name__}
    assert defined - DATA == set(members)
    assert len(members) == len(set(members))


def test_effects_are_distinguished_in_one_match_that_ends_in_assert_never() -> None:
    [function] = ast.parse(textwrap.dedent(inspect.getsource(EffectInterpreter.perform))).body
    assert isinstance(function, ast.FunctionDef)
    [match] = [node for node in function.body if isinstance(node, ast.Match)]
    *_, last = match.cases

    assert "case _:\n    assert_never(effect)" == ast.unparse(last)
    named = [
        node.attr for node in ast.walk(match) if isinstance(node, ast.Attribute) and _is_class_pattern(match, node)
    ]
    assert sorted(named) == sorted(each.__name__ for each in get_args(fx.Effect))


def _is_class_pattern(match: ast.Match, name: ast.Attribute) -> bool:
    return any(isinstance(node, ast.MatchClass) and node.cls is name for node in ast.walk(match))
