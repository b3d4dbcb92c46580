"""Runs the same batch on each engine, with losses, and compares the results.

    .venv/bin/python tests/benchmarks/fleet_engines.py [--tasks 1000] [--engines processes,dask,ray] [--judge]

All engines at once: processes; a Dask cluster over TCP, of a scheduler and two workers; a Ray cluster of two workers.
When a quarter of the tasks has ended a worker of Dask or Ray is killed, when half of them has the coordinator is, and
the same command finishes the batch. Exits with 1 unless every task has exactly one result, no prompt ran twice, and the
results are the same on all engines, without the tasks that continued a session. Dask and Ray are those of
`scripts/peers`. With `--judge`, also: the judge's report of two shards on each engine is that of one run, for three
seeds.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[2]
PYTHON: Final = REPOSITORY / ".tools" / "engines" / "bin" / "python"
ROOTS: Final = os.pathsep.join(str(REPOSITORY / name) for name in ("spec", "statechart", "agent", "rpc", "fuzz"))
COMPARED: Final = ("reason", "retryable", "exitCode", "text", "turns", "toolCalls", "usage", "cost", "model", "error")
CONTINUED: Final = "Continue where you were interrupted."
SEEDS: Final = (7, 20261124, 4_000_000_001)
_LOOK_S: Final = 0.2


class Outcome(NamedTuple):
    """What one engine has done."""

    results: Mapping[str, Sequence[Any]]
    """Of the tasks that were not interrupted."""
    interrupted: frozenset[str]
    lost: int
    """How many calls lost their worker."""


def environment(home: Path) -> dict[str, str]:
    """Return that of a user without files, whose Python has Dask and Ray."""
    path = os.pathsep.join([str(PYTHON.parent), os.environ["PATH"]])
    return {"PATH": path, "HOME": str(home), "PYTHONPATH": ROOTS, "PINNACE_OFFLINE_DELAY_MS": "0"}


def free_port() -> int:
    """Return a port that nothing uses."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def programs(commands: Sequence[Sequence[str]], folder: Path) -> Iterator[None]:
    """Run programs, and end them with all that they have started."""
    null = subprocess.DEVNULL
    started = [
        subprocess.Popen(each, cwd=folder, env=environment(folder), stdout=null, stderr=null, start_new_session=True)
        for each in commands
    ]
    try:
        yield
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def engine(name: str, folder: Path) -> Iterator[str]:
    """Start the cluster of an engine, and return the words of `--engine`."""
    address = f"127.0.0.1:{free_port()}"
    host, _, port = address.partition(":")
    if name == "dask":
        worker = ["dask", "worker", f"tcp://{address}", "--nthreads", "1", "--no-dashboard"]
        scheduler = ["dask", "scheduler", "--host", host, "--port", port, "--no-dashboard"]
        with programs([scheduler, worker, worker], folder):
            yield f"dask:tcp://{address}"
    elif name == "ray":
        # The socket of Ray has a long name of its own.
        with tempfile.TemporaryDirectory(prefix="ray") as place:
            words = ["--head", "--port", port, "--num-cpus", "2", "--include-dashboard", "false", "--temp-dir", place]
            with programs([["ray", "start", *words, "--block"]], folder):
                wait_until(lambda: _answers(host, int(port)))
                yield f"ray:{address}"
    else:
        yield name


def _answers(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), 1):
        return True
    return False


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for something that comes."""
    while not is_so():
        time.sleep(_LOOK_S)


def run(name: str, count: int, folder: Path) -> Outcome:
    """Run the batch on one engine, with its losses."""
    folder.mkdir()
    tasks = [{"id": f"t{n}", "prompt": f"run `echo {n}`", "verify": "true"} for n in range(count)]
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in tasks))
    errors = b""
    with engine(name, folder) as words:
        batch = [str(PYTHON), "-P", "-m", "pinnace_rpc", "batch", "tasks.jsonl", "--out", "out", "--workers", "2"]
        command = [*batch, "--engine", words, "--provider", "offline", "--no-pages"]
        process = _start(command, folder)
        wait_until(lambda: _ended(folder) >= count // 4 or process.poll() is not None)
        if name != "processes":
            os.kill(_a_worker(folder), signal.SIGKILL)
        wait_until(lambda: _ended(folder) >= count // 2 or process.poll() is not None)
        process.kill()
        errors += process.communicate()[1]
        process = _start(command, folder)
        errors += process.communicate()[1]
        if process.returncode:
            raise SystemExit(f"{name}: ended with {process.returncode}\n{errors.decode()[-2000:]}")
    return _outcome(folder, tasks, errors)


def _start(command: Sequence[str], folder: Path) -> "subprocess.Popen[bytes]":
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=null, stderr=pipe)


def _ended(folder: Path) -> int:
    with suppress(FileNotFoundError):
        return (folder / "out" / "results.jsonl").read_bytes().count(b"\n")
    return 0


def _a_worker(folder: Path) -> int:
    """Return the process that runs an agent of the batch: the parent of one."""
    sign = f"{folder}/out/work/".encode()
    while True:
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if entry.name.isdigit() and sign in (entry / "cmdline").read_bytes():
                    return int((entry / "stat").read_text().rpartition(")")[2].split()[1])


def _outcome(folder: Path, tasks: Sequence[Mapping[str, Any]], errors: bytes) -> Outcome:
    lines = [json.loads(line) for line in (folder / "out" / "results.jsonl").read_text().splitlines()]
    if sorted(line["id"] for line in lines) != sorted(task["id"] for task in tasks):
        raise SystemExit(f"{folder.name}: {len(lines)} results of {len({line['id'] for line in lines})} tasks")
    interrupted: set[str] = set()
    results: dict[str, list[Any]] = {}
    prompts = {task["id"]: task["prompt"] for task in tasks}
    for line in lines:
        asked = _asked(folder / "out" / "sessions" / f"{line['id']}.jsonl")
        if asked.count(prompts[line["id"]]) != 1:
            raise SystemExit(f"{folder.name}: {line['id']} was asked {asked}")
        if asked == [prompts[line["id"]]] and line["turns"] == 2:
            results[line["id"]] = [line[key] for key in COMPARED] + [line["verify"]]
        else:
            interrupted.add(line["id"])
    return Outcome(results, frozenset(interrupted), errors.count(b"its worker was lost"))


def _asked(session: Path) -> list[str]:
    """Return the user's messages, without those that an agent returned before they ran, since it was ended."""
    entries = [json.loads(line) for line in session.read_text().splitlines()]
    left = {entry["data"]["left"] for entry in entries if entry.get("customType") == "pinnace.leaf"}
    messages = [entry["message"] for entry in entries if entry["type"] == "message" and entry["id"] not in left]
    return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


def judge(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Return the report of a small run, whole or on an engine, without what is chance."""
    agent = [sys.executable, str(REPOSITORY / "tests" / "fuzz" / "judge" / "tiny_agent.py"), "dies-of-null"]
    options = ["--adapter", "none", "--only", "ERR/no-", "--only", "FRM/c", "--patience", "0.3", "--report", "json"]
    options += ["--seed", str(seed), "--out", "judged"]
    with engine(name, folder) as words:
        options += [] if name == "one run" else ["--engine", words, "--shards", "2"]
        command = [str(PYTHON), "-P", "-m", "pinnace_fuzz.judge.cli", *options, "--", *agent]
        done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, check=False)
    if done.returncode != 1:
        raise SystemExit(f"{name}: ended with {done.returncode}\n{done.stderr.decode()[-2000:]}")
    report: dict[str, Any] = json.loads((folder / "judged" / "report.json").read_text())
    cases = [[case[key] for key in ("id", "kind", "verdict", "counts", "reproduced")] for case in report["cases"]]
    return {"cases": cases, "summary": report["summary"], "cells": report["coverage"]["cells"]}


def main() -> int:
    """Run, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--engines", default="processes,dask,ray")
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    names = options.engines.split(",")
    with tempfile.TemporaryDirectory(prefix="fleet-") as place:
        folder = Path(place)
        # The model counts the prompt, which names the folder: as many characters for all.
        with ThreadPoolExecutor(len(names)) as pool:
            found = dict(
                zip(names, pool.map(lambda name: run(name, options.tasks, folder / name[0]), names), strict=True)
            )
        print(
            "| engine | tasks | calls lost, as the engine reports | tasks that continued a session |\n|---|---|---|---|"
        )
        for name, outcome in found.items():
            print(f"| {name} | {options.tasks:,} | {outcome.lost} | {len(outcome.interrupted)} |", flush=True)
        skipped = frozenset[str]().union(*(each.interrupted for each in found.values()))
        kept = [{task: each.results[task] for task in each.results.keys() - skipped} for each in found.values()]
        are_same = all(each == kept[0] for each in kept)
        print(f"\n{len(kept[0]):,} results compared: {'the same' if are_same else 'DIFFERENT'}")
        if options.judge:
            for seed in SEEDS:
                reports = [judge(name, seed, folder) for name in ("one run", *names)]
                are_same = are_same and all(each == reports[0] for each in reports)
                verdict = "the same" if all(each == reports[0] for each in reports) else "DIFFERENT"
                print(f"seed {seed}, judged as one run and by {', '.join(names)}: {verdict}", flush=True)
    return 0 if are_same else 1


if __name__ == "__main__":
    sys.exit(main())
