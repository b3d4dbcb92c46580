"""Which tests are campaigns: `scripts/check` leaves them to `scripts/check all`.

A campaign searches a promise widely, starts many programs for it, or compares with other programs: whole files of
such tests are named in `campaigns.toml`. Campaigns are also the tests that a person would wait for, by `costs.tsv`:
those that cost more than `QUICK_S`, and of a table of cases that together do, all but as many as cost that, evenly
spread, the first among them; but of a file of which no test would stay, the cheapest does. A test that is in neither
table is none, unless it is marked `campaign` where it stands.

A smaller test of the same behaviour should stay beside a campaign.

Some tests take turns where TEST_TURNS says in how many runs each has one, as `.ci/run` does: those of a run are chosen
by its PYTHONHASHSEED. They guard a check or a recording, and hold until that is changed.
"""

import os
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pytest
from tests import costs

ROOT: Final = Path(__file__).parent
QUICK_S: Final = 0.15
"""Seconds of processor that a test function may cost in `scripts/check`."""
TABLE: Final[Mapping[str, Mapping[str, Any]]] = tomllib.loads((ROOT / "campaigns.toml").read_text(encoding="utf-8"))
FILES: Final = frozenset(ROOT / name for group in TABLE.values() for name in group.get("files", ()))
IN_TURNS: Final = frozenset(
    (ROOT / file, name)
    for group in TABLE.values()
    for file, names in group.get("in_turns", {}).items()
    for name in names
)
TURNS: Final = int(os.environ.get("TEST_TURNS") or 1)
"""In how many runs each case of the tables that are proved in turns has its turn, in the mean."""
COSTS: Final = costs.read()


@cache
def is_whole_campaign(path: Path) -> bool:
    """Whether the table names this file, or a folder that it is in."""
    return path in FILES or not FILES.isdisjoint(path.parents)


def stays(cost: costs.Cost, place: int) -> bool:
    """Whether the case at this place, from 0, of a function with this cost is no campaign."""
    kept = int(QUICK_S / cost.of_a_case_s)
    return place * kept // cost.cases != (place - 1) * kept // cost.cases


def campaigns(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return the tests of one collection that are left to `scripts/check all`. Of each file that is read one stays."""
    found: set[pytest.Item] = set()
    cases: Counter[costs.Test] = Counter()
    dear: dict[Path, list[tuple[float, pytest.Item]]] = {}
    for item in items:
        test = costs.of_node(item.nodeid, item.config.rootpath)
        cost = COSTS.get(test)
        is_whole = is_whole_campaign(item.path)
        if is_whole or (cost is not None and not stays(cost, cases[test])):
            found.add(item)
        if not is_whole:
            seconds = cost.of_a_case_s if cost is not None and item in found else 0.0
            dear.setdefault(item.path, []).append((seconds, item))
        cases[test] += 1
    for each in dear.values():
        found.discard(min(each, key=itemgetter(0))[1])
    return found


def has_turn(item: pytest.Item, turns: int, seed: str) -> bool:
    """Whether a run with this seed proves a test, when tables are proved in so many turns."""
    if costs.of_node(item.nodeid, item.config.rootpath) not in IN_TURNS:
        return True
    return crc32(f"{seed} {item.nodeid}".encode()) % turns == 0
