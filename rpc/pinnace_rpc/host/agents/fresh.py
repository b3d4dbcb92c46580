"""Starts an agent in a new interpreter: works everywhere and applies every variable of the environment.

Its program (`fresh_program`) resets the signals that the host may have been started with.
"""

import sys
from contextlib import suppress
from subprocess import PIPE
from typing import Final

import trio

from pinnace_rpc.host.agents.ports import AgentStart, AgentStartError
from pinnace_rpc.host.agents.process import PipedProcess

COMMAND: Final = (sys.executable, "-P", "-m", "pinnace_rpc.host.agents.fresh_program", "--mode", "rpc")


class FreshStarter:
    """An `AgentStarter` whose processes are children of this one."""

    def __init__(self, nursery: trio.Nursery, *, memory_bytes: int | None = None) -> None:
        """Start nothing yet.

        Args:
            nursery: Gets a task for each process. Cancelled, it ends no process: the end of stdin does.
            memory_bytes: The address space of a process (RLIMIT_AS). Ignored where a limit can't be set from outside.
        """
        self._nursery = nursery
        self._memory_bytes = memory_bytes

    async def start(self, start: AgentStart) -> PipedProcess:
        """Start a process.

        Raises:
            AgentStartError: It could not be started.
        """
        try:
            process = await trio.lowlevel.open_process(
                [*COMMAND, *start.arguments],
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=start.cwd,
                env=dict(start.environment),
                umask=start.umask,
                start_new_session=True,
            )
        except (OSError, ValueError, RuntimeError, MemoryError) as error:  # ValueError: a NUL character
            raise AgentStartError(f"the agent could not be started in {start.cwd}: {error}") from error
        assert isinstance(process.stdin, trio.lowlevel.FdStream)
        assert process.stdout is not None
        assert isinstance(process.stderr, trio.lowlevel.FdStream)
        limit_memory(process.pid, self._memory_bytes)
        agent = PipedProcess(process.pid, (process.stdin, process.stdout, process.stderr), process.wait, process.kill)
        self._nursery.start_soon(agent.run, name=f"agent process {process.pid}")
        return agent


def limit_memory(pid: int, limit_bytes: int | None) -> None:
    """Limit the address space of a process that has just begun; only on Linux. A lower limit of this process stays."""
    if limit_bytes is not None and sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError):  # it may have ended; only a lower limit can be set
            resource.prlimit(pid, resource.RLIMIT_AS, (limit_bytes, limit_bytes))
