"""Finds, measures and kills the processes that one run started, whatever groups they put themselves in.

A process belongs to a run if a variable in its environment says so, which children inherit, or if its parent
belongs to it. So a shell that an agent started in a session of its own is found, also after the agent's end,
and nothing else ever is. Linux only: reads /proc.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

RUN_VARIABLE = "PINNACE_FUZZ_RUN"

PROC = Path("/proc")
# A killed process is gone within milliseconds, unless it is stuck in the kernel.
KILL_DEADLINE_S = 5.0


def processes_of(run_id: str) -> list[int]:
    """Find the ids of the living processes of a run; zombies are not alive."""
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    parents: dict[int, int] = {}
    found: set[int] = set()
    for process_id in _process_ids():
        if (parent := _living_parent(process_id)) is not None:
            parents[process_id] = parent
            if _is_marked(process_id, mark):
                found.add(process_id)
    # While it executes another program, a process has no environment for a moment; its parent has.
    while children := {child for child, parent in parents.items() if parent in found} - found:
        found |= children
    return sorted(found)


def kill_each(process_ids: Iterable[int]) -> None:
    """Send SIGKILL to those that still are there."""
    for process_id in process_ids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)


def kill_all(run_id: str) -> list[int]:
    """Kill every process of a run; return the ids of those that are still there after all."""
    deadline_s = time.monotonic() + KILL_DEADLINE_S
    empty_looks = 0
    # Two looks: one that lost its parent while it executed another program shows at the second.
    while empty_looks < 2 and time.monotonic() < deadline_s:
        left = processes_of(run_id)
        empty_looks = 0 if left else empty_looks + 1
        kill_each(left)
        time.sleep(0.001)  # there is no notification for the end of a process that is not a child
    return processes_of(run_id)


def await_end(run_id: str, timeout_s: float) -> list[int]:
    """Wait until a run has no living process; return the ids of those that live on after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while (left := processes_of(run_id)) and time.monotonic() < deadline_s:
        time.sleep(0.005)  # as above
    return left


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


def _living_parent(process_id: int) -> int | None:
    try:
        # The name, in parentheses, may have any characters.
        state, parent, *_ = (PROC / str(process_id) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None  # ended meanwhile
    return None if state in ("Z", "X") else int(parent)


def _is_marked(process_id: int, mark: bytes) -> bool:
    try:
        return mark in (PROC / str(process_id) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # ended meanwhile, or not ours to read
