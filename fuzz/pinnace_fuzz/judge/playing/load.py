"""Measures how late this process runs, and how long a judged one waits for a processor.

A deadline that is missed on an overloaded machine is no evidence against the agent: such a case is inconclusive.
"""

import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

_TICK_S = 0.05
# A thread that only sleeps is late by this much on an overloaded machine.
LATE_S = 0.7
# The share of the time in which a judged process was ready and not run.
WAITING_SHARE = 0.4


class Load(NamedTuple):
    """How the machine was during a case."""

    late_s: float
    """The maximal delay of the tester's own clock."""
    waiting_s: float
    """How long the agent's main thread was ready to run and did not."""
    elapsed_s: float

    @property
    def is_overloaded(self) -> bool:
        """Deadlines that were missed prove nothing."""
        return self.late_s > LATE_S or self.waiting_s > max(1.0, WAITING_SHARE * self.elapsed_s)


class LoadMeter:
    """One thread that wakes up often and notes how late it was; use it as a context manager."""

    def __init__(self) -> None:
        self._late: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load-meter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic() + _TICK_S
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            if now - due > _TICK_S:
                self._late.append((now, now - due))
                del self._late[:-1000]
            due = now + _TICK_S

    def since(self, begun_s: float, waiting_s: float = 0.0) -> Load:
        """Say how it was since a time of the monotonic clock."""
        late = max((late for at, late in list(self._late) if at >= begun_s), default=0.0)
        return Load(late, waiting_s, time.monotonic() - begun_s)


def waiting_s(process_id: int) -> float:
    """Read for how long the main thread of a process was ready and did not run; 0 if unknown."""
    try:
        return int((Path("/proc") / str(process_id) / "schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
