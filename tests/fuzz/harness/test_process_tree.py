"""Processes that have lost everything by which they are recognised, while runs begin and end beside each other."""

import os
import subprocess
import sys

import pytest

from pinnace_fuzz import process_tree
from pinnace_fuzz.process_tree import ORPHANS, RUN_VARIABLE, kill_each, processes_of, processes_with

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.parametrize("is_meanwhile", [False, True])
def test_a_process_of_a_run_that_begins_beside_is_of_no_other(is_meanwhile: bool) -> None:
    """Also if it is started while the processes are looked at."""
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        ORPHANS.begin("other")
        started.append(subprocess.Popen(SLEEPS, start_new_session=True))

    def begin_and_look() -> process_tree.Stats:
        begin()
        return process_tree.all_stats()

    with ORPHANS.adopted():
        ORPHANS.begin("own")
        if not is_meanwhile:
            begin()
        found = ORPHANS.of("own", begin_and_look if is_meanwhile else process_tree.all_stats)
        ORPHANS.end("other")
        ORPHANS.end("own")
        kill_each(each.pid for each in started)
        assert [-9] == [each.wait() for each in started]
    assert set() == found


def test_a_run_that_is_counted_has_the_processes_that_a_look_at_all_of_them_finds() -> None:
    """Of those that are older than a run only the age is read: also one that began in its first tick is younger."""
    for _ in range(5):
        run_id = f"counted-{os.urandom(8).hex()}"
        ORPHANS.begin(run_id)
        env = {**os.environ, RUN_VARIABLE: run_id}
        script = (
            "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], env={}).pid, flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", script, *SLEEPS], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            counted, all_of_them = processes_of(run_id), processes_with(f"{RUN_VARIABLE}={run_id}".encode())
            kill_each(counted)
        ORPHANS.end(run_id)

        assert {parent.pid, child} == set(counted) == set(all_of_them)
