"""Where the repository's files lie, for tests that read them or start a program of the source tree."""

import os
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[1]
DATA: Final = REPOSITORY / "tests" / "data"

PYTHONPATH: Final = os.pathsep.join(
    str(REPOSITORY / name) for name in ("spec", "statechart", "agent", "rpc", "fuzz", "tests/tools")
)
"""The variable `PYTHONPATH` of a program that imports the packages from the source tree."""
