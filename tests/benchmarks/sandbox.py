"""Measures what the sandbox adds to a command.

    .venv/bin/python tests/benchmarks/sandbox.py [--runs 100]

`bash -c true` through the agent's own shell, without a sandbox and in one of each mechanism, in turns in one process.
Shown are the wall clock time and the processor time of a command with its children, each as median, 10th and 90th
percentile, and the difference of the medians beside its bar. The supervisor of Landlock lives on: its own processor
time is not in the figures, that of what it forks is. A mechanism that does not work here is left out. Judges nothing:
times belong to a machine.
"""

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.sandbox import Unavailable, places_of, set_up
from pinnace_agent.shell.child_processes import ChildProcesses
from pinnace_agent.shell.output import OutputTail
from pinnace_agent.shell.process import run_shell

BAR_MS: Final = 15.0
MECHANISMS: Final = ("bubblewrap", "landlock")
WARM_UP: Final = 5


def processor_s() -> float:
    """Return the processor time of this process and of the children that were reaped."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def measure(children: ChildProcesses, folder: str) -> tuple[float, float]:
    """Run one command and return its wall clock and processor time in milliseconds."""
    processor, started = processor_s(), time.perf_counter()
    await run_shell("true", cwd=folder, output=OutputTail(), env=dict(os.environ), children=children)
    return 1000 * (time.perf_counter() - started), 1000 * (processor_s() - processor)


def row(name: str, values: Sequence[float]) -> str:
    """Write one line."""
    tenths = statistics.quantiles(values, n=10)
    return f"| {name} | {tenths[0]:.1f} | {statistics.median(values):.1f} | {tenths[8]:.1f} |"


async def main(runs: int, folder: str) -> None:
    """Measure and print."""
    kinds = {"off": ChildProcesses()}
    with ExitStack() as stack:
        for mechanism in MECHANISMS:
            policy = SandboxPolicy("workspace-write", mechanism=mechanism)
            try:
                sandbox = set_up(policy, places_of(os.environ, folder), os.environ)
            except Unavailable as reason:
                print(f"{mechanism} is left out: {reason}", file=sys.stderr)
                continue
            stack.callback(sandbox.close)
            kinds[mechanism] = ChildProcesses()
            kinds[mechanism].confinement = sandbox.confinement
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
        for turn in range(runs + WARM_UP):
            for name, children in kinds.items():
                measured = await measure(children, folder)
                if turn >= WARM_UP:
                    found[name].append(measured)
    print("| `bash -c true`, ms | p10 | median | p90 |\n|---|---|---|---|")
    for place, kind in enumerate(("wall clock", "processor")):
        for name, figures in found.items():
            print(row(f"{name}, {kind}", [each[place] for each in figures]))
        medians = {name: statistics.median(each[place] for each in figures) for name, figures in found.items()}
        for name in [each for each in medians if each != "off"]:
            print(f"| added by {name}, {kind} (bar {BAR_MS:.0f}) | | {medians[name] - medians['off']:.1f} | |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "project").mkdir()
        trio.run(main, parser.parse_args().runs, f"{made}/project")
