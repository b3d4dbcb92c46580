"""Measures what the watchdog costs a command, and how soon after kill -9 of the agent its commands are gone.

    .venv/bin/python tests/benchmarks/command_watchdog.py [--runs 300]

Commands run one after the other in this process, with and without the watchdog in turns. Prints milliseconds. Judges
nothing: times belong to a machine.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.shell.child_processes import ChildProcesses
from pinnace_agent.shell.output import OutputTail
from pinnace_agent.shell.process import run_shell
from pinnace_agent.shell.watchdog import CommandWatchdog

KILLED: Final = """
import os, subprocess
from pinnace_agent.shell.watchdog import WATCHDOG
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
WATCHDOG.add("0.none", child.pid)
print(child.pid, flush=True)
os.read(0, 1)
"""


class NoWatchdog(CommandWatchdog):
    """Starts nothing and kills nothing."""

    def prepare(self) -> None:
        """Start nothing."""

    def add(self, mark: str, pid: int) -> None:
        """Leave it alone."""

    def discard(self, mark: str) -> None:
        """Leave it alone."""


async def command_ms(children: ChildProcesses) -> float:
    """Run the shortest command there is."""
    begun_s = time.perf_counter()
    await run_shell("true", cwd="/", output=OutputTail(), children=children)
    return (time.perf_counter() - begun_s) * 1000


async def commands_ms(runs: int) -> tuple[list[float], list[float]]:
    """Run commands with and without the watchdog."""
    watched, unwatched = ChildProcesses(), ChildProcesses(NoWatchdog())
    await command_ms(watched)
    pairs = [(await command_ms(watched), await command_ms(unwatched)) for _ in range(runs)]
    return [each for each, _ in pairs], [each for _, each in pairs]


def start_ms() -> float:
    """Start a watchdog."""
    watchdog = CommandWatchdog()
    begun_s = time.perf_counter()
    watchdog.prepare()
    taken_s = time.perf_counter() - begun_s
    watchdog.leave_to_the_parent()
    return taken_s * 1000


def death_ms() -> float:
    """Kill a process that has a command, and wait until that has gone."""
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        begun_s = time.perf_counter()
        os.kill(process.pid, signal.SIGKILL)
        while _is_alive(child):
            time.sleep(0.0002)
        return (time.perf_counter() - begun_s) * 1000


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    runs = parser.parse_args().runs
    watched, unwatched = trio.run(commands_ms, runs)
    few = max(10, runs // 10)
    rows: Sequence[tuple[str, list[float]]] = (
        ("a command, with the watchdog", watched),
        ("a command, without it", unwatched),
        ("the first command: starting the watchdog", [start_ms() for _ in range(few)]),
        ("from kill -9 of the agent to the end of its command", [death_ms() for _ in range(few)]),
    )
    print("| | median, ms | 95th percentile, ms |\n|---|---|---|")
    for name, times in rows:
        print(f"| {name} | {statistics.median(times):.2f} | {sorted(times)[len(times) * 95 // 100]:.2f} |")


if __name__ == "__main__":
    main()
