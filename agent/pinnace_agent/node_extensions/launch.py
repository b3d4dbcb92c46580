"""How the Node process is started: its program, its limits, its descriptors."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.shell.child_processes import Child, children

RUNNER: Final = Path(__file__).with_name("runner") / "main.cjs"


class Limits(NamedTuple):
    """How long the process may not read what it is sent."""

    hang_s: float = 60.0
    """In a call: a handler may run a program and block meanwhile."""
    cancelled_s: float = 5.0
    """After a call was cancelled: the next one must not wait for it."""


class Launch(NamedTuple):
    """How to start the process."""

    node: str
    cwd: str
    env: Mapping[str, str]
    cache: str
    """A folder for what was compiled; empty: nothing is kept."""
    pi: str
    """The folder of the user's installation of pi; empty: there is none."""
    pi_version: str
    limits: Limits = Limits()
    draws: bool = False
    """Whether the client draws surfaces, so that the components of pi are worth loading."""


async def start(launch: Launch, descriptors: Sequence[int]) -> Child:
    """Start a process outside of the sandbox: an extension is a program of the user, as those in Python are.

    Args:
        launch: What to start.
        descriptors: From which it reads calls, to which it writes messages, from which it reads immediate answers.

    Raises:
        OSError: It can't be started.
        ValueError: A path contains a NUL character.
    """
    return await children().start(
        [
            # No option of its engine, such as a limit of the heap: it would compile its own modules at each start.
            launch.node,
            "--disable-warning=ExperimentalWarning",
            str(RUNNER),
            *map(str, descriptors),
            launch.cache,
            launch.pi,
            launch.pi_version,
            "draws" if launch.draws else "",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=launch.cwd,
        env=launch.env,
        is_outside=True,
        pass_fds=descriptors,
        is_ended_by_owner=True,  # it handles `session_shutdown`
    )
