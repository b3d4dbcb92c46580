"""The registry of child processes: every program that the agent starts is started, ended and reaped here.

**What belongs to a command.** Everything that it has started, directly or not, until it ends by itself: also what has
moved to another process group or session (`setsid`, job control, `timeout`), and what has lost its parent (double
fork). The agent adopts such orphans (PR_SET_CHILD_SUBREAPER), so all of them hang from the agent while it lives. An
orphan is its command's by its session, by the variable `PINNACE_COMMAND` that each command gets, or, where it has
neither, by having started after the command. Killing a command kills all of that.

**What does not.** A command that ended by itself may have left something in the background on purpose (`server &`,
`setsid server`): that lives on, also after the agent. So do programs that extensions start without `pi.exec`.

Not Linux: a command's process group is ended, and nothing that has left it.
"""

import errno
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.processes.protection import adopt_orphans

if TYPE_CHECKING:  # loaded with the first command
    from pinnace_agent.processes.descendants import Descendants
    from pinnace_agent.processes.watchdog import CommandWatchdog

_log = logging.getLogger("pinnace.processes")

MARK_VARIABLE: Final = "PINNACE_COMMAND"
"""In the environment of every program that is started here, and so of what it starts: which command that belongs to."""

_SECRET: Final = os.urandom(8).hex()
_NUMBERS: Final = count(1)

MOST_COMMANDS: Final = 64
"""How many commands of one kind run at once at most: more only take memory and each other's time."""

# A pipe, two handles of the exit, and the file of a long output.
_COMMAND_DESCRIPTORS: Final = 4
# What the agent has open for itself, and what starting programs, loading modules and requests take for a moment.
_OTHER_DESCRIPTORS: Final = 40

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})


class Child:
    """A command that was started: its process, and whatever that has started."""

    __slots__ = ("_registry", "is_abandoned", "mark", "pid", "process")

    def __init__(self, registry: "ChildProcesses", process: trio.Process, mark: str) -> None:
        self._registry = registry
        self.process = process
        self.pid = process.pid
        self.mark = mark
        self.is_abandoned = False
        """Nobody waits for its exit any more, which has not come."""

    async def exited(self) -> None:
        """Wait until the process has exited and leave it unreaped: until then its number is its own and can be killed.

        Without pidfd (macOS, old kernels, no descriptor left) it is reaped. The number of its group stays taken while a
        descendant lives; only a kill in the moment after the last one has gone could miss.
        """
        try:
            handle = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            try:
                await self.process.wait()
            except RuntimeError as error:  # no thread is left to wait in
                raise OSError(errno.EAGAIN, f"{os.strerror(errno.EAGAIN)}: {error}") from error
            return
        try:
            await trio.lowlevel.wait_readable(handle)
        finally:
            os.close(handle)

    def kill(self) -> None:
        """Send SIGKILL to everything that belongs to the command. Only before `release`.

        No SIGTERM first: a command that is aborted must not be able to go on, and one that traps signals would.
        """
        self._registry.kill((self,))

    def terminate(self) -> None:
        """Ask the process group to end, by SIGTERM. Only before `release`."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)

    def release(self) -> None:
        """Let what is left of the command live on, from now on its user's. Further calls change nothing."""
        self._registry.release(self)

    async def reap(self, limit_s: float) -> int | None:
        """Release it, wait for its exit and return the status, None if it has not come within `limit_s` seconds.

        Not cancelled from outside. After SIGKILL only a process that hangs in the kernel takes so long.
        """
        self.release()
        with trio.move_on_after(limit_s, shield=True), suppress(RuntimeError):  # no thread is left to wait in
            await self.process.wait()
        status = self._registry.take_status(self)
        self.is_abandoned = status is None
        return status


class ChildProcesses:
    """The commands of this process that run. Use it in the event loop; `kill_all` may be called from any thread."""

    __slots__ = (
        "_descendants",
        "_is_closed",
        "_running",
        "_starting",
        "_token",
        "_unreaped",
        "_watchdog",
        "owns_all",
    )

    def __init__(self, watchdog: "CommandWatchdog | None" = None) -> None:
        """Start nothing yet; `watchdog` kills what runs if this process is killed, None: that of this process."""
        self._watchdog = watchdog
        self._running: dict[int, Child] = {}
        # By number; those that were released and not reaped, too. Nobody else may take their status.
        self._unreaped: dict[int, Child] = {}
        self._starting = 0
        self._is_closed = False
        self._descendants: Descendants | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self.owns_all = False
        """Nothing else in this process starts programs, such as an extension: every child that is not known here is an
        orphan that was adopted."""

    @property
    def pids(self) -> frozenset[int]:
        """Return the numbers of the commands that run, each the leader of a group and of a session."""
        return frozenset(self._running)

    async def start(
        self,
        arguments: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> Child:
        """Start a program in a session of its own, with nothing on stdin.

        Args:
            arguments: The program and its arguments.
            stdout: A descriptor, or a constant of `subprocess`.
            stderr: Likewise.
            env: The whole environment; None inherits ours.
            cwd: The folder to run in; None: ours.

        Raises:
            OSError: The system can't start it: no such program or folder, or no descriptors, processes, threads or
                memory are left.
            ValueError: An argument is none that a program can get.
        """
        watchdog = self._prepare()
        mark = f"{next(_NUMBERS)}.{_SECRET}"
        self._starting += 1
        try:
            process = await trio.lowlevel.open_process(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env={**(os.environ if env is None else env), MARK_VARIABLE: mark},
                start_new_session=True,
            )
        except (RuntimeError, MemoryError, subprocess.SubprocessError) as error:  # no thread, no memory
            raise OSError(errno.EAGAIN, f"{os.strerror(errno.EAGAIN)}: {error}") from error
        finally:
            self._starting -= 1
        child = self._running[process.pid] = self._unreaped[process.pid] = Child(self, process, mark)
        with suppress(OSError):  # has been reported
            watchdog.add(process.pid, mark)
        if self._is_closed:
            child.kill()
        return child

    def release(self, child: Child) -> None:
        """Let what is left of a command live on."""
        if self._running.pop(child.pid, None) is not None:
            if self._watchdog is not None:
                self._watchdog.discard(child.pid)
            self._reap_soon()

    def take_status(self, child: Child) -> int | None:
        """Return how a command's process has ended; None: it has not."""
        status = child.process.returncode
        if status is not None and self._unreaped.get(child.pid) is child:
            del self._unreaped[child.pid]
        return status

    def kill_all(self) -> None:
        """Kill all that belongs to commands that run; each of them ends soon after."""
        self.kill(tuple(self._running.values()))

    def close(self) -> None:
        """Kill all, and from now on every command as soon as it has started: the last act of a process."""
        self._is_closed = True
        self.kill_all()

    def kill(self, children: Collection[Child]) -> None:
        """Kill all that belongs to some commands, none of which is reaped. Takes less than a millisecond."""
        if self._descendants is not None:
            self._descendants.kill(children)

    # What loses its parent is adopted, and has to be reaped.

    def _prepare(self) -> "CommandWatchdog":
        if self._watchdog is None:
            from pinnace_agent.processes.watchdog import WATCHDOG

            self._watchdog = WATCHDOG
        try:
            self._watchdog.prepare()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise
            _log.warning("Commands would outlive a kill -9 of the agent: the watchdog cannot be started: %s", error)
        if self._descendants is None:
            from pinnace_agent.processes.descendants import Descendants

            self._descendants = Descendants(
                MARK_VARIABLE, _SECRET, self._unreaped, lambda: self.owns_all and not self._starting
            )
            try:
                adopt_orphans()
            except OSError as error:
                _log.warning("A command that leaves its process group would outlive an abort: %s", error)
            if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGCHLD) in _UNHANDLED:
                signal.signal(signal.SIGCHLD, lambda _number, _frame: self._reap_soon())
        self._token = trio.lowlevel.current_trio_token()
        return self._watchdog

    def _reap_soon(self) -> None:
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self.reap, idempotent=True)

    def reap(self) -> None:
        """Reap what was adopted and has ended. Never takes the status of a process that other code may wait for."""
        for child in [each for each in self._unreaped.values() if each.is_abandoned]:
            self.take_status(child)
        if self._descendants is not None:
            self._descendants.reap()

    def leave_to_the_parent(self) -> None:
        """Let go, in a child that was forked: none of these commands is its own."""
        self._running.clear()
        self._unreaped.clear()
        self._descendants = None
        self._token = None


@cache
def commands_at_once() -> int:
    """Return how many commands of the client may run at once, and as many of tools and extensions beside them.

    Less than `MOST_COMMANDS` where this process may not open enough descriptors. Further commands wait for their turn.
    """
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST_COMMANDS
    return max(1, min(MOST_COMMANDS, (limit - _OTHER_DESCRIPTORS) // (2 * _COMMAND_DESCRIPTORS)))


@cache
def client_turns() -> trio.CapacityLimiter:
    """Return what the client's commands wait for: they never hold up those of tools."""
    return trio.CapacityLimiter(commands_at_once())


@cache
def work_turns() -> trio.CapacityLimiter:
    """Return what commands of tools and extensions wait for."""
    return trio.CapacityLimiter(commands_at_once())


_UNHANDLED: Final = (signal.SIG_DFL, None)

CHILDREN: Final = ChildProcesses()
"""The children of this process."""

os.register_at_fork(after_in_child=CHILDREN.leave_to_the_parent)
