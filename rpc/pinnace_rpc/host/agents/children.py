"""The child processes of a host: those that it starts, and orphans of its agents, which it adopts and reaps.

A host adopts so that no command of an agent leaves it, even one that kills its agent; see `peers`. Adopted are also
agents whose zygote has ended, and what commands have left behind. Reaped is only what nothing here waits for.
"""

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import trio

_log = logging.getLogger("pinnace.host")


class HostChildren:
    """The children of this process. To be used in one thread."""

    def __init__(self) -> None:
        """Know none yet."""
        self._starting = 0
        self._started: list[trio.Process] = []

    async def start(self, command: Sequence[str], **options: Any) -> trio.Process:  # Any: of each option its own type
        """Start a process for a caller that waits for its end; see `trio.lowlevel.open_process`."""
        self._starting += 1
        try:
            process = await trio.lowlevel.open_process(command, **options)
        finally:
            self._starting -= 1
        self._started.append(process)
        return process

    def adopt(self) -> None:
        """Become the parent of orphans from now on; only on Linux. `reap` has to be called now and then."""
        from pinnace_agent.shell.protection import adopt_orphans  # the host loads nothing of the agent before

        try:
            adopt_orphans()
        except OSError as error:
            _log.warning("A command that kills its agent could attach to another one: %s", error)

    def reap(self) -> None:
        """Reap orphans that have exited."""
        if sys.platform != "linux" or self._starting:  # the number of a new one is not known yet
            return
        from pinnace_agent.shell.process_table import children_of, status_of

        self._started = [process for process in self._started if process.returncode is None]
        started = {process.pid for process in self._started}
        with suppress(OSError):  # no descriptor is left
            for pid in children_of(os.getpid()):
                if pid not in started and (status := status_of(pid)) is not None and status.is_zombie:
                    with suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)


CHILDREN: Final = HostChildren()
"""Those of this process."""
