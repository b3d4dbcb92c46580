"""Measures a command of the model's shell tool that prints much, in pinnace and in the original agent, in turns.

    .venv/bin/python tests/benchmarks/shell_output.py [--runs 5] [--megabytes 50] [--out FILE.md]

Wall time is from the start of the tool to its end as told on stdout; CPU is that of the agent and of the command, which
is the same; memory is the most that the agent process ever held, less what it held before. The time that the command
alone takes into a pipe that is read away stands beside. Judges nothing: times belong to a machine.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from side_by_side import AS_ORIGINAL, ORIGINAL, OURS, Figures, Item, MeasuredAgent, Program, run, table

from pinnace_fuzz.adapters import prepare_pi_home
from pinnace_fuzz.fake_llm import FakeLlm

SETTLE_S: Final = 1.0
COMMANDS: Final = {
    "lines": "yes 'a line of some sixty characters, as a build or a test prints it' | head -c {bytes}",
    "lines in UTF-8": "yes 'eine Zeile mit Umlauten: äöü, und einem Zeichen außerhalb: 😀' | head -c {bytes}",
    "one line": "head -c {bytes} /dev/zero | tr '\\0' x",
    "small writes": "i=0; while [ $i -lt {lines} ]; do echo line $i of a loop; i=$((i+1)); done",
}
LINE_BYTES: Final = 20
SLOW_PART: Final = 25
"""A shell that writes line by line takes so much longer that a smaller part of the output is enough."""


def measure(program: Program, llm: FakeLlm, name: str, command: str) -> Figures:
    """Have a fresh process run the command once."""
    llm.add({"tool_calls": [{"name": "bash", "args": {"command": command}}]})
    llm.add({"text": "done"})
    with MeasuredAgent(program) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        before_mib, before_ms = agent.memory_mib()["resident"], agent.cpu_ms()
        agent.send({"type": "prompt", "message": "go"})
        begun_s = agent.until(b'"tool_execution_start"')
        ended_s = agent.until(b'"tool_execution_end"')
        cpu_ms, peak_mib = agent.cpu_ms() - before_ms, agent.memory_mib()["peak"]
        agent.until(b'{"type":"agent_end"')
    for file in program.home.temp.rglob("pi-bash-*.log"):
        file.unlink()
    return {
        f"{name}: wall, ms": (ended_s - begun_s) * 1000,
        f"{name}: CPU with the command, ms": cpu_ms,
        f"{name}: peak less idle, MiB": peak_mib - before_mib,
    }


def alone(name: str, command: str) -> Figures:
    """Run the command without an agent."""
    begun_s = time.monotonic()
    with subprocess.Popen(["/bin/bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while os.read(process.stdout.fileno(), 1 << 16):
            pass
    return {f"{name}: the command alone, ms": (time.monotonic() - begun_s) * 1000}


def items(llm: FakeLlm, size: int, runs: int) -> list[Item]:
    """Return what is measured."""
    found: list[Item] = []
    for name, command in COMMANDS.items():
        filled = command.format(bytes=size, lines=size // SLOW_PART // LINE_BYTES)
        shown = f"{name} ({size // (SLOW_PART if 'lines}' in command else 1) / 1e6:.0f} MB)"
        found.append(Item(name, lambda program, n=shown, c=filled: measure(program, llm, n, c)))  # type: ignore[misc]
        found.append(Item(name, lambda _, n=shown, c=filled: alone(n, c), is_ours_only=True))  # type: ignore[misc]
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="pinnace-bench-"))
    try:
        with FakeLlm() as llm:
            commands = ([*map(str, OURS), *AS_ORIGINAL], [*map(str, ORIGINAL)])
            programs = [
                Program(name, command, prepare_pi_home(root / name.replace(" ", "-"), llm.base_url))
                for name, command in zip(("pinnace", "pi 1.5.2"), commands, strict=True)
            ]
            for program in programs:  # the original keeps compiled code from its first run on
                measure(program, llm, "", "true")
            samples = run(items(llm, given.megabytes * 1_000_000, given.runs), programs, given.runs)
    finally:
        shutil.rmtree(root)
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}"
    lines = [*table(samples, programs), "", f"{machine}; median (range) of {given.runs} runs in turns."]
    sys.stdout.write("\n".join(lines) + "\n")
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
