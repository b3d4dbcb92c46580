"""The gate of one program in a sandbox: it waits behind it, inside, until what it sees was verified.

Two pipes with names, in a folder that this program alone sees: the first stage of the program writes into one when
everything was set up, and reads from the other before it goes on. If the agent ends, the read does too, and the program
does not run. The pipes are opened by their names inside, so that no descriptor reaches the program. Blocking.
"""

import os
import select
import tempfile
from contextlib import suppress
from typing import Final

READY: Final = "ready"
GO: Final = "go"


class Gate:
    """A closed gate. Owns a folder and two descriptors until `close`."""

    def __init__(self, base: str) -> None:
        """Make it in a folder that no command sees.

        Raises:
            OSError: It can't be made.
        """
        self.folder = tempfile.mkdtemp(prefix="gate-", dir=base)
        """Holds the two pipes."""
        self._ready = self._go = -1
        try:
            for name in (READY, GO):
                os.mkfifo(f"{self.folder}/{name}", 0o600)
            self._ready = os.open(f"{self.folder}/{READY}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            # Also for reading: there is no other reader yet.
            self._go = os.open(f"{self.folder}/{GO}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except BaseException:
            self.close()
            raise

    def is_reached(self, process: int, limit_s: float) -> bool:
        """Wait until the program stands before it; return False if its process ends, or the time does.

        Args:
            process: A descriptor of the process that was started (pidfd).
            limit_s: How long to wait.
        """
        waiting = select.poll()
        waiting.register(self._ready, select.POLLIN)
        waiting.register(process, select.POLLIN)
        found = dict(waiting.poll(limit_s * 1000))
        return bool(found.get(self._ready, 0) & select.POLLIN)

    def let_pass(self) -> None:
        """Let the program go on."""
        os.write(self._go, b"\n")

    def close(self) -> None:
        """Close and remove it; a program that still waits behind it ends. Further calls have no effect."""
        for each in (self._ready, self._go):
            if each >= 0:
                os.close(each)
        self._ready = self._go = -1
        with suppress(OSError):
            for name in (READY, GO):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.folder}/{name}")
            os.rmdir(self.folder)
