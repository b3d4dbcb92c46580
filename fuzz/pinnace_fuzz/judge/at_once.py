"""How many cases are played at once: a fixed number, or as many as the processors are idle for.

A case is mostly the start of its agent, and the rest is waiting: two cases a processor leave it idle for half of the
time. So without a number one more is played while a processor is idle, and one less while none is, down to one a
processor, which leaves a machine that others use to them. Decides a number only; plays nothing.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

MOST: Final = 16
"""So many at most, also where they are named: each has some twenty descriptors and threads."""
_EACH: Final = 4
"""So many at most for each processor: each takes the memory of an agent."""
_EVERY_S: Final = 1.0
_IDLE: Final = 0.25
_BUSY: Final = 0.05
"""Processors that were idle since the last look: above the one is room for a further case, below the other for none."""
_STAT: Final = Path("/proc/stat")


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def idle_s() -> float | None:
    """Return how long the processors that this process may use were idle, in all; None if the system has no data."""
    allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    try:
        lines = [line.split() for line in _STAT.read_text(encoding="ascii").splitlines()]
        # What waits for a disk is idle too: the fields are user, nice, system, idle, iowait.
        ticks = [int(line[4]) + int(line[5]) for line in lines if line and line[0] in allowed]
    except (OSError, ValueError, IndexError):
        return None
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


class AtOnce:
    """How many cases may be played at once, now. For one thread."""

    def __init__(
        self,
        number: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        idle: Callable[[], float | None] = idle_s,
        least: int | None = None,
    ) -> None:
        """Begin.

        Args:
            number: A fixed number; None: as many as the processors are idle for.
            clock: In seconds.
            idle: Returns the idle time of all processors so far, in seconds.
            least: How many at least; None: one a processor.
        """
        self._is_fixed = number is not None
        self._least = min(MOST, number or least or processors())
        self._now = self._least
        self.most = self._least if self._is_fixed else min(MOST, _EACH * self._least)
        """So many will never be exceeded."""
        self.peak = self._now
        """The largest number so far."""
        self._clock = clock
        self._idle = idle
        self._looked_s = clock()
        self._idle_s = None if self._is_fixed else idle()

    def now(self) -> int:
        """Return the number. To be called often: it follows what the processors have done in the last second."""
        at = self._clock()
        if self._is_fixed or self._idle_s is None or at - self._looked_s < _EVERY_S:
            return self._now
        idle_by_now = self._idle()
        if idle_by_now is not None:
            idle = (idle_by_now - self._idle_s) / (at - self._looked_s)
            if idle > _IDLE:
                self._now = min(self.most, self._now + 1)
            elif idle < _BUSY:
                self._now = max(self._least, self._now - 1)
            self.peak = max(self.peak, self._now)
        self._idle_s = idle_by_now
        self._looked_s = at
        return self._now
