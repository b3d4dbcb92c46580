"""Makes this process the parent of its orphaned descendants. Linux only.

That it is closed to others of its user is the business of each program (`closing`).
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock
from typing import Final

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
