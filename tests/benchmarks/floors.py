"""What the two languages cost before either program does anything: the limit that no work on the programs moves.

Processes that start, say a word, and wait: the interpreter alone; with trio, and with all that an HTTP request needs.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from side_by_side import NODE, Figures, Program, memory_of

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


def floor(name: str) -> Callable[[Program], Figures]:
    """Return what starts a process that does nothing, in a program's language."""

    def measure(program: Program) -> Figures:
        is_ours = program.name.startswith("pinnace")
        if not is_ours and name not in NODES:
            return {}
        command = [sys.executable, *PYTHON[name]] if is_ours else [str(NODE), *NODES[name]]
        begun_s = time.monotonic()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=program.home.env) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()
            took_ms = (time.monotonic() - begun_s) * 1000
            time.sleep(SETTLE_S)
            memory = memory_of(process.pid)
            process.stdin.close()
        return {
            f"{name}: start, ms": took_ms,
            f"{name}: private, MiB": memory["private"],
            f"{name}: proportional share, MiB": memory["proportional"],
        }

    return measure
