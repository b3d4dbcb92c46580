"""The lock that this program and pi take on a configuration file."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_agent.files.file_lock import STALE_S, LockHeld, file_lock

ENV = {**os.environ, "PYTHONPATH": PYTHONPATH}
# As pi: makes the folder, touches it again and again, removes it. A line of stdin ends it.
HOLDER = """
import os, sys, threading
lock = sys.argv[1]
os.mkdir(lock)
done = threading.Event()
def refresh():
    while not done.wait(0.05):
        os.utime(lock)
threading.Thread(target=refresh, daemon=True).start()
print("held", flush=True)
sys.stdin.readline()
done.set()
os.rmdir(lock)
"""


@contextmanager
def held_by_another(lock: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def grow_old(lock: Path) -> None:
    old_s = time.time() - STALE_S - 1
    os.utime(lock, (old_s, old_s))


def test_the_lock_is_a_folder_beside_the_file_and_gone_afterwards(tmp_path: Path) -> None:
    with file_lock(tmp_path / "settings.json") as lock:
        assert (tmp_path / "settings.json.lock").is_dir()
        assert lock.is_held()

    assert [] == list(tmp_path.iterdir())


def test_a_lock_that_another_process_holds_is_waited_for(tmp_path: Path) -> None:
    order: list[str] = []
    with held_by_another(tmp_path / "f.lock") as other:

        def work() -> None:
            with file_lock(tmp_path / "f"):
                order.append("ours")

        waiting = threading.Thread(target=work)
        waiting.start()
        assert other.stdin is not None
        order.append("theirs ends")
        other.stdin.write("\n")
        other.stdin.flush()
        waiting.join()

    assert ["theirs ends", "ours"] == order


def test_a_lock_that_is_kept_fresh_is_never_taken_and_the_error_names_it(tmp_path: Path) -> None:
    with (
        held_by_another(tmp_path / "f.lock"),
        pytest.raises(LockHeld, match=f"{tmp_path}/f.lock: another"),
        file_lock(tmp_path / "f", wait_s=0.3),
    ):
        pass


def test_a_lock_that_was_left_behind_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "f.lock").mkdir()
    grow_old(tmp_path / "f.lock")
    with file_lock(tmp_path / "f", wait_s=0):
        assert time.time() - (tmp_path / "f.lock").stat().st_mtime < STALE_S

    assert [] == list(tmp_path.iterdir())


def test_one_that_was_left_behind_is_taken_over_by_one_of_many_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "f.lock").mkdir()
    grow_old(tmp_path / "f.lock")
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        with file_lock(tmp_path / "f"):
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [1] * 8 == most


def test_a_holder_whose_lock_was_taken_over_knows_it_and_leaves_it_alone(tmp_path: Path) -> None:
    with ExitStack() as others:
        with file_lock(tmp_path / "f") as lock:
            grow_old(tmp_path / "f.lock")
            other = others.enter_context(file_lock(tmp_path / "f", wait_s=0))
            assert not lock.is_held()

        assert other.is_held()


def test_a_folder_that_holds_something_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "f.lock").mkdir()
    (tmp_path / "f.lock" / "mine").touch()
    grow_old(tmp_path / "f.lock")
    with pytest.raises(LockHeld), file_lock(tmp_path / "f", wait_s=0.1):
        pass

    assert (tmp_path / "f.lock" / "mine").exists()


def test_a_folder_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), file_lock(tmp_path / "nowhere" / "f"):
        pass
