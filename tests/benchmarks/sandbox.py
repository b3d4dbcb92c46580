"""Measures what the sandbox adds to a command.

    .venv/bin/python tests/benchmarks/sandbox.py [--runs 100]

`bash -c true` through the agent's own shell, with and without a sandbox, in turns in one process. Shown are the wall
clock time and the processor time of a command with its children, each as median and 90th percentile, and the
difference of the medians beside its bar. Judges nothing: times belong to a machine.
"""

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.sandbox import places_of, set_up
from pinnace_agent.shell.child_processes import ChildProcesses
from pinnace_agent.shell.output import OutputTail
from pinnace_agent.shell.process import run_shell

BAR_MS: Final = 15.0
WARM_UP: Final = 5


def processor_s() -> float:
    """Return the processor time of this process and of the children that were reaped."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def measure(children: ChildProcesses, folder: str) -> tuple[float, float]:
    """Run one command and return its wall clock and processor time in milliseconds."""
    processor, started = processor_s(), time.perf_counter()
    await run_shell("true", cwd=folder, output=OutputTail(sanitise=False), env=dict(os.environ), children=children)
    return 1000 * (time.perf_counter() - started), 1000 * (processor_s() - processor)


def row(name: str, values: Sequence[float]) -> str:
    """Write one line."""
    tenths = statistics.quantiles(values, n=10)
    return f"| {name} | {statistics.median(values):.1f} | {tenths[8]:.1f} |"


async def main(runs: int, folder: str) -> None:
    """Measure and print."""
    sandbox = set_up(SandboxPolicy("workspace-write"), places_of(os.environ, folder), os.environ)
    inside, outside = ChildProcesses(), ChildProcesses()
    inside.confinement = sandbox.confinement
    found: dict[str, list[tuple[float, float]]] = {"off": [], "workspace-write": []}
    try:
        for turn in range(runs + WARM_UP):
            for name, children in (("off", outside), ("workspace-write", inside)):
                measured = await measure(children, folder)
                if turn >= WARM_UP:
                    found[name].append(measured)
    finally:
        sandbox.close()
    print("| `bash -c true`, ms | median | p90 |\n|---|---|---|")
    for place, kind in enumerate(("wall clock", "processor")):
        for name, figures in found.items():
            print(row(f"{name}, {kind}", [each[place] for each in figures]))
        off, on = (statistics.median(each[place] for each in figures) for figures in found.values())
        print(f"| added, {kind} (bar {BAR_MS:.0f}) | {on - off:.1f} | |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "project").mkdir()
        trio.run(main, parser.parse_args().runs, f"{made}/project")
