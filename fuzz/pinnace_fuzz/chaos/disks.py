"""A disk that can be full: a small file system of our own where mounting is allowed, and a limit on file sizes.

The limit (`RLIMIT_FSIZE` of the running agent) says no in the same place, with another error, and needs no rights.
"""

import resource
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

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
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError:
            self.is_own = False
        else:
            self.is_own = done.returncode == 0
        """Whether it can really be full."""

    def close(self) -> None:
        """Unmount it, lazily: what a failure has left open must not keep it."""
        if self.is_own:
            self.is_own = False
            subprocess.run(["umount", "-l", str(self._folder)], check=True)

    def fill(self) -> None:
        """Leave no block free; what is left of a file's last block can still be written."""
        with self._filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(64 * _BLOCK))
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(_BLOCK))

    def empty(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)


def limit_files(process_id: int, size: int | None) -> None:
    """Let no file of a running process grow beyond a size; None: lift that."""
    _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(process_id, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY if size is None else size, hard))
