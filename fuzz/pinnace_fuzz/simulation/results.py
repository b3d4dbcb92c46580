"""What a history comes to, and what all have in common: where clocks begin, and a quiet process around them."""

import gc
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_fuzz.simulation.trace import Trace

if TYPE_CHECKING:
    from pinnace_fuzz.simulation.parts import Parts

# Long ago, so that no file of the real disk, whose time is that of the machine, is older than the simulated present.
EPOCH_NS: Final = 10**18
"""Where the wall clock begins."""
RESTART_S: Final = 1.0
"""Between two lives of what is simulated."""
SESSION: Final = "simulated"
"""The id of the session with which each life begins."""
_LOGGER: Final = "pinnace"


class Finding(NamedTuple):
    """Something that must not be."""

    step: int
    """The scheduling step at which it was found."""
    source: str
    """Which oracle has found it."""
    text: str


class History(NamedTuple):
    """What a seed has come to."""

    seed: int
    steps: int
    lives: int
    findings: tuple[Finding, ...]
    trace: Trace
    parts: "Parts"
    """Those that were played, and those that were left out."""


class Log(logging.Handler):
    """Collects what the agent logs as a defect of its own: errors with a traceback."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__(logging.ERROR)
        self.defects: list[str] = []
        self.is_left_out: Callable[[], bool] = bool
        """Whether what is logged at this moment does not count."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        if record.exc_info and not self.is_left_out():
            self.defects.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def without_surprises() -> Generator[Log]:
    """Collect no garbage, whose finalizers run at any moment, and take the agent's log."""
    logger, log = logging.getLogger(_LOGGER), Log()
    handlers, propagates, had_gc = logger.handlers[:], logger.propagate, gc.isenabled()
    gc.collect()
    gc.disable()
    logger.handlers[:], logger.propagate = [log], False
    try:
        yield log
    finally:
        logger.handlers[:], logger.propagate = handlers, propagates
        if had_gc:
            gc.enable()
