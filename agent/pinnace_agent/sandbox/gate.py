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
_MOST_FREE: Final = 8
_FLAGS: Final = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC


class Gates:
    """The gates of one process: one that is not used any more serves the next program, since making one takes long."""

    def __init__(self, base: str) -> None:
        """Make none yet; `base` is a folder that no command sees."""
        self._base = base
        self._free: list[Gate] = []

    def take(self) -> "Gate":
        """Return a closed gate. For any thread.

        Raises:
            OSError: It can't be made.
        """
        try:
            return self._free.pop()
        except IndexError:
            return Gate(self._base)

    def give_back(self, gate: "Gate", *, is_alone: bool) -> None:
        """Take a gate that is not needed any more; `is_alone`: no process can reach it."""
        if is_alone and gate.is_usable() and len(self._free) < _MOST_FREE:
            self._free.append(gate)
        else:
            gate.close()

    def close(self) -> None:
        """Remove all that are free."""
        while self._free:
            self._free.pop().close()


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
            # For both, so that neither has an end while the program opens and closes it.
            self._ready = os.open(f"{self.folder}/{READY}", _FLAGS)
            self._go = os.open(f"{self.folder}/{GO}", _FLAGS)
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

    def is_usable(self) -> bool:
        """Return whether it can be used once more; takes out what its program has left."""
        if self._go < 0:
            return False
        for each in (self._ready, self._go):
            with suppress(BlockingIOError):
                while os.read(each, 4096):
                    pass
        return True

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
