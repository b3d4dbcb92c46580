"""`pinnace batch` on Dask and on Ray: real clusters of two worker processes on this machine.

Both are in an environment of their own (scripts/peers), since a user need not have them.
"""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.batch.test_batch import TIMEOUT_S, Bench
from tests.source_tree import REPOSITORY

from pinnace_fuzz.harness.shell_gate import ShellGate

PYTHON = REPOSITORY / ".tools" / "engines" / "bin" / "python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="Dask and Ray are not installed (scripts/peers)")
COMPARED = ("reason", "retryable", "exitCode", "text", "turns", "toolCalls", "usage", "cost", "model", "error")
Task = dict[str, Any]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def batch(bench: Bench, tasks: list[Task], *words: str) -> "subprocess.Popen[str]":
    command = [str(PYTHON), *bench.command(tasks, *words)[1:]]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=bench.env, cwd=bench.folder, stdout=pipe, stderr=pipe, text=True)


@contextmanager
def dask_cluster(bench: Bench, workers: int) -> Iterator[tuple[str, list["subprocess.Popen[str]"]]]:
    """A scheduler, and workers that are processes of their own, over TCP."""
    place = bench.folder / "scheduler.json"
    words = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    started = [_dask(bench, [*words, "--scheduler-file", str(place)])]
    try:
        while not place.exists() or not place.read_text().endswith("}"):
            assert started[0].poll() is None
        for number in range(workers):
            words = ["-m", "distributed.cli.dask_worker", "--scheduler-file", str(place), "--nthreads", "1"]
            words += ["--no-nanny", "--no-dashboard", "--name", str(number), "--local-directory", str(bench.folder)]
            started.append(_dask(bench, words))
        yield json.loads(place.read_text())["address"], started[1:]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _dask(bench: Bench, words: list[str]) -> "subprocess.Popen[str]":
    null = subprocess.DEVNULL
    return subprocess.Popen([str(PYTHON), *words], env=bench.env, cwd=bench.folder, stdout=null, stderr=null, text=True)


def tasks_of(count: int) -> list[Task]:
    return [{"id": f"t{number}", "prompt": f"run `echo {number}`", "verify": "true"} for number in range(count)]


def compared(bench: Bench) -> dict[str, list[Any]]:
    return {name: [line[key] for key in COMPARED] + [line["verify"]] for name, line in bench.results.items()}


def test_results_are_the_same_on_every_engine(tmp_path: Path) -> None:
    found = []
    for name in ("processes", "dask", "ray"):
        folder = tmp_path / name[0]  # the model counts the prompt, which names the folder
        folder.mkdir()
        bench = Bench(folder)
        process = batch(bench, tasks_of(4), "--engine", name)
        _, err = process.communicate(timeout=TIMEOUT_S)
        assert 0 == process.returncode, err
        assert 4 == len(bench.lines)
        found.append(compared(bench))

    assert found[0] == found[1] == found[2]


def test_a_dask_worker_that_is_killed_costs_nothing_but_its_attempt(
    bench: Bench, gates: Callable[[], ShellGate]
) -> None:
    """R-BAT-02: over TCP, with workers that are processes of their own."""
    gate = gates()
    gated: Task = {"id": "gated", "prompt": f"run `echo $PPID > pid; {gate.reading}`", "cwd": str(bench.folder)}
    with dask_cluster(bench, 2) as (address, workers):
        process = batch(bench, [gated, *tasks_of(3)], "--engine", f"dask:{address}")
        gate.wait_reached()
        agent = int((bench.folder / "pid").read_text())
        worker = next(each for each in workers if _parent(agent) == each.pid)
        worker.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=TIMEOUT_S)

    assert 0 == process.returncode, err
    assert 4 == len(bench.lines) == len(bench.results)
    assert [gated["prompt"], "Continue where you were interrupted."] == bench.asked("gated")
    assert _state(agent) in "ZX"


def _state(pid: int) -> str:
    """Return the state of a process as the system has it; X: it is gone. Who adopts it may not reap it at once."""
    try:
        return _stat(pid)[0]
    except FileNotFoundError:
        return "X"


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
