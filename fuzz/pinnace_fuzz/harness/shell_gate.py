"""A gate for shell commands: a command that reads it waits until the test lets it continue.

What gates of the fake LLM are for streams, this is for tools, for the client's `bash` and for commands of
configuration files. A named pipe; each read of it waits for a release of its own. Not for two commands at once.
"""

import errno
import os
import shlex
import time
from pathlib import Path
from typing import Self

from pinnace_fuzz.harness.agent_process import DEFAULT_TIMEOUT_S, DriverTimeout


class ShellGate:
    """One gate; `reading` is what a command runs to wait at it. Use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Make the pipe; its folder is there already."""
        os.mkfifo(path)
        self.path = path
        self._writer: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def reading(self) -> str:
        """A shell command that waits here and puts the word of the gate into $word."""
        return f"read word < {shlex.quote(str(self.path))}"

    def wait_reached(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Wait until a command waits here, so that it is known to run; it continues to wait.

        Raises:
            DriverTimeout: None does.
        """
        deadline_s = time.monotonic() + timeout_s
        while self._writer is None:
            try:
                self._writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                if time.monotonic() > deadline_s:
                    raise DriverTimeout(f"no command reads {self.path.name} within {timeout_s} s") from None
                time.sleep(0.002)  # a pipe does not report when it gets a reader

    def release(self, word: str = "go", timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Let the command that waits here, or the next one, continue.

        Raises:
            DriverTimeout: None waits.
        """
        self.wait_reached(timeout_s)
        assert self._writer is not None
        # A new pipe for the next command: what is written must not be for one that is about to leave this one.
        following = self.path.with_suffix(".next")
        os.mkfifo(following)
        following.replace(self.path)
        os.write(self._writer, f"{word}\n".encode())
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None
