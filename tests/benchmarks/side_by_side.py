"""Measures two programs in turns, with real processes, and prints medians beside each other.

The frame of the benchmarks that compare: it starts processes, reads their stdout in large pieces without parsing, takes
samples in turns, so that a busy moment of the machine hits both, and writes the table. Must not know what is measured.
"""

import argparse
import contextlib
import json
import os
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from pinnace_fuzz.adapters import PreparedHome, prepare_pi_home

REPOSITORY: Final = Path(__file__).parents[2]
TOOLS: Final = REPOSITORY / ".tools"
ORIGINAL: Final = [TOOLS / "node22" / "bin" / "node", TOOLS / "pi-1.5.2" / "package" / "dist" / "bundle" / "cli.js"]
OURS: Final = [Path(sys.executable).with_name("pinnace")]
# The delta-only profile is what the original writes; it has no flag for that.
AS_ORIGINAL: Final = ("--protocol", "1.5")

READ_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 120.0
DELTA_CHARS: Final = 8
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")

Figures = Mapping[str, float]


class Program(NamedTuple):
    """One column of the table."""

    name: str
    command: Sequence[str]
    home: PreparedHome


class MeasuredAgent:
    """One agent process, its stdout read as bytes."""

    def __init__(self, program: Program, *flags: str, temp: str | None = None) -> None:
        """Start it; `begun_s` is just before."""
        home = program.home
        env = {**home.env, "TMPDIR": temp or str(home.temp)}
        self.begun_s = time.monotonic()
        self._process = subprocess.Popen(
            [*program.command, *home.arguments, *flags],
            cwd=home.work,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._out = self._process.stdout.fileno()
        self._rest = b""
        self.bytes = 0
        self.records = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        try:
            while select.select([self._out], [], [], 5)[0] and os.read(self._out, READ_BYTES):
                pass
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def send(self, *records: Mapping[str, object]) -> float:
        """Write records in one go; return the time just before."""
        data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
        begun_s = time.monotonic()
        self._stdin.write(data)
        self._stdin.flush()
        return begun_s

    def until(self, text: bytes) -> float:
        """Read to the end of the next record that holds this text; return when it was there."""
        waiting = self._rest
        while True:
            if (found := waiting.find(text)) >= 0:
                if (end := waiting.find(b"\n", found)) >= 0:
                    now_s = time.monotonic()
                    self._rest = waiting[end + 1 :]
                    return now_s
                waiting = waiting[found:]
            else:
                waiting = waiting[-len(text) :]
            if not select.select([self._out], [], [], TIMEOUT_S)[0]:
                raise TimeoutError(text)
            if not (data := os.read(self._out, READ_BYTES)):
                raise EOFError(text)
            self.bytes += len(data)
            self.records += data.count(b"\n")
            waiting += data

    def state(self) -> float:
        """Ask for the state and return when the answer was there."""
        self.send({"id": "s", "type": "get_state"})
        return self.until(b'"command":"get_state"')

    def prompt(self, kind: str, count: int = 0) -> float:
        """Ask the model server for an answer; return the time just before."""
        return self.send({"id": "p", "type": "prompt", "message": f"bench:{kind}:{count}"})

    def check_text(self, deltas: int) -> None:
        """Raise unless the last answer has all its text: one that broke off is fast."""
        before = self.bytes
        self.send({"id": "t", "type": "get_last_assistant_text"})
        self.until(b'"command":"get_last_assistant_text"')
        if self.bytes - before < deltas * DELTA_CHARS:
            raise RuntimeError("the answer is not complete")

    def memory_mib(self) -> Figures:
        """Read what the process holds now, and the most that it ever held."""
        directory = Path(f"/proc/{self._process.pid}")
        text = (directory / "status").read_text() + (directory / "smaps_rollup").read_text()
        kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
        return {
            "resident": kib["VmRSS"] / 1024,
            "proportional": kib["Pss"] / 1024,
            "private": (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024,
            "peak": kib["VmHWM"] / 1024,
        }

    def cpu_ms(self) -> float:
        """Read the processor time of the process and its reaped children."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS_A_SECOND * 1000


class Item(NamedTuple):
    """A part of the work."""

    group: str
    measure: Callable[[Program], Figures]
    is_ours_only: bool = False


def run(items: Sequence[Item], programs: Sequence[Program], runs: int) -> dict[str, dict[str, list[float]]]:
    """Measure everything; return the samples by figure and program."""
    samples: dict[str, dict[str, list[float]]] = {}
    for item in items:
        for _ in range(runs):
            for program in programs[:1] if item.is_ours_only else programs:
                for figure, value in item.measure(program).items():
                    samples.setdefault(figure, {}).setdefault(program.name, []).append(value)
        sys.stderr.write(f"{item.group}: done\n")
    return samples


def cell(values: Sequence[float]) -> str:
    """Write a median with its range."""
    if not values:
        return "-"
    return f"{_number(statistics.median(values))} ({_number(min(values))}..{_number(max(values))})"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(samples: Mapping[str, Mapping[str, Sequence[float]]], programs: Sequence[Program]) -> Iterator[str]:
    """Write the lines of a Markdown table."""
    ours, theirs = (program.name for program in programs)
    yield f"| figure | {ours} | {theirs} | ratio |"
    yield "|---|---|---|---|"
    for figure, values in samples.items():
        ratio = "-"
        if values.get(theirs) and statistics.median(values[theirs]):
            ratio = f"{statistics.median(values[ours]) / statistics.median(values[theirs]):.2f}"
        yield f"| {figure} | {cell(values[ours])} | {cell(values.get(theirs, []))} | {ratio} |"


@contextlib.contextmanager
def model_server() -> Iterator[str]:
    """Run the model server; give its address."""
    server = Path(__file__).with_name("model_server.py")
    with subprocess.Popen(
        [sys.executable, server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def compare(
    description: str,
    items: Sequence[Item],
    *,
    prepare: Callable[[Program], object] = lambda _: None,
    before: Callable[[Program], object] = lambda _: None,
    has_session: bool = False,
) -> None:
    """Measure and print, as the command line says.

    Args:
        description: For `--help`.
        items: What to measure.
        prepare: Called once with each program, to lay out what it reads.
        before: Called with each program before anything is measured.
        has_session: Whether session files are kept.
    """
    groups = list(dict.fromkeys(item.group for item in items))
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--runs", type=int, default=7, help="of each item and program")
    parser.add_argument("--only", help=f"some of: {','.join(groups)}")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else groups
    if missing := [str(path) for path in (*OURS, *ORIGINAL) if not path.exists()]:
        parser.error(f"{', '.join(missing)} not there: scripts/setup and scripts/peers install them")
    root = Path(tempfile.mkdtemp(prefix="pinnace-bench-"))
    try:
        with model_server() as address:
            homes = [prepare_pi_home(root / name, address, has_session=has_session) for name in ("ours", "theirs")]
            programs = [
                Program("pinnace", [*map(str, OURS), *AS_ORIGINAL], homes[0]),
                Program("pi 1.5.2", [*map(str, ORIGINAL)], homes[1]),
            ]
            for program in programs:
                prepare(program)
                before(program)
            samples = run([item for item in items if item.group in chosen], programs, given.runs)
    finally:
        shutil.rmtree(root)
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}"
    lines = [*table(samples, programs), "", f"{machine}; median (range) of {given.runs} runs in turns."]
    sys.stdout.write("\n".join(lines) + "\n")
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n")
