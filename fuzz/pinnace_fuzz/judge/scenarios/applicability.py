"""Says which scenarios are about a generation: those of which all rules hold for it, within their own dates.

Pure. Must not know what an agent can do (`running.reason_not_to_run`).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec import data
from pinnace_spec.profiles.generations import GENERATIONS, Generation, generation, release_of


def concerns(scenario: Scenario, which: Generation) -> bool:
    """Say whether a scenario is about a generation.

    Rules of other generations do not apply to an agent, so one such rule is enough to skip a scenario.
    Nothing is over for this project's agent, which has kept what later generations have dropped.
    """
    if not all(holds(rule, which) for rule in scenario.rules):
        return False
    if scenario.since is not None and _place(scenario.since) > _place(which.name):
        return False
    return scenario.until is None or which.is_ours or _place(scenario.until) >= _place(which.name)


def holds(rule: str, which: Generation) -> bool:
    """Say whether a rule holds for a generation. Invariants, and rules that name none, hold for all."""
    names = cast("Mapping[str, Sequence[str]]", _rules().get(rule, {})).get("generations")
    return names is None or which.name in names


@cache
def _rules() -> Mapping[str, Any]:
    return data.table("rules.toml")


def _place(name: str) -> tuple[int, ...]:
    """Order generations and releases: `until` names the last one that a scenario is about."""
    if name in GENERATIONS:
        found = generation(name)
        return (*release_of(found.release), 1 if found.is_ours else 0)
    return release_of(name)
