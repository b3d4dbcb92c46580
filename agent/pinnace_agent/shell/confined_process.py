"""A program inside a sandbox: prepared in a thread, started in the thread of the event loop.

A sandbox ends with the thread that started it. `trio.Process` is started in a thread that ends when it is idle, so
these processes have a class of their own. Has no knowledge of mechanisms.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import trio

from pinnace_agent.core.ports.confinement import Access, ConfinedStart, Confinement, LaunchedProgram, ProgramStart

# Between two looks at a process that can't be waited for, since no descriptor is left.
_POLL_S: Final = 0.02
_REAP_S: Final = 1.0
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})
NOT_RUN: Final = "The command was not run: "
"""How the text begins of a program that was not run since the sandbox could not be set up."""


class LoopProcess:
    """A process that was started in the thread of the event loop: a `RunningProcess`.

    A sandbox ends with the thread that started it. `trio.Process` is started in a thread that ends when it is idle.
    """

    def __init__(self, process: LaunchedProgram) -> None:
        self._process = process
        self.pid = process.pid
        self.stdin, self.stdout, self.stderr = map(_stream, process.ends)

    @property
    def returncode(self) -> int | None:
        """Its exit status, if it has exited."""
        return self._process.poll()

    def poll(self) -> int | None:
        """Return the same."""
        return self._process.poll()

    async def wait(self) -> int:
        """Wait for its exit and reap it."""
        while (status := self._process.poll()) is None:
            try:
                handle = os.pidfd_open(self.pid)
            except OSError:  # no descriptor is left
                await trio.sleep(_POLL_S)
                continue
            try:
                await trio.lowlevel.wait_readable(handle)
            finally:
                os.close(handle)
        await trio.lowlevel.checkpoint()
        return status


def _stream(end: int | None) -> trio.lowlevel.FdStream | None:
    return None if end is None else trio.lowlevel.FdStream(end)


async def confine(
    confinement: Confinement, arguments: Sequence[str], env: Mapping[str, str], cwd: str | None, access: Access
) -> ConfinedStart:
    """Prepare the start of a program inside the sandbox, in a thread: it reads the disk.

    Raises:
        OSError: The sandbox can't be set up, or nothing more can be opened.
    """
    start = ProgramStart(arguments, env, os.getcwd() if cwd is None else cwd)
    try:
        # Not cancelled: what it has opened would stay open.
        return await trio.to_thread.run_sync(confinement.confine, start, access)
    except OSError as error:
        if error.errno in _EXHAUSTED:
            raise
        raise _not_set_up(error) from error


def start_here(confined: ConfinedStart, stdin: int, stdout: int, stderr: int) -> LoopProcess:
    """Start a program in this thread, which lives as long as the sandbox has to.

    Raises:
        OSError: It can't be started.
    """
    try:
        return LoopProcess(confined.launch(stdin, stdout, stderr))
    except OSError as error:
        confined.close()
        if error.errno in _EXHAUSTED:
            raise
        raise _not_set_up(error) from error  # the program of the sandbox itself is gone
    except BaseException:
        confined.close()
        raise


class _Ends(Protocol):
    def kill(self) -> None: ...

    async def reap(self, limit_s: float) -> int | None: ...


async def release(confined: ConfinedStart, child: _Ends) -> None:
    """Let a program run that was started, in a thread: it is looked at what it sees. Cancelled, it does not run.

    Raises:
        OSError: It sees something else than it is to see; it has ended.
    """
    try:
        # Not abandoned: the descriptors are in use. It ends with the process of the sandbox, or after some seconds.
        await trio.to_thread.run_sync(confined.release)
    except BaseException as error:
        child.kill()
        await child.reap(_REAP_S)
        if isinstance(error, OSError):
            raise _not_set_up(error) from error
        raise


def _not_set_up(error: OSError) -> OSError:
    return OSError(f"{NOT_RUN}the sandbox could not be set up ({error.strerror or error})")
