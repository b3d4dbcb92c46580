"""The level of a finding: that of the broken rules, and whether they bind the agent.

A rule of origin `ours`, which the original leaves open or violates, binds only agents that claim it: for others a
violation is `nonstrict`. Rules: `rules.toml`.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from pinnace_spec import data
from pinnace_spec.observers.verdicts import Level


@cache
def _rules() -> Mapping[str, Mapping[str, Any]]:
    # Any: TOML, whose form a test checks.
    return cast("Mapping[str, Mapping[str, Any]]", data.table("rules.toml"))


def level_of(rules: Sequence[str], *, is_ours: bool, generation: str = "") -> Level:
    """Return the level of a violation of these rules: the highest of theirs.

    Args:
        rules: Their ids.
        is_ours: The agent claims to follow all of them, including those of origin `ours`.
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
    """Return whether a rule binds agents of others."""
    return rule.get("origin") != "ours" and (not generation or generation in rule.get("generations", [generation]))
