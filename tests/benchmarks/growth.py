"""Measures how the cost of each operation grows with its size, and fits exponents.

    .venv/bin/python tests/benchmarks/growth.py [--runs 3] [--only deltas,queue] [--out docs/measurements/growth.md]
    .venv/bin/python tests/benchmarks/growth.py --from docs/measurements/growth.json

Cost is the processor time of the agent process (its children not counted), the least of several runs, so that a busy
machine changes little. The exponent is the slope of a line through the logarithms, by least squares: 1 is linear, 0
constant. It may be 1.1 at most, where the protocol does not demand more. In the cumulative profiles the bytes on stdout
grow with the square of an answer, since each update holds the message twice; there CPU is held against bytes, and bytes
against the two copies. Ends with status 1 if an exponent or a share of bytes is too large.
"""

import argparse
import json
import math
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import plots
from growing_work import OPERATIONS, Bench, Cost, Operation
from side_by_side import install_product, model_server, number

MOST: Final = 1.1
MOST_COPIES: Final = 1.05
CURVES: Final = 7
"""In one plot: more are not told apart."""
LEAST_MS: Final = 0.5
"""What is less is noise."""


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Fit the exponent of cost against size."""
    logs = [(math.log(size), math.log(max(cost, LEAST_MS))) for size, cost in points]
    mean_x, mean_y = (sum(column) / len(logs) for column in zip(*logs, strict=True))
    products = math.fsum((x - mean_x) * (y - mean_y) for x, y in logs)
    return products / math.fsum((x - mean_x) ** 2 for x, _ in logs)


def relative(sizes: Sequence[float], costs: Sequence[float]) -> list[tuple[float, float]]:
    """Make multiples of the smallest size and its cost."""
    points = sorted(zip(sizes, (max(cost, LEAST_MS) for cost in costs), strict=True))
    return [(size / points[0][0], cost / points[0][1]) for size, cost in points]


def measured(bench: Bench, operation: Operation, runs: int) -> list[Cost]:
    """Return the least cost at each size."""
    found: list[Cost] = []
    for size in operation.sizes:
        costs = [operation.measure(bench, size) for _ in range(runs)]
        found.append(min(costs, key=lambda cost: cost.cpu_ms))
    return found


def verdict(operation: Operation, costs: Sequence[Cost]) -> dict[str, Any]:
    """Say how an operation grows, and whether that is too much."""
    value = exponent([(cost.size, cost.cpu_ms) for cost in costs])
    # Of the longest answer: what stands around a message does not grow with it.
    copies = max(costs, key=lambda cost: cost.size).copies
    return {
        "name": operation.name,
        "sizes": [cost.size for cost in costs],
        "cpu_ms": [round(cost.cpu_ms, 3) for cost in costs],
        "exponent": round(value, 3),
        "copies": round(copies, 4),
        "demanded": operation.demanded,
        "is_good": (value <= MOST or bool(operation.demanded)) and copies <= MOST_COPIES,
    }


def rows(verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write the table."""
    lines = ["| operation | sizes | CPU, ms | exponent | |", "|---|---|---|---|---|"]
    for each in verdicts:
        sizes = ", ".join(f"{size:,.0f}" for size in each["sizes"])
        costs = ", ".join(map(number, each["cpu_ms"]))
        copies = f"; bytes {each['copies']:.3f} of two copies" if each["copies"] else ""
        remark = each["demanded"] if each["is_good"] else "**too much**"
        lines.append(f"| {each['name']} | {sizes} | {costs} | {each['exponent']:.2f}{copies} | {remark} |")
    return lines


def write_page(page: Path, data: Mapping[str, Any]) -> None:
    """Write the table and the plots."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    verdicts = data["operations"]
    exponents = page.with_name("growth-exponents.svg")
    plots.bars(
        exponents,
        "Exponents of cost against size (1: linear)",
        [each["name"] for each in verdicts],
        {"fitted": [max(0.0, each["exponent"]) for each in verdicts]},
    )
    drawn: list[Path] = []
    for at in range(0, len(verdicts), CURVES):
        drawn.append(page.with_name(f"growth-{at // CURVES + 1}.svg"))
        curves = {each["name"]: relative(each["sizes"], each["cpu_ms"]) for each in verdicts[at : at + CURVES]}
        longest = max(x for points in curves.values() for x, _ in points)
        curves["linear"] = [(1, 1), (longest, longest)]
        plots.lines(drawn[-1], "Cost against size, both as multiples", ("size", ""), curves, is_log=True)
    parts = [
        "# How costs grow",
        "",
        "Written by `.venv/bin/python tests/benchmarks/growth.py`, which says how it measures; do not edit it.",
        "",
        f"- {data['conditions']}",
        f"- An exponent of {MOST} at most; in the cumulative profiles {MOST_COPIES} times the two copies at most.",
        "",
        *rows(verdicts),
        "",
        f"![exponents]({exponents.name})",
        *(f"\n![costs]({path.name})" for path in drawn),
    ]
    page.write_text("\n".join(parts) + "\n")


def main() -> None:
    """Measure, print and write."""
    names = [operation.key for operation in OPERATIONS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"some of {','.join(names)}")
    parser.add_argument("--out", type=Path, help="write a page; by default it is only printed")
    parser.add_argument("--from", dest="data", type=Path, help="make the page from its JSON file; measure nothing")
    given = parser.parse_args()
    if given.data is not None:
        write_page(given.out or given.data.with_suffix(".md"), json.loads(given.data.read_text()))
        return
    install_product()
    load, begun_s = os.getloadavg()[0], time.monotonic()
    verdicts: list[dict[str, Any]] = []
    root = Path(tempfile.mkdtemp(prefix="pinnace-growth-"))
    try:
        with model_server() as address:
            bench = Bench(root, address)
            for operation in OPERATIONS:
                if given.only is None or operation.key in given.only:
                    verdicts.append(verdict(operation, measured(bench, operation, given.runs)))
                    sys.stderr.write(rows(verdicts)[-1] + "\n")
    finally:
        shutil.rmtree(root)
    print("\n".join(rows(verdicts)))
    if given.out is not None:
        took = f"{(time.monotonic() - begun_s) / 60:.0f} minutes, load {load:.1f} at the beginning"
        versions = f"{os.cpu_count()} cores, CPython {platform.python_version()}"
        day = time.strftime("%Y-%m-%d", time.gmtime())
        conditions = f"{day}: {versions}; least of {given.runs} runs; {took}."
        write_page(given.out, {"conditions": conditions, "operations": verdicts})
    sys.exit(0 if all(each["is_good"] for each in verdicts) else 1)


if __name__ == "__main__":
    main()
