"""The programs that are simulated: entry points that run an agent, a host or an adapter, given all that they reach.

The default is the agent of this project; its package must be installed. Any other in Python on trio can be simulated
that has such a function.
"""

import time
from collections.abc import Callable, MutableMapping, Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from pinnace_fuzz.simulation.disk import ProcessDisk
from pinnace_fuzz.simulation.editors.adapters import AdapterMachine
from pinnace_fuzz.simulation.hosted.agents import Starter
from pinnace_fuzz.simulation.hosted.connections import Listening
from pinnace_fuzz.simulation.streams import Pipe

DEFAULT_PROGRAM: Final = "pinnace_rpc.embedded.task:serve"
DEFAULT_HOST: Final = "pinnace_rpc.host.task:serve"
DEFAULT_ADAPTER: Final = "pinnace_rpc.acp.task:serve"


class Program(Protocol):
    """Runs an agent in mode rpc until its stdin ends, and returns its exit code. Cancelling it ends it."""

    async def __call__(
        self,
        flags: Sequence[str],
        environment: MutableMapping[str, str],
        folder: str,
        stdin: Pipe,
        stdout: Pipe,
        system: ProcessDisk,
        wall_time_ns: Callable[[], int],
        pause: Callable[[float], None] = time.sleep,
    ) -> int:
        """Run it with its flags, in a folder, with what it reaches; `pause` lets time pass in its thread."""
        ...


class HostProgram(Protocol):
    """Runs a durable host until a client ends it. Cancelling it ends it at once."""

    async def __call__(  # noqa: PLR0913 - all that it reaches
        self,
        agent_folder: str,
        listener: Listening,
        starter: Starter,
        system: ProcessDisk,
        wall_time_s: Callable[[], float],
        elapsed_s: Callable[[], float],
        *,
        idle_s: float,
        journal_bytes: int,
        on_crash: str,
        boot: Callable[[], str],
    ) -> None:
        """Run it for the agents of a folder, with what it reaches, and its options."""
        ...


class AdapterProgram(Protocol):
    """Runs an adapter for an editor until its stdin ends, and returns its exit code. Cancelling it ends it at once."""

    async def __call__(  # noqa: PLR0913 - all that it reaches
        self,
        flags: Sequence[str],
        environment: MutableMapping[str, str],
        folder: str,
        stdin: Pipe,
        stdout: Pipe,
        machine: AdapterMachine,
        system: ProcessDisk,
        wall_time_ns: Callable[[], int],
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> int:
        """Run it with its flags, which its agents get too, in a folder, with what it reaches."""
        ...


class UnknownProgram(Exception):
    """An entry point names no function that can be imported."""


def load_program(entry: str) -> Program:
    """Import the entry point of an agent: `module:function`.

    Raises:
        UnknownProgram: It names nothing.
    """
    return cast("Program", _load(entry, "agent"))  # what it takes shows when it is called


def load_host(entry: str) -> HostProgram:
    """Import the entry point of a host.

    Raises:
        UnknownProgram: It names nothing.
    """
    return cast("HostProgram", _load(entry, "host"))  # likewise


def load_adapter(entry: str) -> AdapterProgram:
    """Import the entry point of an adapter.

    Raises:
        UnknownProgram: It names nothing.
    """
    return cast("AdapterProgram", _load(entry, "adapter"))  # likewise


def _load(entry: str, what: str) -> object:
    module, _, name = entry.partition(":")
    try:
        found: object = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownProgram(f"{entry}: no {what} can be loaded: {error}; expected module:function") from error
    if not callable(found):
        raise UnknownProgram(f"{entry}: expected module:function, got a {type(found).__name__}")
    return found
