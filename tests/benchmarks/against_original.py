"""Measures pinnace beside the original agent: the same work, in turns, on the same machine.

    .venv/bin/python tests/benchmarks/against_original.py [--runs 7] [--only start,deltas] [--out FILE.md]

Each figure is a median with its range; a ratio below 1 in the last column means that pinnace needs less. Runs of the
two programs alternate, so that a busy moment of the machine hits both. Neither is measured in its very first run: each
keeps a home and a folder for temporary files, where the original keeps compiled code, as on a user's machine; what the
first start costs without that is a row of its own. The model is a process of its own (`model_server.py`), and stdout is
read in large pieces and not parsed. Judges nothing: times belong to a machine.
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

READ_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 120.0
# A process that has just answered is still busy with what it put off; after this it is idle.
SETTLE_S: Final = 1.0
PAUSE_S: Final = 0.15
ABORTS: Final = 3
PROMPTS: Final = 4
READS: Final = 500
MANY: Final = 20_000
FEWER: Final = 5_000
PACED: Final = 1_000
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


def start(program: Program) -> Figures:
    """Start a process and wait for its first answer; then let it be idle."""
    with MeasuredAgent(program) as agent:
        wall_ms = (agent.state() - agent.begun_s) * 1000
        cpu_ms = agent.cpu_ms()
        time.sleep(SETTLE_S)
        memory = agent.memory_mib()
    return {
        "start to the first answer, ms": wall_ms,
        "start to the first answer, CPU ms": cpu_ms,
        "idle: resident, MiB": memory["resident"],
        "idle: proportional share, MiB": memory["proportional"],
        "idle: private, MiB": memory["private"],
    }


def first_start(program: Program) -> Figures:
    """Start a process that finds its folder for temporary files empty, as after a reboot."""
    with tempfile.TemporaryDirectory() as temp, MeasuredAgent(program, temp=temp) as agent:
        return {"start with an empty TMPDIR, ms": (agent.state() - agent.begun_s) * 1000}


def first_delta(program: Program) -> Figures:
    """Send prompts that the model answers at once."""
    latencies_ms: list[float] = []
    with MeasuredAgent(program) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        for _ in range(PROMPTS):
            sent_s = agent.prompt("hello")
            latencies_ms.append((agent.until(b'"text_delta"') - sent_s) * 1000)
            agent.until(b'{"type":"agent_end"')
            time.sleep(PAUSE_S)
        memory = agent.memory_mib()
    return {
        "prompt to first delta, first prompt, ms": latencies_ms[0],
        "prompt to first delta, later prompts, ms": statistics.median(latencies_ms[1:]),
        "after a prompt: resident, MiB": memory["resident"],
    }


def deltas(program: Program, kind: str, count: int, *flags: str) -> Figures:
    """Stream a long answer in a process that has answered once."""
    with MeasuredAgent(program, *flags) as agent:
        agent.state()
        agent.prompt("hello")
        agent.until(b'{"type":"agent_end"')
        time.sleep(PAUSE_S)
        cpu_ms, size, records = agent.cpu_ms(), agent.bytes, agent.records
        begun_s = agent.prompt(kind, count)
        wall_s = agent.until(b'{"type":"agent_end"') - begun_s
        cpu_ms, size, records = agent.cpu_ms() - cpu_ms, agent.bytes - size, agent.records - records
        peak_mib = agent.memory_mib()["peak"]
        agent.check_text(count)
    profile = f", {flags[-1]}" if flags else ""
    name = f"{count:,} deltas ({kind}{profile})"
    return {
        f"{name}: wall, ms": wall_s * 1000,
        f"{name}: CPU, ms": cpu_ms,
        f"{name}: deltas/s": count / wall_s,
        f"{name}: stdout, MB": size / 1e6,
        f"{name}: records": records,
        f"{name}: peak, MiB": peak_mib,
    }


def abort(program: Program) -> Figures:
    """Abort answers that hang."""
    latencies_ms: list[float] = []
    with MeasuredAgent(program) as agent:
        agent.state()
        for _ in range(ABORTS + 1):
            agent.prompt("hang")
            agent.until(b'"text_delta"')
            time.sleep(PAUSE_S)
            sent_s = agent.send({"id": "a", "type": "abort"})
            latencies_ms.append((agent.until(b'"command":"abort"') - sent_s) * 1000)
            time.sleep(PAUSE_S)
    return {"abort to its response, ms": statistics.median(latencies_ms[1:])}


def reads(program: Program) -> Figures:
    """Ask for the state many times, one after the other and in one write."""
    with MeasuredAgent(program) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        cpu_ms = agent.cpu_ms()
        begun_s = time.monotonic()
        for _ in range(READS):
            ended_s = agent.state()
        sequential_ms = (ended_s - begun_s) * 1000
        begun_s = agent.send(*({"id": f"z{number}", "type": "get_state"} for number in range(READS)))
        pipelined_ms = (agent.until(b'"id":"z%d"' % (READS - 1)) - begun_s) * 1000
        cpu_ms = agent.cpu_ms() - cpu_ms
    return {
        f"{READS} get_state in turn, ms": sequential_ms,
        f"{READS} get_state in one write, ms": pipelined_ms,
        f"{READS} get_state in turn and {READS} in one write, CPU ms": cpu_ms,
    }


class Item(NamedTuple):
    """A part of the work."""

    group: str
    measure: Callable[[Program], Figures]
    is_ours_only: bool = False


# The delta-only profile is what the original writes; it has no flag for that.
_AS_ORIGINAL: Final = ("--protocol", "1.5")


def _deltas(kind: str, count: int) -> Callable[[Program], Figures]:
    return lambda program: deltas(program, kind, count)


def _profile(profile: str) -> Callable[[Program], Figures]:
    return lambda program: deltas(program, "framed", FEWER, "--protocol", profile)


ITEMS: Final = (
    Item("start", start),
    Item("start", first_start),
    Item("first", first_delta),
    Item("deltas", _deltas("packed", MANY)),
    Item("deltas", _deltas("framed", FEWER)),
    Item("deltas", _deltas("framed", MANY)),
    Item("paced", _deltas("paced", PACED)),
    Item("profiles", _profile("pi"), is_ours_only=True),
    Item("profiles", _profile("seed"), is_ours_only=True),
    Item("abort", abort),
    Item("reads", reads),
)


def run(items: Sequence[Item], programs: Sequence[Program], runs: int) -> dict[str, dict[str, list[float]]]:
    """Measure everything; return the samples by figure and program."""
    samples: dict[str, dict[str, list[float]]] = {}
    for program in programs:  # the first start of a home compiles and caches
        start(program)
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


def main() -> None:
    """Measure and print."""
    groups = list(dict.fromkeys(item.group for item in ITEMS))
    parser = argparse.ArgumentParser(description="Measure pinnace beside the original agent.")
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
            programs = [
                Program("pinnace", [*map(str, OURS), *_AS_ORIGINAL], prepare_pi_home(root / "ours", address)),
                Program("pi 1.5.2", [*map(str, ORIGINAL)], prepare_pi_home(root / "theirs", address)),
            ]
            samples = run([item for item in ITEMS if item.group in chosen], programs, given.runs)
    finally:
        shutil.rmtree(root)
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}"
    lines = [*table(samples, programs), "", f"{machine}; median (range) of {given.runs} runs in turns."]
    sys.stdout.write("\n".join(lines) + "\n")
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
