"""What an agent keeps of a set of requirements, tier by tier, and the exit code that says so. Pure.

A scenario counts once: where it fails, in the gravest tier that it breaks, otherwise in its own.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pinnace_fuzz.judge.requirements.sets import TIERS, RequirementSet, Tier, digest_of_scenario, gravest, tier_of
from pinnace_fuzz.judge.results import BAD, JUDGED, CaseResult, Finding, is_invariant
from pinnace_fuzz.judge.scenarios.scenario import Scenario

EXITS: Final[Mapping[Tier, int]] = {"must": 1, "should": 6, "ours": 7}
"""The exit code if nothing graver is broken."""
CHANGED: Final = "changed since the set of requirements was frozen"
_HARD: Final = frozenset({"crash", "hang", "excess", "start"})


class TierOutcome(NamedTuple):
    """What an agent keeps of one tier."""

    kept: int
    broken: tuple[str, ...]
    """Ids of scenarios."""
    not_judged: int
    """Not run, undecided, unimplemented, or changed since the set was frozen."""

    @property
    def scenarios(self) -> int:
        """How many there are."""
        return self.kept + len(self.broken) + self.not_judged


class Outcome(NamedTuple):
    """What an agent keeps of a set."""

    requirements: RequirementSet
    tiers: Mapping[Tier, TierOutcome]
    changed: tuple[str, ...]
    """Ids of scenarios that were changed or removed since the set was frozen."""

    @property
    def exit_code(self) -> int:
        """That of the gravest tier that is broken; 0: none is."""
        return next((EXITS[tier] for tier in TIERS if self.tiers[tier].broken), 0)


def changed(requirements: RequirementSet, sources: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Return the scenarios of a set that are not what they were when it was frozen.

    Args:
        requirements: The set.
        sources: Id of a scenario -> how it is written today.
    """
    return frozenset(
        id_
        for id_, required in requirements.scenarios.items()
        if id_ not in sources or digest_of_scenario(sources[id_]) != required.digest
    )


def outcome(
    requirements: RequirementSet,
    cases: Sequence[CaseResult],
    rulebook: Mapping[str, Any],
    changed_ids: Collection[str],
    expected: Collection[str] = (),
) -> Outcome:
    """Judge the cases of a run by a set.

    Args:
        requirements: The set.
        cases: Of its scenarios.
        rulebook: Id of a rule -> its level and origin.
        changed_ids: Scenarios of the set that were not played.
        expected: Ids of cases whose failure the baseline expects: they are not judged.
    """
    kept: dict[Tier, int] = dict.fromkeys(TIERS, 0)
    broken: dict[Tier, list[str]] = {tier: [] for tier in TIERS}
    open_: dict[Tier, int] = dict.fromkeys(TIERS, 0)
    found = {case.scenario.id: case for case in cases}
    for id_, required in requirements.scenarios.items():
        case = found.get(id_)
        if case is None or id_ in changed_ids or id_ in expected or case.verdict not in JUDGED:
            open_[required.tier] += 1
        elif (worst := _broken(case, required.tier, rulebook)) is not None:
            broken[worst].append(id_)
        else:
            kept[required.tier] += 1
    tiers: dict[Tier, TierOutcome] = {tier: TierOutcome(kept[tier], tuple(broken[tier]), open_[tier]) for tier in TIERS}
    return Outcome(requirements, tiers, tuple(sorted(changed_ids)))


def _broken(case: CaseResult, own: Tier, rulebook: Mapping[str, Any]) -> Tier | None:
    if case.verdict not in (*BAD, "NON-STRICT"):
        return None
    tiers: list[Tier] = [
        _tier(each, own, rulebook) for each in case.findings if each.level in ("violation", "nonstrict")
    ]
    return gravest(tiers, own)


def _tier(finding: Finding, own: Tier, rulebook: Mapping[str, Any]) -> Tier:
    if finding.source in _HARD:
        return "must"
    if finding.level == "nonstrict":
        return "should" if own == "must" else own
    # An invariant has rules of its own, each of which it breaks; what a scenario expects rests on all of its rules.
    if is_invariant(finding.source):
        return gravest((tier_of([each], rulebook) for each in finding.rules), "must")
    return own


def as_json(found: Outcome) -> dict[str, Any]:
    """Write it for a report."""
    return {
        "set": found.requirements.name,
        "sha256": found.requirements.digest,
        "protocol": found.requirements.protocol,
        "tiers": {
            tier: {"scenarios": each.scenarios, "kept": each.kept, "broken": list(each.broken)}
            for tier, each in found.tiers.items()
        },
        "changed": list(found.changed),
    }


def chosen(requirements: RequirementSet, scenarios: Sequence[Scenario], changed_ids: Collection[str]) -> list[Scenario]:
    """Choose the scenarios of a set, in their order."""
    return [each for each in scenarios if each.id in requirements.scenarios and each.id not in changed_ids]
