"""The seeds at which faults were found: a history of each is played first, so that most tests need one.

A change of what is drawn makes other histories of the seeds: then the search from the first seed decides, as without
them, and `RENEW=1 pytest -n 0 tests/fuzz/simulation` writes down what it has found.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tests.source_tree import DATA

from pinnace_campaigns.mutants.trial import Copy

FILE: Final = DATA / "seeds-of-faults.json"
FOUND: Final = 1
_ROOTS: Final = ("spec", "statechart", "agent", "rpc", "fuzz")
_RUN: Final = "from pinnace_fuzz.simulation.cli import main; main()"


def simulated(copy: Copy, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run `pinnace-simulate` of a copy of the checkout."""
    path = os.pathsep.join(str(copy.root / each) for each in _ROOTS)
    return subprocess.run(
        [sys.executable, "-P", "-c", _RUN, *options],
        cwd=copy.root,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        capture_output=True,
        text=True,
    )


def searched(copy: Copy, name: str, options: Sequence[str], steps: int) -> "subprocess.CompletedProcess[str]":
    """Play the history that has found a fault, and if it finds it no more, those of all seeds within so many steps."""
    seeds: Mapping[str, int] = json.loads(FILE.read_text(encoding="utf-8"))
    if name in seeds:
        done = simulated(copy, *options, "--seed", str(seeds[name]), "--steps", "1")
        if done.returncode == FOUND:
            return done
    done = simulated(copy, *options, "--steps", str(steps))
    found = re.search(r"^seed (\d+):", done.stdout, re.MULTILINE)
    if os.environ.get("RENEW") and found is not None:
        renewed = {**seeds, name: int(found[1])}
        FILE.write_text(json.dumps(renewed, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return done
