"""Waiting for what another process or thread does soon, where nothing says that it has."""

import time
from collections.abc import Callable
from pathlib import Path

LIMIT_S = 60.0


def wait_until(
    condition: Callable[[], object], what: object = "it did not come true", limit_s: float = LIMIT_S
) -> None:
    """Return when a condition holds; fail with `what` if it does not within the limit."""
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.01)


def wait_gone(path: Path) -> None:
    """Wait until a file is no longer there: what is let go of is so beside everything else."""
    wait_until(lambda: not path.exists(), f"{path} stays")
