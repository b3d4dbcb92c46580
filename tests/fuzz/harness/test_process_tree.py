"""Processes that have lost everything by which they are recognised, while runs begin and end beside each other."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from pinnace_fuzz import process_tree
from pinnace_fuzz.process_tree import ORPHANS, kill_each

Children = Iterator[tuple[int, list[str]]]
SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.parametrize("is_meanwhile", [False, True])
def test_a_process_of_a_run_that_begins_beside_is_of_no_other(
    monkeypatch: pytest.MonkeyPatch, is_meanwhile: bool
) -> None:
    """Also if it is started while the processes are looked at."""
    children = process_tree._children
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        ORPHANS.begin("other")
        started.append(subprocess.Popen(SLEEPS, start_new_session=True))

    def begin_and_look() -> Children:
        begin()
        return children()

    with ORPHANS.adopted():
        ORPHANS.begin("own")
        if is_meanwhile:
            monkeypatch.setattr(process_tree, "_children", begin_and_look)
        else:
            begin()
        found = ORPHANS.of("own")
        monkeypatch.undo()
        ORPHANS.end("other")
        ORPHANS.end("own")
        kill_each(each.pid for each in started)
        assert [-9] == [each.wait() for each in started]
    assert set() == found
