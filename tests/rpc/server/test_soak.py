"""A quarter of an hour of mixed traffic, a half each with two processes: nothing is left, nothing grows.

Among the long checks alone, since it takes its time (docs/soak-and-chaos.md has the whole command):

    HYPOTHESIS_PROFILE=long .venv/bin/python -m pytest tests/rpc/server/test_soak.py -q
"""

import os
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_campaigns.soak.__main__ import soak

# A test that takes ten minutes is taken for stuck.
HALF_S: Final = 7.5 * 60
IS_LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"


@pytest.mark.slow
@pytest.mark.skipif(not IS_LONG, reason="takes a quarter of an hour: with HYPOTHESIS_PROFILE=long")
@pytest.mark.parametrize("protocol", ["pi", "1.5"])
def test_half_of_a_quarter_of_an_hour_leaves_nothing_and_adds_nothing(protocol: str, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "pinnace_rpc"]
    rows, _, traffic = soak(tmp_path, command, seconds=HALF_S, protocol=protocol, env={"PYTHONPATH": PYTHONPATH})

    assert [] == [row for row in rows if row.fault]
    assert traffic.done["prompts"] >= 2_000
