"""What one process uses: memory, open files, children, files that it left, and what it has written to stderr.

Linux only: reads /proc. Judges nothing.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pinnace_fuzz.process_tree import PROC

_LONG_OUTPUT = "pi-bash-"


class Sample(NamedTuple):
    """One look, at a moment when nothing is at work."""

    time_s: float
    """Since the beginning."""
    prompts: int
    """Sent so far."""
    resident_kib: int
    proportional_kib: int
    private_kib: int
    descriptors: int
    children: int
    threads: int
    outputs: int
    """Files with long outputs of commands, which the agent keeps for the user."""
    temporary: int
    """Other files among the temporary ones."""
    stderr_bytes: int
    sessions: int
    session_bytes: int
    other_session_files: int
    """Leases and copies beside the sessions."""


class ProcessPlace(NamedTuple):
    """Where the process lives."""

    process_id: int
    temp: Path
    sessions: Path


def take(place: ProcessPlace, *, time_s: float, prompts: int, children: int, stderr_bytes: int) -> Sample:
    """Look at the process now."""
    folder = PROC / str(place.process_id)
    memory = _fields((folder / "smaps_rollup").read_text())
    status = _fields((folder / "status").read_text())
    temporary = _files(place.temp)
    outputs = sum(each.name.startswith(_LONG_OUTPUT) for each in temporary)
    beside = _files(place.sessions)
    sessions = [each for each in beside if each.suffix == ".jsonl"]
    return Sample(
        time_s=time_s,
        prompts=prompts,
        resident_kib=memory["Rss"],
        proportional_kib=memory["Pss"],
        private_kib=memory["Private_Clean"] + memory["Private_Dirty"],
        descriptors=len(os.listdir(folder / "fd")),
        children=children,
        threads=status["Threads"],
        outputs=outputs,
        temporary=len(temporary) - outputs,
        stderr_bytes=stderr_bytes,
        sessions=len(sessions),
        session_bytes=sum(each.stat().st_size for each in sessions),
        other_session_files=len(beside) - len(sessions),
    )


def _files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


def _fields(text: str) -> dict[str, int]:
    return dict(_numbers(text.splitlines()))


def _numbers(lines: Iterable[str]) -> Iterable[tuple[str, int]]:
    for line in lines:
        name, _, rest = line.partition(":")
        first = rest.split()[:1]
        if first and first[0].isdecimal():
            yield name, int(first[0])
