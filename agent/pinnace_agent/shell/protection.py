"""Makes this process the parent of its orphaned descendants, and closes a program of the agent. Linux only.

A program of the command line closes itself before it loads anything of the agent (`options/closing`).
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final

_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36


_adopts: list[bool] = [False]
_switching: Final = Lock()


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has exited. Does nothing outside Linux.

    Raises:
        OSError: The system call failed.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _adopts[0] = True


def protect() -> None:
    """Deny other processes of this user the memory, environment and descriptors of this one; write no core dumps.

    For a program that handles secrets, before it reads them. What the system refuses is left as it is.
    """
    import resource

    with suppress(OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        _prctl(_PR_SET_DUMPABLE, 0)


@contextmanager
def without_adoption() -> Generator[None]:
    """Adopt no orphans in the body: for the start of a process that must not be a descendant of this one."""
    if not _adopts[0]:
        yield
        return
    with _switching:  # another agent of this process may start a watchdog of its own
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
