"""Starts the program of a mechanism as a child of this process."""

import os
import subprocess
from typing import IO

from pinnace_agent.core.ports.confinement import Start


class LaunchedProgram:
    """A program that was started by `subprocess`: a `Launched`."""

    def __init__(self, start: Start, stdin: int, stdout: int, stderr: int) -> None:
        """Start it.

        Raises:
            OSError: It can't be started.
        """
        self._process = subprocess.Popen(
            list(start.arguments),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=start.cwd,
            env=dict(start.env),
            pass_fds=start.pass_fds,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.ends = (_end(self._process.stdin), _end(self._process.stdout), _end(self._process.stderr))

    def poll(self) -> int | None:
        """Return the exit status, if it has exited."""
        return self._process.poll()


def _end(pipe: IO[bytes] | None) -> int | None:
    if pipe is None:
        return None
    descriptor = os.dup(pipe.fileno())  # the file closes its own
    pipe.close()
    return descriptor
