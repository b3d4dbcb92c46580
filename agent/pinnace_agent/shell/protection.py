"""Protects this process from other processes of the same user, and makes it the parent of its orphaned descendants.

A command that the agent runs has the agent's user. Without protection it could open `/proc/<agent>/fd/*`, write records
and read commands there, read keys in `/proc/<agent>/environ` and in the agent's memory, or attach as a debugger. Linux
only: elsewhere there is no such /proc, and only core dumps are turned off.

Not protected from: root, a process with CAP_SYS_PTRACE, signals of the same user, and the files of the same user.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36


def protect() -> str | None:
    """Deny other processes of this user the memory, environment and descriptors of this one; write no core dumps.

    Programs that this process starts are not affected, except that the soft limit of their core dumps is 0 as well,
    which they may raise. Call it before keys are read and before anything is started.

    Returns:
        What could not be protected and the reason; None on success.
    """
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        _prctl(_PR_SET_DUMPABLE, 0)
    except OSError as error:
        return f"other processes of this user can read the agent's memory: {error}"
    return None


_adopts: list[bool] = [False]


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has exited. Does nothing outside Linux.

    Raises:
        OSError: The system call failed.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _adopts[0] = True


@contextmanager
def without_adoption() -> Generator[None]:
    """Adopt no orphans in the body: for the start of a process that must not be a descendant of this one."""
    if not _adopts[0]:
        yield
        return
    _prctl(_PR_SET_CHILD_SUBREAPER, 0)
    try:
        yield
    finally:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    import ctypes  # trio has imported it

    library = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_ulong(each) for each in (value, 0, 0, 0))
    if library.prctl(option, *arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "prctl")
