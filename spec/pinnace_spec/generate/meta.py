"""Writes the index for programs in any language: every name of the protocol, which way it goes, and since when."""

import json
from typing import Any

from pinnace_spec.generate.rulebook import row_name
from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.profiles.generations import GENERATIONS, Kind, Lifetime, generation, lifetimes
from pinnace_spec.profiles.profiles import DEFAULT_PROFILE, PROFILES
from pinnace_spec.rules.errors import ErrorCode
from pinnace_spec.rules.limits import PUBLISHED
from pinnace_spec.statechart.transitions import COMMANDS, INITIAL, REGIONS, STATES


def meta(spec: Spec) -> str:
    """Return `meta.json`."""
    content = {
        "$comment": NOTE,
        "generations": {name: _generation(name) for name in GENERATIONS},
        "profiles": {"default": DEFAULT_PROFILE, "names": list(PROFILES)},
        "limits": PUBLISHED,
        "commands": _lives("commands", "in"),
        "records": {"response": {"direction": "out", "generations": list(GENERATIONS)}, **_lives("records", "out")},
        "roles": _lives("roles", "out"),
        "errorCodes": [code.value for code in ErrorCode],
        "chart": {
            "regions": {
                region: {
                    "states": list(STATES[region]),
                    "initial": INITIAL[region],
                    "commands": list(COMMANDS[region]),
                }
                for region in REGIONS
            },
            "rows": {row_name(row): list(row.rules) for row in spec.rows},
        },
        "rules": {
            rule.id: {
                "level": rule.level,
                "origin": rule.origin,
                "generations": list(rule.generations or GENERATIONS),
                "witness": list(rule.witness),
            }
            for rule in spec.rules.values()
        },
        "deviations": {each.id: each.rule for each in spec.deviations.values()},
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _generation(name: Any) -> dict[str, Any]:
    it = generation(name)
    return {"release": it.release, "isOurs": it.is_ours, "about": it.about}


def _lives(kind: Kind, direction: str) -> dict[str, Any]:
    return {name: {"direction": direction, **_life(kind, name, life)} for name, life in lifetimes(kind).items()}


def _life(kind: Kind, name: str, life: Lifetime) -> dict[str, Any]:
    dates = {"since": life.since, "until": life.until, "published": life.published, "ours": life.ours}
    return {
        **{key: value for key, value in dates.items() if value is not None},
        "generations": [each for each in GENERATIONS if name in getattr(generation(each), kind)],
    }
