"""Merges the reports of the shards of one run: what comes out is the report of that run.

Refuses what is not one run: shards that are missing or there twice, of other agents, releases, seeds or choices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pinnace_fuzz.judge.coverage import all_cells
from pinnace_fuzz.judge.fleet.sharding import Shard
from pinnace_fuzz.judge.results import HARNESS_EXIT, NOTHING_JUDGED_EXIT

Report = Mapping[str, Any]

_SAME_OF_KIT: Final = ("version", "seed", "strict", "only", "skip", "campaigns", "budget_s")
_SAME_OF_AGENT: Final = ("name", "version", "generation", "is_ours", "adapter", "capabilities")


class NotOneRun(ValueError):
    """The reports are not those of all shards of one run."""


def merged(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the report of the run.

    Raises:
        NotOneRun: They are not its shards.
    """
    by_shard = _in_order(reports)
    first = by_shard[0]
    cases = _cases(by_shard)
    kit = {name: value for name, value in first["kit"].items() if name != "shard"}
    kit["seconds"] = max(each["kit"]["seconds"] for each in by_shard)
    kit["load"] = max((each["kit"]["load"] for each in by_shard), key=lambda load: float(load["late_s"]))
    kit["load"] = {**kit["load"], "is_overloaded": any(each["kit"]["load"]["is_overloaded"] for each in by_shard)}
    return {
        "conform": first["conform"],
        "agent": first["agent"],
        "kit": {**kit, "shards": len(by_shard)},
        "summary": {
            "exit_code": _exit_code([each["summary"]["exit_code"] for each in by_shard]),
            "verdicts": dict(Counter(case["verdict"] for case in cases)),
            "shutdown": dict(Counter(case["shutdown"]["verdict"] for case in cases)),
            "campaigns": _campaigns(by_shard),
            "baseline": {
                name: sorted({each for report in by_shard for each in report["summary"]["baseline"][name]})
                for name in first["summary"]["baseline"]
            },
        },
        "cases": cases,
        "coverage": _coverage([each["coverage"] for each in by_shard]),
        "rules": {name: rule for each in by_shard for name, rule in each["rules"].items()},
    }


def _in_order(reports: Sequence[Report]) -> list[Report]:
    """Return the reports by the numbers of their shards."""
    first = reports[0]
    found: dict[int, Report] = {}
    count = 0
    for report in reports:
        if "shard" not in report.get("kit", {}):
            raise NotOneRun("a report is not that of a shard: it was made without --shard")
        shard = Shard.read(report["kit"]["shard"])
        for part, names in (("kit", _SAME_OF_KIT), ("agent", _SAME_OF_AGENT)):
            for name in names:
                if report[part][name] != first[part][name]:
                    raise NotOneRun(f"shard {shard} has another {part}.{name}: {report[part][name]!r}")
        if shard.number in found:
            raise NotOneRun(f"shard {shard} is there twice")
        if count not in (0, shard.total):
            raise NotOneRun(f"shard {shard} is not one of {count}")
        found[shard.number], count = report, shard.total
    if missing := [str(Shard(number, count)) for number in range(1, count + 1) if number not in found]:
        raise NotOneRun(f"missing: {', '.join(missing)}")
    return [found[number] for number in range(1, count + 1)]


def _cases(by_shard: Sequence[Report]) -> list[dict[str, Any]]:
    """Return the cases: scenarios in the order of one run, then what campaigns have found."""
    seed, count = int(by_shard[0]["kit"]["seed"]), len(by_shard)
    left = [iter([case for case in each["cases"] if case["kind"] == "scenario"]) for each in by_shard]
    cases: list[dict[str, Any]] = []
    for place in range(sum(len(each["cases"]) for each in by_shard)):
        following = next(left[(place + seed) % count], None)
        if following is None:
            break
        cases.append(following)
    return cases + [case for each in by_shard for case in each["cases"] if case["kind"] != "scenario"]


def _campaigns(by_shard: Sequence[Report]) -> dict[str, dict[str, Any]]:
    total: dict[str, dict[str, Any]] = {}
    for report in by_shard:
        for name, campaign in report["summary"]["campaigns"].items():
            known = total.setdefault(name, {})
            for key, value in campaign.items():
                known[key] = value if isinstance(value, str) else round(known.get(key, 0) + value, 1)
    return total


def _coverage(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    cells: Counter[tuple[str, str]] = Counter()
    for part in parts:
        cells.update({(cell["state"], cell["command"]): cell["cases"] for cell in part["cells"]})
    table = {(cell.state, cell.command) for cell in all_cells()}
    never = set(parts[0]["records_never"]).intersection(*(part["records_never"] for part in parts))
    return {
        **parts[0],
        "cells": [{"state": state, "command": name, "cases": n} for (state, name), n in sorted(cells.items())],
        "cells_reached": len(table & cells.keys()),
        "records": _sum(part["records"] for part in parts),
        "records_never": sorted(never),
        "armed": _sum(part["armed"] for part in parts),
    }


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))


def _exit_code(codes: Sequence[int]) -> int:
    """Select that of the run, as one run does: a shard in which nothing was judged says nothing beside others."""
    for code in (HARNESS_EXIT, 1):
        if code in codes:
            return code
    if all(code == NOTHING_JUDGED_EXIT for code in codes):
        return NOTHING_JUDGED_EXIT
    return 2 if 2 in codes else 0
