"""Processes that have lost everything by which they are recognised, while runs begin and end beside each other."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_fuzz import process_tree
from pinnace_fuzz.process_tree import ORPHANS, RUN_VARIABLE, given_since, kill_each, processes_of, processes_with

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


@given(
    order=st.lists(st.integers(1, 60), min_size=3, unique=True).map(sorted),
    turned=st.integers(0, 59),
    begun=st.integers(0, 59),
)
def test_ids_since_a_moment_are_those_that_were_given_then(order: list[int], turned: int, begun: int) -> None:
    """The system goes through all ids, and begins anew."""
    given_ids = order[turned % len(order) :] + order[: turned % len(order)]
    first = begun % len(given_ids)

    assert set(given_ids[first + 1 :]) == set(given_since(given_ids[first], given_ids[-1], order))


@pytest.mark.parametrize("all_new_s", [10.0, -1.0], ids=["new ones alone", "all"])
def test_a_run_that_is_counted_has_the_processes_that_a_look_at_all_of_them_finds(
    all_new_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that are older than a run only the age is read: also one that began in its first tick is younger."""
    monkeypatch.setattr(process_tree, "_ALL_NEW_S", all_new_s)
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
