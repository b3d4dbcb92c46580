"""What the two languages cost before either program does anything: the limit that no work on the programs moves.

Processes that start, say a word, and wait: the interpreter alone; with trio, and with all that an HTTP request needs.
Processes that send back each line as it comes. And one that does nothing with a long session but parse its lines.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import long_session
from side_by_side import NODE, Figures, Numbers, Program, memory_of

SETTLE_S: Final = 0.3
WAIT: Final = "import sys; print(1, flush=True); sys.stdin.read()"
TRIO: Final = """
import sys, trio
async def main():
    print(1, flush=True)
    await trio.to_thread.run_sync(sys.stdin.read)
trio.run(main)
"""
REQUESTING: Final = f"import httpx, orjson\nhttpx.AsyncClient()\n{TRIO}"
PYTHON: Final[Mapping[str, Sequence[str]]] = {
    "the bare interpreter": ("-I", "-c", WAIT),
    "with trio": ("-I", "-c", TRIO),
    "with trio, httpx, orjson": ("-I", "-c", REQUESTING),
}
NODES: Final[Mapping[str, Sequence[str]]] = {"the bare interpreter": ("-e", "console.log(1); process.stdin.resume()")}


def waiting(command: Sequence[str], program: Program) -> tuple[float, Numbers]:
    """Start a process that says a line and waits; return how long that took, in ms, and what it holds then."""
    begun_s = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=program.home.env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        took_ms = (time.monotonic() - begun_s) * 1000
        time.sleep(SETTLE_S)
        memory = memory_of(process.pid)
        process.stdin.close()
    return took_ms, memory


def floor(name: str) -> Callable[[Program], Figures]:
    """Return what starts a process that does nothing, in a program's language."""

    def measure(program: Program) -> Figures:
        is_ours = program.name.startswith("pinnace")
        if not is_ours and name not in NODES:
            return {}
        command = [sys.executable, *PYTHON[name]] if is_ours else [str(NODE), *NODES[name]]
        took_ms, memory = waiting(command, program)
        return {
            f"{name}: start, ms": took_ms,
            f"{name}: private, MiB": memory["private"],
            f"{name}: proportional share, MiB": memory["proportional"],
        }

    return measure


ECHO: Final = """
import os, sys, trio
async def main():
    async with trio.lowlevel.FdStream(os.dup(0)) as stdin, trio.lowlevel.FdStream(os.dup(1)) as stdout:
        while data := await stdin.receive_some(65536):
            await stdout.send_all(data)
trio.run(main)
"""
NODE_ECHO: Final = "process.stdin.on('data', data => process.stdout.write(data))"
TRIPS: Final = 500
SYNCS: Final = 50
LINE: Final = b'{"id":"read-1","type":"get_state"}\n'
PARSE: Final = """
import gc, orjson, sys
gc.disable()
with open(sys.argv[1], "rb") as file:
    entries = [orjson.loads(line) for line in file]
print(1, flush=True); sys.stdin.read()
"""


def echo(program: Program) -> Figures:
    """Send lines to a process that only sends them back."""
    is_ours = program.name.startswith("pinnace")
    command = [sys.executable, "-I", "-c", ECHO] if is_ours else [str(NODE), "-e", NODE_ECHO]
    took_ms: list[float] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=program.home.env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(TRIPS):
            begun_s = time.monotonic()
            process.stdin.write(LINE)
            process.stdin.flush()
            process.stdout.readline()
            took_ms.append((time.monotonic() - begun_s) * 1000)
        process.stdin.close()
    return {"a line sent back: p50, ms": statistics.median(took_ms)}


def parsed(program: Program) -> Figures:
    """Start an interpreter that does nothing with the long session but parse its lines."""
    path = long_session.session_of(program)
    took_ms, memory = waiting([sys.executable, "-I", "-c", PARSE, str(path)], program)
    name = f"{long_session.MESSAGES:,} messages, their lines parsed and nothing else"
    return {f"{name}: start, ms": took_ms, f"{name}: private, MiB": memory["private"]}


def synced(program: Program) -> Figures:
    """Append lines to a file where sessions are kept, each written through to the disk."""
    took_ms: list[float] = []
    with tempfile.TemporaryFile(dir=program.home.sessions) as file:
        for _ in range(SYNCS):
            begun_s = time.monotonic()
            os.write(file.fileno(), LINE)
            os.fdatasync(file.fileno())
            took_ms.append((time.monotonic() - begun_s) * 1000)
    return {"a line appended and synced: p50, ms": statistics.median(took_ms)}
