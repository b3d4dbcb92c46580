"""A wall clock that jumps, for one agent: a library of thirty lines, loaded before it, adds what a file says.

Only the time of day jumps (`clock_jumps.c`). Needs a C compiler, as .tools/bin/cc or on PATH; without one clocks are
left alone. libfaketime is no choice: it hangs agents that wait with a time limit in threads.
"""

import shutil
import struct
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

VARIABLE: Final = "PINNACE_FUZZ_CLOCK"
_SOURCE: Final = Path(__file__).with_name("clock_jumps.c")
_TOOLS: Final = Path(__file__).parents[3] / ".tools" / "bin"


@cache
def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("cc", path=str(_TOOLS))


class Clock:
    """The time of day of the agents that get `env`."""

    def __init__(self, folder: Path) -> None:
        """Begin with the right time. `folder` is for the library and the file with the offset."""
        folder.mkdir()
        self._path = folder / "offset"
        self._path.write_bytes(bytes(8))
        self._library = folder / "clock_jumps.so"
        compiler = _compiler()
        command = [compiler or "", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(_SOURCE)]
        self.is_there = bool(compiler) and subprocess.run(command, capture_output=True, check=False).returncode == 0
        """Whether it can jump."""

    @property
    def env(self) -> Mapping[str, str]:
        """What the agent's environment needs."""
        return {"LD_PRELOAD": str(self._library), VARIABLE: str(self._path)} if self.is_there else {}

    def jump(self, offset_s: int) -> None:
        """Set it to the right time and so much."""
        with self._path.open("r+b") as file:
            file.write(struct.pack("=q", offset_s))
