"""Measures two programs in turns, with real processes, and prints medians beside each other.

The frame of the benchmarks that compare: it starts processes, reads their stdout in large pieces without parsing, takes
samples in turns, so that a busy moment of the machine hits both, and writes the table. Must not know what is measured.
"""

import argparse
import contextlib
import ctypes
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

from pinnace_fuzz.harness.adapters import PreparedHome, prepare_pi_home

REPOSITORY: Final = Path(__file__).parents[2]
TOOLS: Final = REPOSITORY / ".tools"
NODE: Final = TOOLS / "node22" / "bin" / "node"
ORIGINAL: Final = [NODE, TOOLS / "pi-1.5.2" / "package" / "dist" / "bundle" / "cli.js"]
PRODUCT: Final = TOOLS / "product"
OURS: Final = [PRODUCT / "bin" / "pinnace"]
"""As users install it (`install_product`): what the environment of tests has beside it costs memory and time."""
# The delta-only profile is what the original writes; it has no flag for that.
AS_ORIGINAL: Final = ("--protocol", "1.5")

READ_BYTES: Final = 1 << 20
# What a pipe that can be written to takes at least without waiting.
PIPE_BYTES: Final = 4096
TIMEOUT_S: Final = 120.0
DELTA_CHARS: Final = 8
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")

Numbers = Mapping[str, float]
Sample = float | list[float]
"""What one run gave: a number, or many of which the percentiles count."""
Figures = Mapping[str, float] | Mapping[str, Sample]
Samples = dict[str, dict[str, list[Sample]]]
"""By figure and program."""


def install_product() -> None:
    """Install this checkout beside the one that runs the benchmarks, with what its lock says and nothing else."""
    python = PRODUCT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PRODUCT], check=True)
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-input"]
    subprocess.run([*pip, "--require-hashes", "-r", REPOSITORY / "requirements.lock"], check=True)
    # A release of its number may be there, with other contents.
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--force-reinstall", REPOSITORY], check=True)


def _clock_of(pid: int) -> int:
    """Return the clock of a process' processor time, which counts in nanoseconds."""
    clock = ctypes.c_int()
    if error := ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise OSError(error, os.strerror(error))
    return clock.value


class Program(NamedTuple):
    """One column of the table."""

    name: str
    command: Sequence[str]
    home: PreparedHome


class MeasuredAgent:
    """One agent process, its stdout read as bytes."""

    def __init__(self, program: Program, *flags: str, temp: str | None = None) -> None:
        """Start it; `begun_s` is just before."""
        self._name = program.name
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
        self._clock = _clock_of(self._process.pid)
        self._rest = b""
        self.bytes = 0
        self.records = 0
        self.kept: list[bytes] | None = None
        """Takes all that is read, if somebody wants it."""

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
        return self.send_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))

    def send_bytes(self, data: bytes) -> float:
        """Write bytes, reading meanwhile, since who answers at once may wait for a reader; return the time just before.

        What is read meanwhile is looked through by the next `until`.
        """
        begun_s = time.monotonic()
        number, view = self._stdin.fileno(), memoryview(data)
        while view:
            readable, writable, _ = select.select([self._out], [number], [], TIMEOUT_S)
            if not readable and not writable:
                raise TimeoutError("the agent reads no more")
            if readable and len(view) < len(data):
                self._rest += self._read()
            if writable:
                view = view[os.write(number, view[:PIPE_BYTES]) :]
        return begun_s

    def _read(self) -> bytes:
        if not (data := os.read(self._out, READ_BYTES)):
            raise EOFError(f"{self._name} has ended")
        self.bytes += len(data)
        self.records += data.count(b"\n")
        if self.kept is not None:
            self.kept.append(data)
        return data

    def until(self, *texts: bytes) -> float:
        """Read to the end of the record that holds the last of these texts to come; return when it was there."""
        waiting, behind, missing = self._rest, 0, list(texts)
        while True:
            for text in tuple(missing):
                if (found := waiting.find(text)) >= 0:
                    missing.remove(text)
                    behind = max(behind, found)
            if not missing and (end := waiting.find(b"\n", behind)) >= 0:
                now_s = time.monotonic()
                self._rest = waiting[end + 1 :]
                return now_s
            # Of a record that is found, only the end is wanted; else a text may have begun.
            waiting, behind = waiting[-max(map(len, missing)) :] if missing else b"", 0
            if not select.select([self._out], [], [], TIMEOUT_S)[0]:
                raise TimeoutError(f"{self._name}: {missing} does not come; last was {waiting[-400:]!r}")
            waiting += self._read()

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

    def memory_mib(self) -> Numbers:
        """Read what the process and its children hold now, and the most that they ever held."""
        each = self.memories_mib()
        return {name: sum(one[name] for one in each) for name in each[0]}

    def memories_mib(self) -> list[Numbers]:
        """Read the same of each process, this one first."""
        found: list[Numbers] = []
        for pid in self._family():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a child that has just ended
                found.append(memory_of(pid))
        return found

    def _family(self) -> list[int]:
        """Return the process and all that it has started, and so on."""
        found = [self._process.pid]
        for pid in found:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (thread / "children").read_text().split())
        return found

    def cpu_ms(self) -> float:
        """Read the processor time of the process, exactly, and of its reaped children, in ticks."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return time.clock_gettime(self._clock) * 1000 + sum(map(int, fields[13:15])) / _TICKS_A_SECOND * 1000

    def family_cpu_ms(self) -> float:
        """Read the processor time of the process and of all that it has started and that run."""
        return sum(time.clock_gettime(_clock_of(pid)) for pid in self._family()) * 1000

    def own_cpu_ms(self) -> float:
        """Read the processor time of the process alone."""
        return time.clock_gettime(self._clock) * 1000


def memory_of(pid: int) -> Numbers:
    """Read what one process holds now, and the most that it ever held, in MiB."""
    directory = Path(f"/proc/{pid}")
    text = (directory / "status").read_text() + (directory / "smaps_rollup").read_text()
    kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    return {
        "resident": kib["VmRSS"] / 1024,
        "proportional": kib["Pss"] / 1024,
        "private": (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024,
        "peak": kib["VmHWM"] / 1024,
    }


class Item(NamedTuple):
    """A part of the work."""

    group: str
    measure: Callable[[Program], Figures]
    is_ours_only: bool = False


def run(items: Sequence[Item], programs: Sequence[Program], runs: int) -> Samples:
    """Measure everything; each time another program is the first."""
    samples: Samples = {}
    for item in items:
        measured = programs[:1] if item.is_ours_only else programs
        for turn in range(runs):
            for place in range(len(measured)):
                program = measured[(place + turn) % len(measured)]
                for figure, value in item.measure(program).items():
                    samples.setdefault(figure, {}).setdefault(program.name, []).append(value)
        sys.stderr.write(f"{item.group}: done\n")
    return samples


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of all does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def flat(samples: Samples) -> dict[str, dict[str, list[float]]]:
    """Make numbers of all samples: of those that are many numbers, two percentiles."""
    found: dict[str, dict[str, list[float]]] = {}
    for figure, columns in samples.items():
        for program, values in columns.items():
            for value in values:
                if isinstance(value, list):
                    for name, share in (("p50", 0.5), ("p99", 0.99)):
                        named = found.setdefault(f"{figure}: {name}", {})
                        named.setdefault(program, []).append(percentile(value, share))
                else:
                    found.setdefault(figure, {}).setdefault(program, []).append(value)
    return found


def cell(values: Sequence[float]) -> str:
    """Write a median with its range."""
    if not values:
        return "-"
    if len(set(values)) == 1:
        return number(values[0])
    return f"{number(statistics.median(values))} ({number(min(values))}..{number(max(values))})"


def number(value: float) -> str:
    """Write a number as exactly as a measured one deserves."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(values: Mapping[str, Sequence[float]], ours: str, theirs: str) -> float | None:
    """Divide the medians; None where there is nothing to hold it against."""
    if not values.get(ours) or not values.get(theirs) or not statistics.median(values[theirs]):
        return None
    return statistics.median(values[ours]) / statistics.median(values[theirs])


def table(samples: Samples, names: Sequence[str]) -> Iterator[str]:
    """Write the lines of a Markdown table, a column for each program; the ratio is of the first to the last."""
    yield f"| figure | {' | '.join(names)} | ratio |"
    yield "|---" * (len(names) + 2) + "|"
    for figure, values in flat(samples).items():
        quotient = ratio(values, names[0], names[-1])
        cells = [cell(values.get(name, [])) for name in names]
        yield f"| {figure} | {' | '.join(cells)} | {'-' if quotient is None else f'{quotient:.2f}'} |"


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
    before: Callable[[Program], object] = lambda _: None,
    has_session: bool = False,
) -> None:
    """Measure and print, as the command line says.

    Args:
        description: For `--help`.
        items: What to measure.
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
    install_product()
    if missing := [str(path) for path in ORIGINAL if not path.exists()]:
        parser.error(f"{', '.join(missing)} not there: scripts/peers installs them")
    root = Path(tempfile.mkdtemp(prefix="pinnace-bench-"))
    try:
        with model_server() as address:
            homes = [prepare_pi_home(root / name, address, has_session=has_session) for name in ("ours", "theirs")]
            programs = [
                Program("pinnace", [*map(str, OURS), *AS_ORIGINAL], homes[0]),
                Program("pi 1.5.2", [*map(str, ORIGINAL)], homes[1]),
            ]
            for program in programs:
                before(program)
            samples = run([item for item in items if item.group in chosen], programs, given.runs)
    finally:
        shutil.rmtree(root)
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}"
    lines = [
        *table(samples, [program.name for program in programs]),
        "",
        f"{machine}; median (range) of {given.runs} runs in turns.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n")
