"""How grave a finding is: what the broken rules demand, and whether the agent has promised to keep them.

A rule of ours that the original leaves open, or gets wrong, binds our own agent alone: for any other a breach of it is
`nonstrict`. Rules: `rules.toml`.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from pinnace_spec import data
from pinnace_spec.observers.verdicts import Level


@cache
def _rules() -> Mapping[str, Mapping[str, Any]]:
    # Any: TOML, whose shape a test holds.
    return cast("Mapping[str, Mapping[str, Any]]", data.table("rules.toml"))


def level_of(rules: Sequence[str], *, is_ours: bool, generation: str = "") -> Level:
    """Say how grave it is to break these rules: as the gravest of them.

    Args:
        rules: Their ids.
        is_ours: The agent has promised to keep all of them, ours too.
        generation: Its generation; a rule that names others does not bind it.
    """
    levels: set[Level] = set()
    for each in rules:
        rule = _rules().get(each, {})
        if rule.get("level") == "MAY":
            levels.add("information")
        elif rule.get("level") == "SHOULD" or not (is_ours or _binds(rule, generation)):
            levels.add("nonstrict")
        else:
            levels.add("violation")
    for level in ("violation", "nonstrict"):
        if level in levels:
            return level
    return "information"


def _binds(rule: Mapping[str, Any], generation: str) -> bool:
    """Tell whether a rule binds agents of others."""
    return rule.get("origin") != "ours" and (not generation or generation in rule.get("generations", [generation]))
