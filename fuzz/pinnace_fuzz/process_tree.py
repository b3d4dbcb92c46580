"""Finds, measures and kills the processes that one run started, whatever groups they put themselves in.

A run is recognised by a variable in the environment, which children inherit; so a shell that an agent started
in a session of its own is found too, and nothing else ever is. Linux only: reads /proc.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

RUN_VARIABLE = "PINNACE_FUZZ_RUN"

PROC = Path("/proc")
# A killed process is gone within milliseconds, unless it is stuck in the kernel.
KILL_DEADLINE_S = 5.0


def processes_of(run_id: str) -> list[int]:
    """Find the ids of the living processes of a run; zombies are not alive."""
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    return [process_id for process_id in _process_ids() if _is_marked(process_id, mark)]


def kill_all(run_id: str) -> list[int]:
    """Kill every process of a run; return the ids of those that are still there after all."""
    deadline_s = time.monotonic() + KILL_DEADLINE_S
    empty_looks = 0
    # Two looks, since a process has no environment for a moment while it executes another program.
    while empty_looks < 2 and time.monotonic() < deadline_s:
        left = processes_of(run_id)
        empty_looks = 0 if left else empty_looks + 1
        for process_id in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        time.sleep(0.001)  # there is no notification for the end of a process that is not a child
    return processes_of(run_id)


def memory_kib(process_id: int, field: str = "VmRSS") -> int:
    """Read a process' memory in KiB: `VmRSS` is what it uses, `VmHWM` the most that it ever did.

    Raises:
        ProcessLookupError: There is no such process, or only its zombie.
    """
    try:
        lines = (PROC / str(process_id) / "status").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise ProcessLookupError(process_id)


def _process_ids() -> Iterator[int]:
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal())


def _is_marked(process_id: int, mark: bytes) -> bool:
    folder = PROC / str(process_id)
    try:
        # Of a zombie, environ is empty.
        return mark in (folder / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # ended meanwhile, or not ours to read
