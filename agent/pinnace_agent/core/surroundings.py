"""What belongs to one agent and is used everywhere: its environment, folder and system, and values of its own.

A process that is one agent has those of the process. A process with several agents gives each its own, by a variable
of the context that all tasks and worker threads of an agent inherit. Has no access to what the values are.
"""

import os
import time
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.system import System

CLIENT_SERVERS: Final = "PINNACE_MCP_SERVERS"
"""The variable by which a client gives its agent MCP servers, as a JSON object of entries; it is taken out of the
environment."""
CLIENT_ROUTES: Final = "PINNACE_PROVIDER_ROUTES"
"""The variable by which a client says where its agent sends the requests to providers."""
Value = TypeVar("Value")


class Surroundings:
    """The surroundings of one agent."""

    def __init__(
        self,
        environment: MutableMapping[str, str],
        folder: str | None = None,
        system: "System" = os,
        wall_time_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Take what is the agent's.

        Args:
            environment: The agent may change it.
            folder: The absolute path of a folder; None: the process'.
            system: Keeps its session files.
            wall_time_ns: Returns nanoseconds since the epoch.
        """
        self.environment = environment
        self.folder = folder
        self.system = system
        self.wall_time_ns = wall_time_ns
        self.values: dict[object, object] = {}
        """Those of `PerAgent`."""


_OF_PROCESS: Final = Surroundings(os.environ)
_CURRENT: Final[ContextVar[Surroundings]] = ContextVar("pinnace-surroundings", default=_OF_PROCESS)


def environment() -> MutableMapping[str, str]:
    """Return the environment of the agent that runs this code."""
    return _CURRENT.get().environment


def working_folder() -> str:
    """Return the absolute path of the folder in which the agent was started.

    Raises:
        FileNotFoundError: It does not exist any more.
    """
    return _CURRENT.get().folder or os.getcwd()


def system() -> "System":
    """Return what keeps the session files of the agent that runs this code."""
    return _CURRENT.get().system


def random_uuid() -> str:
    """Return a UUID of version 4, of the random bytes of that system."""
    import uuid  # not at start

    return str(uuid.UUID(bytes=system().urandom(16), version=4))


def wall_time_ns() -> int:
    """Return the wall clock of the agent that runs this code, in nanoseconds since the epoch."""
    return _CURRENT.get().wall_time_ns()


def is_embedded() -> bool:
    """Return whether the process belongs to a program, and may hold other agents and other code."""
    return _CURRENT.get() is not _OF_PROCESS


@contextmanager
def surrounded_by(surroundings: Surroundings) -> Generator[None]:
    """Run the body, with every task and worker thread that it starts, in these surroundings."""
    token = _CURRENT.set(surroundings)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class PerAgent(Generic[Value]):
    """A value of which each agent of a process has its own; made at its first use, in the agent's context."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Value], of_process: Value | None = None) -> None:
        """Prepare.

        Args:
            make: Makes the value of an agent.
            of_process: The value of a process that is one agent; None: it is made like those of others.
        """
        self._make = make
        if of_process is not None:
            _OF_PROCESS.values[self] = of_process

    def get(self) -> Value:
        """Return the value of the agent that runs this code."""
        values = _CURRENT.get().values
        if self not in values:
            values[self] = self._make()
        return cast("Value", values[self])  # put there here, or by the constructor
