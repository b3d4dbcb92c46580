"""What each test costs in processor time: the table `costs.tsv`, and how it is made.

A line for each test function whose cases together need a tenth of a second or more: seconds of all cases, their
number, file, name. `scripts/measure-costs` measures (`tests.cost_meter`) and writes them; of a part of the files it
writes their lines alone. The seconds are rounded to a few steps, so that a table that was measured again differs where
something has changed.
"""

import bisect
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent
TABLE: Final = ROOT / "costs.tsv"
_STEPS_S: Final = sorted(step * 10**decade for decade in range(-1, 4) for step in (1, 1.5, 2, 3, 5, 7))


class Cost(NamedTuple):
    """What the cases of one test function need together."""

    seconds: float
    cases: int

    @property
    def of_a_case_s(self) -> float:
        """In the mean."""
        return self.seconds / self.cases


Test = tuple[Path, str]
"""The file of a test function, and its name."""
Costs = dict[Test, Cost]


def of_node(node_id: str, root: Path) -> Test:
    """Return the test function that a case belongs to, by the case's id and the folder that ids are relative to."""
    file, _, name = node_id.partition("::")
    return root / file, name.partition("[")[0]


def read(table: Path = TABLE) -> Costs:
    """Return the table; a test that it does not have is cheap, or new."""
    found: Costs = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        seconds, cases, file, name = line.split("\t")
        found[table.parent / file, name] = Cost(float(seconds), int(cases))
    return found


def measured(lines: Iterable[str], root: Path) -> Costs:
    """Return the costs in lines of the meter, `SECONDS<tab>TEST`, whose tests are named from `root`."""
    cases: dict[Test, list[float]] = defaultdict(list)
    for line in lines:
        seconds, _, node_id = line.rstrip("\n").partition("\t")
        cases[of_node(node_id, root)].append(float(seconds))
    return {test: Cost(sum(each), len(each)) for test, each in cases.items()}


def merged(old: Mapping[Test, Cost], new: Mapping[Test, Cost]) -> Costs:
    """Return the old costs, but for all tests of the files that have new ones; cheap ones are left out."""
    files = {file for file, _ in new}
    kept = {test: cost for test, cost in old.items() if test[0] not in files and test[0].exists()}
    rounded = {test: cost._replace(seconds=_step(cost.seconds)) for test, cost in new.items()}
    return kept | {test: cost for test, cost in rounded.items() if cost.seconds}


def _step(seconds: float) -> float:
    """Round down; below the smallest step, to 0."""
    place = bisect.bisect_right(_STEPS_S, seconds)
    return _STEPS_S[place - 1] if place else 0


def write(costs: Mapping[Test, Cost], table: Path = TABLE) -> None:
    """Write the table, in the order of files and names."""
    rows = sorted((file.relative_to(table.parent).as_posix(), name, cost) for (file, name), cost in costs.items())
    lines = [f"{cost.seconds:g}\t{cost.cases}\t{file}\t{name}\n" for file, name, cost in rows]
    table.write_text("".join(lines), encoding="utf-8")


def main(folder: Path) -> None:
    """Put what the meter has written into a folder into the table."""
    lines = [line for file in sorted(folder.glob("*.tsv")) for line in file.read_text(encoding="utf-8").splitlines()]
    write(merged(read() if TABLE.exists() else {}, measured(lines, ROOT.parent)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
