"""Measures commands that print 50 MB, in pinnace and in the original agent, in turns.

    .venv/bin/python tests/benchmarks/shell_output.py [--runs 5] [--only lines] [--out FILE.md]

Of the model's shell tool, wall time is from its start to its end as told on stdout; of the client's, from the command
to its response. CPU is that of the agent and of the command, which is the same; memory is the most that the agent
process ever held, less what it held before. The time that the command alone takes into a pipe that is read away stands
beside. Judges nothing: times belong to a machine.
"""

import os
import subprocess
import time
from collections.abc import Callable
from typing import Final

from side_by_side import Figures, Item, MeasuredAgent, Program, compare

MEGABYTES: Final = 50
SETTLE_S: Final = 1.0
COMMANDS: Final = {
    "lines": "yes 'a line of some sixty characters, as a build or a test prints it' | head -c {bytes}",
    "UTF-8": "yes 'eine Zeile mit Umlauten: äöü, und einem Zeichen außerhalb: 😀' | head -c {bytes}",
    "one line": "head -c {bytes} /dev/zero | tr '\\0' x",
    "small writes": "i=0; while [ $i -lt {lines} ]; do echo line $i of a loop; i=$((i+1)); done",
}
LINE_BYTES: Final = 20
SLOW_PART: Final = 25
"""A shell that writes line by line takes so much longer that a smaller part of the output is enough."""


def tool(program: Program, name: str, command: str) -> Figures:
    """Have a fresh process run the command once, as the model's tool."""
    with MeasuredAgent(program) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        before_mib, before_ms = agent.memory_mib()["resident"], agent.cpu_ms()
        agent.send({"type": "prompt", "message": f"bench:shell:0 {command}"})
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


def client(program: Program, name: str, command: str) -> Figures:
    """Have a fresh process run the command once, for the client."""
    with MeasuredAgent(program) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        before_mib, before_ms, size = agent.memory_mib()["resident"], agent.cpu_ms(), agent.bytes
        begun_s = agent.send({"id": "b", "type": "bash", "command": command})
        ended_s = agent.until(b'"command":"bash"')
        cpu_ms, peak_mib = agent.cpu_ms() - before_ms, agent.memory_mib()["peak"]
    for file in program.home.temp.rglob("pi-bash-*.log"):
        file.unlink()
    return {
        f"{name}: wall, ms": (ended_s - begun_s) * 1000,
        f"{name}: CPU with the command, ms": cpu_ms,
        f"{name}: stdout, MB": (agent.bytes - size) / 1e6,
        f"{name}: peak less idle, MiB": peak_mib - before_mib,
    }


def alone(_: Program, name: str, command: str) -> Figures:
    """Run the command without an agent."""
    begun_s = time.monotonic()
    with subprocess.Popen(["/bin/bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while os.read(process.stdout.fileno(), 1 << 16):
            pass
    return {f"{name}: the command alone, ms": (time.monotonic() - begun_s) * 1000}


def item(kind: str, measure: Callable[[Program, str, str], Figures], *, is_ours_only: bool = False) -> Item:
    """Return one thing to measure with one of the commands."""
    size = MEGABYTES * 1_000_000
    command = COMMANDS[kind].format(bytes=size, lines=size // SLOW_PART // LINE_BYTES)
    shown = size // (SLOW_PART if kind == "small writes" else 1) / 1e6
    whose = " of the client's" if measure is client else ""
    name = f"{kind}{whose} ({shown:.0f} MB)"
    return Item(kind, lambda program: measure(program, name, command), is_ours_only)


ITEMS: Final = (
    *(item(kind, tool) for kind in COMMANDS),
    item("lines", client),
    *(item(kind, alone, is_ours_only=True) for kind in COMMANDS),
)

if __name__ == "__main__":
    # The original keeps compiled code from its first run on.
    compare("Measure much output.", ITEMS, before=lambda program: tool(program, "", "true"))
