"""Measures batches: what a task costs beside the bare agent, and the memory of the coordinator as tasks grow.

    .venv/bin/python tests/benchmarks/fleet.py [--tasks 100] [--turns 3] [--memory 100,1000,10000]

The cost of a task is processor time, of the coordinator and all of its children, in turns with the same number of bare
agents (`pinnace -p`), so that other work on the machine touches both alike. The memory is the peak of a coordinator
whose engine answers at once: what it holds itself. Prints two tables. Judges nothing: figures belong to a machine.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--memory", default="100,1000,10000", help="a comma list of numbers of tasks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare: list[float] = []
        batch: list[float] = []
        tasks = tasks_file(folder, options.tasks)
        for turn in range(options.turns):
            agent = [*COMMAND, *OFFLINE, "-p", "--session-dir", str(folder / f"bare-{turn}"), "hello"]
            bare.append(processor_s([agent] * options.tasks, folder) / options.tasks)
            words = [*COMMAND, "batch", str(tasks), "--out", str(folder / f"out-{turn}"), *OFFLINE]
            batch.append(processor_s([words], folder) / options.tasks)
        more = statistics.median(b - a for a, b in zip(bare, batch, strict=True))
        print("| processor time a task, ms | bare agent | batch | difference |\n|---|---|---|---|")
        middle = [statistics.median(each) * 1000 for each in (bare, batch)]
        of = f"median of {options.turns} turns of {options.tasks}"
        print(f"| {of} | {middle[0]:.0f} | {middle[1]:.0f} | {more * 1000:.1f} |\n")
        print("| tasks | memory of the coordinator, MiB |\n|---|---|")
        for count in map(int, options.memory.split(",")):
            words = [*COMMAND, "batch", str(tasks_file(folder, count)), "--out", str(folder / f"memory-{count}")]
            peak = peak_mib([*words, "--engine", "fleet:make", "--workers", "2"], folder)
            print(f"| {count:,} | {peak:.1f} |", flush=True)


if __name__ == "__main__":
    main()
