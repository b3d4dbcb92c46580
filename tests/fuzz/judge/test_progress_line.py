"""The progress line: redrawn on a terminal, a line now and then elsewhere, never in the report's stream."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path
from threading import Event

from tests.source_tree import PYTHONPATH

from pinnace_fuzz.judge.confirming import not_run
from pinnace_fuzz.judge.progress import Done, Progress, duration
from pinnace_fuzz.judge.results import Verdict
from pinnace_fuzz.judge.scenarios.reading import read_scenario

TINY = Path(__file__).parent / "tiny_agent.py"
SCENARIO = read_scenario({"id": "AAA/x", "title": "x", "rules": ["R-CMD-01"], "client": ["quiet"]})


def take(done: Done, *verdicts: Verdict) -> None:
    for each in verdicts:
        done.take(not_run(SCENARIO, "")._replace(verdict=each))


def test_what_is_left_is_estimated_by_what_was_played() -> None:
    seconds = 0.0
    done = Done(10, lambda: seconds)
    assert "0 of 10 scenarios, 0 failed, 0 s" == done.said()
    seconds = 40.0
    take(done, "PASS", "NOT-RUN", "NOT-RUN", "CRASH")
    assert "2 of 10 scenarios, 1 failed, 40 s, about 2 min 40 s left" == done.said()
    for _ in range(8):
        take(done, "PASS")
    assert "10 of 10 scenarios, 1 failed, 40 s" == done.said()


def test_times_are_written_as_people_read_them() -> None:
    assert ["0 s", "59 s", "1 min 00 s", "61 min 05 s"] == [duration(each) for each in (-1, 59.4, 59.6, 3665)]


class Lines(io.StringIO):
    """A stream that is no terminal, and that reports when a text has been written."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._wanted = text
        self.has_come = Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self._wanted in self.getvalue():
            self.has_come.set()
        return count


def test_where_there_is_no_terminal_a_line_comes_now_and_then() -> None:
    stream = Lines("3 of 9\n3 of 9\n")
    with Progress(stream, line_s=0.001) as progress:
        progress.watch(lambda: "3 of 9")
        assert stream.has_come.wait(60)
    assert {"3 of 9"} == set(stream.getvalue().splitlines())


def test_a_short_run_writes_no_progress_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.watch(lambda: "3 of 9")
        progress.log("FAIL AAA/x")
    assert "FAIL AAA/x\n" == stream.getvalue()


def test_on_a_terminal_the_line_is_redrawn_and_the_report_has_none_of_it(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    words = ["--adapter", "none", "--only", "ERR/no-object-", "--out", str(tmp_path), "--patience", "0.3"]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "pinnace_fuzz.judge.cli", *words, "--", sys.executable, str(TINY), "dies-of-null"],
        stdout=subprocess.PIPE,
        stderr=slave,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "COLUMNS": "40"},
    ) as judge:
        os.close(slave)
        report, _ = judge.communicate(timeout=120)
    shown = b""
    try:
        while data := os.read(master, 65536):
            shown += data
    except OSError:  # the other end of a terminal was closed
        pass
    os.close(master)
    drawn = shown.decode().split("\r\x1b[K")

    assert 1 == judge.returncode
    assert any(" of " in each for each in drawn)
    assert max(len(each) for each in drawn if "scenarios" in each) < 40
    assert "CRASH ERR/no-object-null\r\n" in drawn
    assert shown.endswith(b"\r\x1b[K")
    assert b"NOT CONFORMANT" in report
    assert b" scenarios, " not in report
    assert b"\x1b" not in report
