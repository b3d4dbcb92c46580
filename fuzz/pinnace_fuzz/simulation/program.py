"""The agent that is simulated: an entry point that runs one in a task, given everything that it reaches.

The default is the agent of this project; its package must be installed. Any other in Python on trio can be simulated
that has such a function.
"""

from collections.abc import Callable, MutableMapping, Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from pinnace_fuzz.simulation.disk import Disk
from pinnace_fuzz.simulation.streams import Pipe

DEFAULT_PROGRAM: Final = "pinnace_rpc.embedded.task:serve"


class Program(Protocol):
    """Runs an agent in mode rpc until its stdin ends, and returns its exit code. Cancelling it ends it."""

    async def __call__(
        self,
        flags: Sequence[str],
        environment: MutableMapping[str, str],
        folder: str,
        stdin: Pipe,
        stdout: Pipe,
        system: Disk,
        wall_time_ns: Callable[[], int],
    ) -> int:
        """Run it with its flags, in a folder, with what it reaches."""
        ...


class UnknownProgram(Exception):
    """An entry point names no function that can be imported."""


def load_program(entry: str) -> Program:
    """Import an entry point: `module:function`.

    Raises:
        UnknownProgram: It names nothing.
    """
    module, _, name = entry.partition(":")
    try:
        found: object = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownProgram(f"{entry}: no agent can be loaded: {error}; expected module:function") from error
    if not callable(found):
        raise UnknownProgram(f"{entry}: expected module:function, got a {type(found).__name__}")
    return cast("Program", found)  # what it takes shows when it is called
