"""What a host reaches beyond its agents: the system that keeps its files, its clocks, and the clients that connect.

A process that is a host has those of the process (`OF_PROCESS`, `sockets`). A program that runs a host as a task
(`task`) may give it others, so that everything around it can be decided.
"""

import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:  # for annotations alone: the host loads nothing of the agent before it needs it
    from pinnace_agent.core.ports.system import System

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def boot_of_machine() -> str:
    """Return what identifies the time since the machine was started; empty where nothing does. Blocking."""
    with suppress(OSError), open(_BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
    return ""


class HostSurroundings(NamedTuple):
    """The system and the clocks of a host."""

    system: "System" = os
    """Keeps the journals, the tables of commands and what is known of agents; its random bytes are identities."""
    wall_time_s: Callable[[], float] = time.time
    """Seconds since the epoch."""
    elapsed_s: Callable[[], float] = time.monotonic
    """Seconds since some moment, for durations."""
    boot: Callable[[], str] = boot_of_machine
    """Another one since the machine has lost what was not on the disk."""


OF_PROCESS = HostSurroundings()
"""Those of the process."""


class ClientStream(Protocol):
    """A connection of a client."""

    def check(self, agents: Collection[int]) -> None:
        """Check that the client may connect, given the processes of the agents.

        Raises:
            LocationError: It may not, or that can't be found out.
        """
        ...

    async def receive_some(self, max_bytes: int) -> bytes:
        """Return what is there, after waiting for something; empty: the end.

        Raises:
            trio.BrokenResourceError, trio.ClosedResourceError: The connection is lost, or closed here.
        """
        ...

    async def send_all(self, data: bytes) -> None:
        """Write everything; raises as `receive_some`."""
        ...

    def send_now(self, pieces: Sequence[memoryview]) -> int:
        """Write what the connection takes of some pieces without waiting, and return how many bytes.

        Raises:
            BlockingIOError: There is no room.
            OSError: The connection is lost.
        """
        ...

    async def wait_writable(self) -> None:
        """Wait until `send_now` may take more, or raises; raises as `receive_some`."""
        ...

    async def aclose(self) -> None:
        """Close it."""
        ...


class Listener(Protocol):
    """Where clients connect."""

    async def accept(self) -> ClientStream:
        """Wait for the next client."""
        ...

    def look_after(self) -> None:
        """Mend what clients need to connect; called about once a second."""
        ...
