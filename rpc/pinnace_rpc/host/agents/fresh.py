"""Starts an agent in a new interpreter: works everywhere and applies every variable of the environment.

Few load at the same time: more would finish none of them earlier, and all of them late. Its program (`fresh_program`)
resets the signals that the host may have been started with.
"""

import sys
from contextlib import suppress
from subprocess import PIPE
from typing import Final

import trio

from pinnace_rpc.host.agents.children import CHILDREN
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentStartError
from pinnace_rpc.host.agents.process import PipedProcess

AT_ONCE: Final = 2
"""New interpreters that load the program at the same time."""
LOAD_LIMIT_S: Final = 10.0
"""After so long another may start: an agent may have to wait for a server, or nothing was asked of it."""
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
        self._loading = trio.Semaphore(AT_ONCE)

    async def start(self, start: AgentLaunch) -> PipedProcess:
        """Start a process, when fewer than `AT_ONCE` others load: until they write, end, or `LOAD_LIMIT_S` are over.

        Raises:
            AgentStartError: It could not be started.
        """
        await self._loading.acquire()
        try:
            agent, written = await self._open(start)
        except BaseException:
            self._loading.release()
            raise
        self._nursery.start_soon(agent.run, name=f"agent process {agent.pid}")
        self._nursery.start_soon(self._release_loaded, written)
        return agent

    async def _release_loaded(self, written: trio.Event) -> None:
        with trio.move_on_after(LOAD_LIMIT_S):
            await written.wait()
        self._loading.release()

    async def _open(self, start: AgentLaunch) -> tuple[PipedProcess, trio.Event]:
        """Return the process, and what is set as soon as something, or the end, is read of its stdout."""
        try:
            process = await CHILDREN.start(
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
        stdout = _Watched(process.stdout)
        agent = PipedProcess(process.pid, (process.stdin, stdout, process.stderr), process.wait, process.kill)
        return agent, stdout.written


class _Watched(trio.abc.ReceiveStream):
    """The stdout of an agent, with notice of its first output, which comes when the program is loaded."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self.written = trio.Event()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        self.written.set()
        return data

    async def aclose(self) -> None:
        self.written.set()
        await self._stream.aclose()


def limit_memory(pid: int, limit_bytes: int | None) -> None:
    """Limit the address space of a process that has just begun; only on Linux. A lower limit of this process stays."""
    if limit_bytes is not None and sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError):  # it may have ended; only a lower limit can be set
            resource.prlimit(pid, resource.RLIMIT_AS, (limit_bytes, limit_bytes))
