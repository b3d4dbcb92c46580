"""Which tests are campaigns: `scripts/check` leaves them to `scripts/check all`. The table is `campaigns.toml`.

A campaign searches a promise widely, starts many programs for it, or compares with other programs. A smaller test of
the same behaviour, that is none, should stay beside it. A test that is in no table is none, unless it is marked
`campaign` where it stands.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest

ROOT: Final = Path(__file__).parent
TABLE: Final[Mapping[str, Mapping[str, Any]]] = tomllib.loads((ROOT / "campaigns.toml").read_text(encoding="utf-8"))


def _entries(kind: str) -> dict[Path, list[str]]:
    return {ROOT / file: names for group in TABLE.values() for file, names in group.get(kind, {}).items()}


FILES: Final = frozenset(ROOT / name for group in TABLE.values() for name in group.get("files", ()))
TESTS: Final = _entries("tests")
TABLES: Final = {
    file: {test: parameters.split() for test, _, parameters in (name.partition("@") for name in names)}
    for file, names in _entries("tables").items()
}
"""By file: parametrized tests of which a case stays, and the parameters of which each combination of values has one."""


@cache
def is_whole_campaign(path: Path) -> bool:
    """Whether the table names this file, or a folder that it is in."""
    return path in FILES or not FILES.isdisjoint(path.parents)


class Tiers:
    """Decides for the tests of one collection, in their order."""

    def __init__(self) -> None:
        self._seen: set[tuple[object, ...]] = set()

    def is_campaign(self, item: pytest.Item) -> bool:
        """Whether a test is left to `scripts/check all`; each test is asked about once."""
        path = item.path
        name: str = getattr(item, "originalname", None) or item.name
        if is_whole_campaign(path) or name in TESTS.get(path, ()):
            return True
        parameters = TABLES.get(path, {}).get(name)
        if parameters is None:
            return False
        values = cast("pytest.Function", item).callspec.params  # cast: only functions have parameters
        # By identity: they need not be hashable, and all cases of a test share them.
        case = path, name, *(id(values[each]) for each in parameters)
        if case in self._seen:
            return True
        self._seen.add(case)
        return False
