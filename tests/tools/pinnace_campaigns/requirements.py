"""Makes the next set of requirements from the scenarios and rules of today.

`python -P -m pinnace_campaigns.requirements 2027-06` writes the file into the judge's room of sets. A set is written
once: a file that is there is left as it is.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pinnace_fuzz.acp import reading as acp_reading
from pinnace_fuzz.acp.rules import rules as acp_rules
from pinnace_fuzz.acp.schema import SCHEMAS
from pinnace_fuzz.judge.requirements import sets
from pinnace_fuzz.judge.requirements.sets import (
    TIERS,
    acp,
    digest,
    digest_of_rule,
    digest_of_scenario,
    rpc,
    tier_of,
)
from pinnace_fuzz.judge.scenarios.applicability import concerns
from pinnace_fuzz.judge.scenarios.files import load
from pinnace_spec import data
from pinnace_spec.profiles.generations import GENERATIONS, generation


def made() -> dict[str, Any]:
    """Return the content of a set of today, with its hash."""
    rpc_rules: Mapping[str, Any] = data.table("rules.toml")
    acp_rulebook = {id_: rule._asdict() for id_, rule in acp_rules().items()}
    rpc_scenarios, acp_scenarios = load(), acp_reading.load()
    found = {
        "rules": {"rpc": _rules(rpc_rules, rpc_scenarios), "acp": _rules(acp_rulebook, acp_scenarios)},
        "scenarios": {"rpc": _scenarios(rpc_scenarios), "acp": _scenarios(acp_scenarios)},
        "protocols": {
            **{
                rpc(name): _tiers((each for each in rpc_scenarios if concerns(each, generation(name))), rpc_rules)
                for name in GENERATIONS
            },
            **{
                acp(version): _tiers((each for each in acp_scenarios if each.version == version), acp_rulebook)
                for version in SCHEMAS
            },
        },
    }
    return {"sha256": digest(found), **found}


def _rules(rulebook: Mapping[str, Any], scenarios: Iterable[Any]) -> dict[str, str]:
    named = sorted({rule for scenario in scenarios for rule in scenario.rules if rule in rulebook})
    return {id_: digest_of_rule(rulebook[id_]) for id_ in named}


def _scenarios(scenarios: Iterable[Any]) -> dict[str, Any]:
    found = sorted(scenarios, key=lambda each: str(each.id))
    return {each.id: {"hash": digest_of_scenario(each.source), "rules": list(each.rules)} for each in found}


def _tiers(scenarios: Iterable[Any], rulebook: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {tier: [] for tier in TIERS}
    for each in scenarios:
        # What counts against no agent is required of none.
        if not getattr(each, "not_scored", ""):
            found[tier_of(each.rules, rulebook)].append(each.id)
    return {tier: sorted(ids) for tier, ids in found.items()}


def main() -> None:
    """Write the file of a new set."""
    parser = argparse.ArgumentParser(description="Freeze the requirements of today.")
    parser.add_argument("name", help="the date of the set, such as 2027-06")
    path = Path(sets.__file__).parent / f"{parser.parse_args().name}.json"
    with path.open("x", encoding="utf-8") as file:
        json.dump(made(), file, indent=1, ensure_ascii=True)
        file.write("\n")
    sys.stdout.write(f"{path}\nname its hash in tests/fuzz/judge/test_requirements.py\n")


if __name__ == "__main__":
    main()
