"""Which recorded answers of the original are asked for again in this run."""

import os
from pathlib import Path
from typing import Final

# One start of the original a case takes a second, and a release does not change: a part of the cases shows that it is
# still asked as it was when its answers were recorded.
PART: Final = 8


def asked_again(count: int, record: Path) -> range:
    """Return the places of the cases to ask again: every eighth, others in each run.

    All of them in long runs, and where nothing is recorded yet.
    """
    if os.environ.get("HYPOTHESIS_PROFILE") == "long" or not record.exists():
        return range(count)
    seed = os.environ.get("PYTHONHASHSEED", "")  # the same in all processes of a run
    return range(int(seed) % PART if seed.isdigit() else 0, count, PART)
