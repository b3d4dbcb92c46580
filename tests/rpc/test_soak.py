"""A minute of mixed traffic with one process: nothing is left, nothing grows.

Among the long checks alone, since it takes its minute (docs/steady.md has the whole command):

    HYPOTHESIS_PROFILE=long .venv/bin/python -m pytest tests/rpc/test_soak.py -q
"""

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from pinnace_fuzz.soak.__main__ import soak

REPOSITORY: Final = Path(__file__).parents[2]
ROOTS: Final = os.pathsep.join(str(REPOSITORY / name) for name in ("spec", "statechart", "agent", "rpc", "fuzz"))
IS_LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"


@pytest.mark.slow
@pytest.mark.skipif(not IS_LONG, reason="takes a minute: with HYPOTHESIS_PROFILE=long")
def test_a_minute_of_traffic_leaves_nothing_and_adds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pinnace_rpc"]
    rows, _, traffic = soak(tmp_path, command, seconds=60, env={"PYTHONPATH": ROOTS})

    assert [] == [row for row in rows if row.fault]
    assert traffic.done["prompts"] >= 20
