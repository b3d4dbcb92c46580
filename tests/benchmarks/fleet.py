"""Measures batches: what a task costs beside the bare agent, and the memory of the coordinator as tasks grow.

    .venv/bin/python tests/benchmarks/fleet.py [--tasks 100] [--turns 3] [--memory 100,1000,10000]
        [--out docs/measurements/batches.md]

The cost of a task is processor time, of the coordinator and all of its children, in turns with the same number of bare
agents (`pinnace -p`), so that other work on the machine touches both alike. The pages of the sessions, which are made
when all tasks have ended, are measured by themselves. The memory is the peak of a coordinator whose engine answers at
once: what it holds itself. Judges nothing: figures belong to a machine.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, Final

from pinnace_rpc.batch.worker import made_result

COMMAND: Final = (sys.executable, "-P", "-m", "pinnace_rpc")
OFFLINE: Final = ("--provider", "offline")


class _Answering(Executor):
    """Answers each call at once, with a session of usual size."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        task = args[0]["task"]
        future: Future[Any] = Future()
        result = {**made_result("completed", ""), "error": None, "text": "fine " * 100}
        future.set_result({"id": task["id"], "result": result, "verify": None, "session": "x" * 20_000, "stderr": ""})
        return future


def make(_workers: int) -> Executor:
    """Return the engine of the measurement of memory."""
    return _Answering()


def environment(home: Path) -> dict[str, str]:
    """Return that of a user without files."""
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent)]).strip(os.pathsep)
    known = {"PATH": os.environ["PATH"], "HOME": str(home), "PINNACE_OFFLINE_DELAY_MS": "0"}
    return {**known, "PYTHONPATH": path}


def tasks_file(folder: Path, count: int) -> Path:
    """Write tasks."""
    path = folder / f"tasks-{count}.jsonl"
    path.write_text("".join(f"{json.dumps({'id': f't{n}', 'prompt': 'hello'})}\n" for n in range(count)))
    return path


def processor_s(commands: Sequence[Sequence[str]], folder: Path) -> float:
    """Run commands one after the other; return the processor time of all of their processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in commands:
        subprocess.run(
            command, cwd=folder, env=environment(folder), capture_output=True, stdin=subprocess.DEVNULL, check=True
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak_mib(command: Sequence[str], folder: Path) -> float:
    """Return the peak of the memory of a program, in MiB."""
    process = subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=-3, stderr=-3)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_maxrss / 1024


def measured_tasks(folder: Path, count: int, turns: int) -> dict[str, float]:
    """Return what a task costs in milliseconds of a processor: a bare agent, a batch, their difference, a page."""
    bare: list[float] = []
    batch: list[float] = []
    pages: list[float] = []
    tasks = tasks_file(folder, count)
    for turn in range(turns):
        agent = [*COMMAND, *OFFLINE, "-p", "--session-dir", str(folder / f"bare-{turn}"), "hello"]
        bare.append(processor_s([agent] * count, folder) / count)
        out = str(folder / f"out-{turn}")
        words = [*COMMAND, "batch", str(tasks), "--out", out, "--no-pages", *OFFLINE]
        batch.append(processor_s([words], folder) / count)
        pages.append(processor_s([[*COMMAND[:-1], "pinnace_rpc.batch.pages", out]], folder) / count)
    more = statistics.median(b - a for a, b in zip(bare, batch, strict=True))
    middle = [statistics.median(each) * 1000 for each in (bare, batch, pages)]
    return {"bare agent": middle[0], "batch": middle[1], "difference": more * 1000, "page of a session": middle[2]}


def measured_memory(folder: Path, counts: Sequence[int]) -> dict[int, float]:
    """Return the peak of the coordinator in MiB for each number of tasks."""
    found: dict[int, float] = {}
    for count in counts:
        words = [*COMMAND, "batch", str(tasks_file(folder, count)), "--out", str(folder / f"memory-{count}")]
        found[count] = peak_mib([*words, "--engine", "fleet:make", "--workers", "2", "--no-pages"], folder)
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--memory", default="100,1000,10000", help="a comma list of numbers of tasks")
    parser.add_argument("--out", type=Path, help="write a page with its plot; by default it is only printed")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        costs = measured_tasks(folder, options.tasks, options.turns)
        memory = measured_memory(folder, [int(each) for each in options.memory.split(",")])
    of = f"median of {options.turns} turns of {options.tasks}"
    lines = [f"| processor time a task, ms | {' | '.join(costs)} |", f"|---{'|---' * len(costs)}|"]
    lines += [f"| {of} | {' | '.join(f'{each:.1f}' for each in costs.values())} |", ""]
    lines += ["| tasks | memory of the coordinator, MiB |", "|---|---|"]
    lines += [f"| {count:,} | {peak:.1f} |" for count, peak in memory.items()]
    print("\n".join(lines))
    if options.out is not None:
        write_page(options.out, lines, memory, load)


def write_page(page: Path, lines: Sequence[str], memory: Mapping[int, float], load: float) -> None:
    """Write the tables and the plot."""
    import plots

    plot = page.with_name(f"{page.stem}-memory.svg")
    curve = [(float(count), peak) for count, peak in memory.items()]
    flat = [(count, curve[0][1]) for count, _ in curve]
    series = {"coordinator": curve, "flat": flat}
    plots.lines(plot, "Memory of the coordinator, MiB", ("tasks", ""), series, is_log=True)
    day = time.strftime("%Y-%m-%d", time.gmtime())
    conditions = (
        f"{day}: {os.cpu_count()} cores, CPython {platform.python_version()}, load {load:.1f} at the beginning."
    )
    parts = [
        "# What a batch costs",
        "",
        f"Written by `.venv/bin/python tests/benchmarks/fleet.py --out {page}`, which says how it measures;",
        "do not edit it.",
        "",
        f"- {conditions}",
        "",
        *lines,
        "",
        f"![memory of the coordinator]({plot.name})",
    ]
    page.write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
