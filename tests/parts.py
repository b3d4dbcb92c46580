"""Which of many alike cases run this time: a part of them, another in each run, all of them in long runs."""

import os
from pathlib import Path
from typing import Final

# One start of the original a case takes a second, and a release does not change: a part of the cases shows that it is
# still asked as it was when its answers were recorded.
_OF_RECORDED: Final = 8


def part(count: int, of: int) -> range:
    """Return the places of every so many of the cases; where they begin differs from run to run."""
    if os.environ.get("HYPOTHESIS_PROFILE") == "long":
        return range(count)
    seed = os.environ.get("PYTHONHASHSEED", "")  # the same in all processes of a run
    return range(int(seed) % of if seed.isdigit() else 0, count, of)


def asked_again(count: int, record: Path) -> range:
    """Return the places of the cases that the original is asked again: all of them where nothing is recorded yet."""
    return part(count, _OF_RECORDED) if record.exists() else range(count)
