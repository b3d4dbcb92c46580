"""`pinnace batch` on Dask and on Ray: real clusters of two worker processes on this machine.

Both are in an environment of their own (scripts/peers), since a user need not have them.
"""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.docs.test_pages import BLOCKS
from tests.ports import unused_port
from tests.rpc.batch.test_batch import TIMEOUT_S, Bench
from tests.source_tree import REPOSITORY

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.process_tree import parent_of, state_of

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


def tasks_of(count: int) -> list[Task]:
    return [{"id": f"t{number}", "prompt": f"run `echo {number}`", "verify": "true"} for number in range(count)]


def compared(bench: Bench) -> dict[str, list[Any]]:
    return {name: [line[key] for key in COMPARED] + [line["verify"]] for name, line in bench.results.items()}


def gated_task(bench: Bench, gate: ShellGate) -> Task:
    """A task that notes its agent, and waits."""
    return {"id": "gated", "prompt": f"run `echo $PPID > pid; {gate.reading}`", "cwd": str(bench.folder)}


def kill_worker(bench: Bench, gate: ShellGate) -> int:
    """Kill the worker that runs the task; return its agent."""
    gate.wait_reached()
    agent = int((bench.folder / "pid").read_text())
    os.kill(parent_of(agent), signal.SIGKILL)
    return agent


def assert_continued(bench: Bench, gated: Task, agent: int) -> None:
    """Assert that the task continued its session, and that no prompt ran twice."""
    assert len(bench.lines) == len(bench.results)
    assert [gated["prompt"], "Continue where you were interrupted."] == bench.asked("gated")
    asked = {name: bench.asked(name) for name in bench.results}
    assert {} == {name: texts for name, texts in asked.items() if 1 != sum(each.startswith("run ") for each in texts)}
    assert state_of(agent) in "ZX"  # who adopts it may not reap it at once


def test_results_are_the_same_on_every_engine_and_a_ray_worker_that_is_killed_costs_its_attempt(
    tmp_path: Path, gates: Callable[[], ShellGate]
) -> None:
    """R-BAT-02."""
    found = []
    for name in ("processes", "dask", "ray"):
        folder = tmp_path / name[0]  # the model counts the prompt, which names the folder
        folder.mkdir()
        bench, gate = Bench(folder), gates()
        gated = gated_task(bench, gate)
        process = batch(bench, [*([gated] if name == "ray" else []), *tasks_of(4)], "--engine", name)
        agent = kill_worker(bench, gate) if name == "ray" else None
        _, err = process.communicate(timeout=TIMEOUT_S)
        assert 0 == process.returncode, err
        if agent is not None:
            assert_continued(bench, gated, agent)
        found.append({task: values for task, values in compared(bench).items() if task != "gated"})

    assert 4 == len(found[0])
    assert found[0] == found[1] == found[2]


def test_a_dask_worker_of_the_cluster_of_the_page_may_be_killed(bench: Bench, gates: Callable[[], ShellGate]) -> None:
    """R-BAT-02, with the commands of docs/fleet.md as they are, but for the port."""
    (block,) = [each.text for each in BLOCKS if each.page == "docs/fleet.md" and each.text.startswith("dask scheduler")]
    commands = block.replace("8786", str(unused_port()))
    gate = gates()
    gated = gated_task(bench, gate)
    bench.command([gated, *tasks_of(3)])  # writes the tasks
    bench.out = bench.folder / "results"
    (bench.folder / "bin").mkdir()
    program = bench.folder / "bin" / "pinnace"
    program.write_text(f'#!/bin/sh\nexec {PYTHON} -P -m pinnace_rpc "$@" --provider offline --no-pages\n')
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), str(PYTHON.parent), os.environ["PATH"]])
    with (bench.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", commands],
            env={**bench.env, "PATH": path},
            cwd=bench.folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        agent = kill_worker(bench, gate)
        code = process.wait(TIMEOUT_S)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the cluster
        process.wait()

    assert 0 == code, (bench.folder / "log").read_text()
    assert 4 == len(bench.results)
    assert_continued(bench, gated, agent)
