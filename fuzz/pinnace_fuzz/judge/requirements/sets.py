"""Reads the frozen sets: which rules and scenarios a protocol had at a date, each with a hash of its content.

A set is one JSON file beside this module, named for its date, and never changes. It holds no scenario, only hashes: one
that has changed since is not judged by that set, and reports name it. The hash of a scenario covers all of it but its
title; the hash of a rule its level, origin and text.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple, cast

from pinnace_spec.nearest import nearest

Tier = Literal["must", "should", "ours"]
"""What a requirement is: one of the protocol, a recommendation, or what this project has added."""
TIERS: Final[tuple[Tier, ...]] = ("must", "should", "ours")
"""The gravest first."""
_SUFFIX: Final = ".json"
_FOLDER: Final = files("pinnace_fuzz.judge.requirements")


class NoSuchSet(Exception):
    """There is no set of that name; the text lists those that there are."""


class Requirement(NamedTuple):
    """A scenario of a set."""

    tier: Tier
    digest: str
    rules: tuple[str, ...]


class RequirementSet(NamedTuple):
    """The requirements of one protocol at a date."""

    name: str
    """The date: `2026-12`."""
    digest: str
    """Of the whole file."""
    protocol: str
    """`rpc 1.5` for a generation of the RPC protocol, or `acp v2` for a version of the Agent Client Protocol."""
    scenarios: Mapping[str, Requirement]
    rules: Mapping[str, str]
    """Id -> hash, of the rules that the scenarios name."""


def rpc(generation: str) -> str:
    """Return what sets call a generation of the RPC protocol."""
    return f"rpc {generation}"


def acp(version: int) -> str:
    """Return what sets call a version of the Agent Client Protocol."""
    return f"acp v{version}"


def digest(content: object) -> str:
    """Return the hash of JSON content, which does not depend on the order of fields."""
    written = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(written.encode("ascii")).hexdigest()


def digest_of_scenario(source: Mapping[str, Any]) -> str:
    """Return the hash of a scenario as it is written, spelled out."""
    return digest({name: value for name, value in source.items() if name != "title"})[:16]


def digest_of_rule(rule: Mapping[str, Any]) -> str:
    """Return the hash of a rule."""
    return digest({name: rule[name] for name in ("level", "origin", "text")})[:16]


def tier_of_rule(rule: Mapping[str, Any] | None) -> Tier:
    """Return the tier of a rule; what is no rule with a text, such as an invariant, is the protocol's."""
    if rule is None or (rule["origin"] != "ours" and rule["level"] == "MUST"):
        return "must"
    return "ours" if rule["origin"] == "ours" else "should"


def tier_of(rules: Iterable[str], rulebook: Mapping[str, Any]) -> Tier:
    """Return the tier of what rests on all of some rules: it binds no more than the weakest of them."""
    found = {tier_of_rule(rulebook.get(each)) for each in rules}
    for tier in reversed(TIERS):
        if tier in found:
            return tier
    return "must"


def gravest(tiers: Iterable[Tier], default: Tier) -> Tier:
    """Return the gravest of some tiers; `default` if there is none."""
    found = set(tiers)
    for tier in TIERS:
        if tier in found:
            return tier
    return default


def names() -> tuple[str, ...]:
    """Return the names of all sets, the oldest first."""
    found = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(each.removesuffix(_SUFFIX) for each in found if each.endswith(_SUFFIX)))


@cache
def content(name: str) -> Mapping[str, Any]:
    """Read the file of a set.

    Raises:
        NoSuchSet: There is none.
    """
    if name not in names():
        near = nearest(name, names())
        raise NoSuchSet(
            f"no set of requirements is called {name!r}: there are {', '.join(names())}"
            + (f"; did you mean {near}?" if near else "")
        )
    text = _FOLDER.joinpath(name + _SUFFIX).read_text(encoding="utf-8")
    return cast("Mapping[str, Any]", json.loads(text))


def requirement_set(name: str, protocol: str) -> RequirementSet:
    """Return the set of a protocol at a date.

    Raises:
        NoSuchSet: There is none.
    """
    found = content(name)
    if protocol not in found["protocols"]:
        raise NoSuchSet(f"the set {name} has no {protocol}: it has {', '.join(found['protocols'])}")
    part = found["protocols"][protocol]
    rulebook = found["rules"][protocol.partition(" ")[0]]
    tiers: dict[str, Tier] = {each: tier for tier in TIERS for each in part[tier]}
    scenarios = found["scenarios"][protocol.partition(" ")[0]]
    return RequirementSet(
        name,
        str(found["sha256"]),
        protocol,
        {
            each: Requirement(tier, scenarios[each]["hash"], tuple(scenarios[each]["rules"]))
            for each, tier in tiers.items()
        },
        {each: rulebook[each] for id_ in tiers for each in scenarios[id_]["rules"] if each in rulebook},
    )
