"""Reads the processes of the system from /proc: children, sessions, start times, environments.

The result may be outdated when it is used. Without /proc nothing is found. Uses one descriptor at a time.
"""

import os
import time
from functools import cache
from typing import Final, NamedTuple

_CHUNK_BYTES: Final = 64 * 1024


class Status(NamedTuple):
    """The content of /proc/PID/stat."""

    parent: int
    session: int
    start: int
    """Since the system's start, in ticks of its clock, 10 ms each."""
    is_zombie: bool
    """Whether it has exited and is not reaped."""


def status_of(pid: int) -> Status | None:
    """Return the status of a process; None: it does not exist.

    Raises:
        OSError: No descriptor is left.
    """
    content = _read(f"/proc/{pid}/stat")
    if not content:
        return None
    # The name, in parentheses, may have any characters.
    words = content.rpartition(b")")[2].split()
    return Status(int(words[1]), int(words[3]), int(words[19]), words[0] in b"ZX")


def children_of(pid: int) -> list[int]:
    """Return the children of a process, including zombies; one that starts or exits meanwhile may be missing.

    Raises:
        OSError: No descriptor is left.
    """
    if not _lists_children():
        return [each for each in _processes() if (status := status_of(each)) is not None and status.parent == pid]
    found: list[int] = []
    for thread in _names(f"/proc/{pid}/task"):
        found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    return found


def variable_of(pid: int, name: str) -> bytes | None:
    """Return a variable of a process' environment at the start of its program; None: unset or not readable.

    Waits up to 4 ms for a process that is executing another program, and has no environment meanwhile.

    Raises:
        OSError: No descriptor is left.
    """
    environment = _read(f"/proc/{pid}/environ")
    for _ in range(20):
        if environment or _read(f"/proc/{pid}/cmdline"):
            break
        time.sleep(0.0002)
        environment = _read(f"/proc/{pid}/environ")
    prefix = f"{name}=".encode()
    for each in environment.split(b"\0"):
        if each.startswith(prefix):
            return each[len(prefix) :]
    return None


@cache
def _lists_children() -> bool:
    """Return whether the kernel lists the children of a thread; otherwise all processes are read."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _processes() -> list[int]:
    return [int(name) for name in _names("/proc") if name.isdecimal()]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError, PermissionError, NotADirectoryError):
        return []


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError, NotADirectoryError):
        return b""
    try:
        content = chunk = os.read(descriptor, _CHUNK_BYTES)
        while chunk:
            chunk = os.read(descriptor, _CHUNK_BYTES)
            content += chunk
    except (ProcessLookupError, PermissionError):
        return b""
    finally:
        os.close(descriptor)
    return content
