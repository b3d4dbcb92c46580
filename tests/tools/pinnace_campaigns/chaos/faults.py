"""The faults around an agent in a chaos run: a wall clock that jumps, a disk that is full, files that may not grow.

Only the time of day jumps: a library of thirty lines (`clock_jumps.c`), preloaded into the agent, adds an offset that
it reads from a file. It needs a C compiler, as .tools/bin/cc or on PATH; without one the clock stays unchanged.
libfaketime is unsuitable: it hangs agents that wait with a timeout in threads.

The disk is a small file system where mounting is allowed. The limit on file sizes (`RLIMIT_FSIZE` of the running agent)
fails in the same place with another error and needs no rights.
"""

import resource
import shutil
import struct
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

VARIABLE: Final = "PINNACE_FUZZ_CLOCK"
_SOURCE: Final = Path(__file__).with_name("clock_jumps.c")
_TOOLS: Final = Path(__file__).parents[4] / ".tools" / "bin"


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
        """Whether the clock can jump."""

    @property
    def env(self) -> Mapping[str, str]:
        """What the agent's environment needs."""
        return {"LD_PRELOAD": str(self._library), VARIABLE: str(self._path)} if self.is_there else {}

    def jump(self, offset_s: int) -> None:
        """Set it to the right time and so much."""
        with self._path.open("r+b") as file:
            file.write(struct.pack("=q", offset_s))


SIZE: Final = "16m"
"""More than the sessions of a run take."""
_BLOCK: Final = 4096


class Disk:
    """The disk under a folder; `close` takes it away with all that is on it."""

    def __init__(self, folder: Path) -> None:
        """Mount a file system on the folder, if that is allowed."""
        self._folder = folder
        self._filler = folder / ".filler"
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(folder)]
        try:
            # In a group of its own: a Ctrl-C in the terminal is for this program, not for mount and umount.
            done = subprocess.run(command, capture_output=True, check=False, process_group=0)
        except OSError:
            self.is_own = False
        else:
            self.is_own = done.returncode == 0
        """Whether it can really be full."""

    def close(self) -> None:
        """Unmount it, lazily: what a failure has left open must not keep it."""
        if self.is_own:
            self.is_own = False
            subprocess.run(["umount", "-l", str(self._folder)], check=True, process_group=0)

    def fill(self) -> None:
        """Leave no block free; the rest of a file's last block can still be written."""
        with self._filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(64 * _BLOCK))
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(_BLOCK))

    def empty(self) -> None:
        """Free the blocks again."""
        self._filler.unlink(missing_ok=True)


def limit_files(process_id: int, size: int | None) -> None:
    """Let no file of a running process grow beyond a size; None: lift that."""
    _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY if size is None else size, hard))
