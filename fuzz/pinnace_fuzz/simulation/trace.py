"""The trace of a history: what crossed an edge of the agent, with the scheduling step and the simulated time.

Two runs of a seed are equal if their traces are. The folder of the run, whose name is random, is replaced; the order in
which tasks ran is in the trace as a checksum at each line, so a difference in scheduling shows at the next line.
"""

import re
import zlib
from hashlib import sha256
from typing import Final

FOLDER_NAME: Final = "<folder>"
# Addresses in names of tasks, which are other ones in each process.
_ADDRESS: Final = re.compile(r"\d{8,}")


class Trace:
    """Collects the lines of one history."""

    def __init__(self, folder: str) -> None:
        """Begin at step 0; `folder` is replaced in every line."""
        self.lines: list[str] = []
        self.steps = 0
        """Scheduling steps of trio until now, over all lives of the agent."""
        self.time_s = 0.0
        """Simulated seconds, over all lives."""
        self._folder = folder
        self._order = 0
        self._names: dict[str, bytes] = {}

    def step(self, task: str) -> None:
        """Count a scheduling step of a task."""
        self.steps += 1
        name = self._names.get(task)
        if name is None:
            name = self._names[task] = _ADDRESS.sub("", task.replace(self._folder, FOLDER_NAME)).encode()
        self._order = zlib.crc32(name, self._order)

    def note(self, kind: str, text: str) -> None:
        """Add a line."""
        text = text.replace(self._folder, FOLDER_NAME)
        self.lines.append(f"{self.steps} {self.time_s:.6f} {self._order:08x} {kind} {text}")

    @property
    def digest(self) -> str:
        """The checksum of all lines: SHA-256, in hexadecimal digits."""
        return sha256("\n".join(self.lines).encode("utf-8", "surrogateescape")).hexdigest()
