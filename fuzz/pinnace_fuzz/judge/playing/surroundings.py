"""Checks the surroundings of an agent: its files, and the processes that it has started."""

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pinnace_fuzz.judge.scenarios.scenario import FileCheck


def file_faults(path: Path, check: FileCheck, limit_s: float = 0) -> list[str]:
    """Return which expectation of a file is not met in time."""
    deadline_s = time.monotonic() + limit_s
    while (faults := _file_faults(path, check)) and time.monotonic() < deadline_s:
        time.sleep(0.02)  # files do not report when they change
    return faults


def _file_faults(path: Path, check: FileCheck) -> list[str]:
    if path.exists() is not check.exists:
        return [f"{check.path} {'is not there' if check.exists else 'is there'}"]
    if not (check.exists and path.is_file()):
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    faults = [f"{check.path} has nothing like /{each}/" for each in check.has if not re.search(each, text)]
    return faults + [f"{check.path} has /{each}/" for each in check.lacks if re.search(each, text)]


def children_faults(descendants: Callable[[], Sequence[int]], number: int, limit_s: float) -> list[str]:
    """Wait until an agent has so many descendants; return an error if it does not happen."""
    deadline_s = time.monotonic() + limit_s
    while len(found := descendants()) != number and time.monotonic() < deadline_s:
        time.sleep(0.01)  # the end of another process's child is not reported
    if len(found) == number:
        return []
    return [f"the agent has {len(found)} descendants, not {number}: {', '.join(_names(found))}"]


def _names(process_ids: Sequence[int]) -> list[str]:
    names: list[str] = []
    for each in process_ids:
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ")
            names.append(line.decode("utf-8", "replace")[:80])
    return names
