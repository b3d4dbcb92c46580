"""How the time to answer a line grows with its length: prints medians, and the ratio of each doubling.

    .venv/bin/python tests/benchmarks/long_lines.py [--runs N]

A line of N MiB is a prompt that is refused for its streamingBehavior, so that only reading is measured; the answer
comes back over a pipe. Linear means that a doubling takes twice as long; the bound that users rely on is 2.2 from 16 to
32 MiB (R-FRM-08).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("spec", "statechart", "agent", "rpc", "fuzz"))
SIZES_MIB = (1, 2, 4, 8, 16, 32)


def measure(size_mib: int, home: str) -> float:
    """Return the seconds from the first byte of a line to the last of its answer, in a fresh process."""
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--no-session"]
    environment = {**os.environ, "PYTHONPATH": SOURCES, "HOME": home}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        # Everything that is loaded on first use is loaded before the clock starts.
        agent.stdin.write(b'{"type":"prompt","message":"warm","streamingBehavior":"x"}\n')
        agent.stdin.flush()
        agent.stdout.readline()
        text = b"x" * (size_mib * 1024 * 1024)
        begun_s = time.perf_counter()
        agent.stdin.write(b'{"type":"prompt","streamingBehavior":"x","message":"' + text + b'"}\n')
        agent.stdin.flush()
        agent.stdout.readline()
        taken_s = time.perf_counter() - begun_s
        agent.stdin.close()
    return taken_s


def main() -> None:
    """Measure every size in turn, several times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    taken: dict[int, list[float]] = {size: [] for size in SIZES_MIB}
    with tempfile.TemporaryDirectory() as home:
        for _ in range(runs):
            for size in SIZES_MIB:
                taken[size].append(measure(size, home))
    before = None
    for size in SIZES_MIB:
        median = statistics.median(taken[size])
        ratio = "" if before is None else f"   x {median / before:.2f}"
        print(f"{size:3} MiB {median * 1000:8.1f} ms{ratio}")
        before = median


if __name__ == "__main__":
    main()
