"""The registry of child processes: every program of the agent is started, killed and reaped here.

**The processes of a command** are all its descendants until the command exits by itself: including those that moved to
another process group or session (`setsid`, job control, `timeout`) or lost their parent (double fork). The agent adopts
such orphans (PR_SET_CHILD_SUBREAPER), so all of them are its descendants while it lives. An orphan belongs to a command
by its session, by the variable `PINNACE_COMMAND` that each command gets, or, without either, by having started after
the command. Killing a command kills all its processes.

**Not killed** are processes that a command which exited by itself left in the background on purpose (`server &`,
`setsid server`): they live on, also after the agent. So do programs that extensions start without `pi.exec`.

Other systems than Linux: a command's process group is killed, but no process that has left it.
"""

import errno
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import trio

from pinnace_agent.core.surroundings import PerAgent, environment
from pinnace_agent.shell.protection import adopt_orphans

if TYPE_CHECKING:  # loaded with the first command
    from pinnace_agent.core.ports.confinement import Access, ConfinedStart, Confinement, RunningProcess
    from pinnace_agent.shell.descendants import Descendants
    from pinnace_agent.shell.watchdog import CommandWatchdog

_log = logging.getLogger("pinnace.processes")

MARK_VARIABLE: Final = "PINNACE_COMMAND"
"""The variable that identifies the command in the environment of all its processes."""

_NUMBERS: Final = count(1)

MOST_COMMANDS: Final = 64
"""The number of concurrent commands of one kind: more would only compete for memory and processors."""

# A pipe, two handles of the exit, and the file of a long output.
_COMMAND_DESCRIPTORS: Final = 4
# Descriptors of the agent itself, and those that it opens briefly for programs, modules and requests.
_OTHER_DESCRIPTORS: Final = 40

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})


class Child:
    """A command that was started: its process with all descendants."""

    __slots__ = (
        "_confined",
        "_is_judged",
        "_registry",
        "failure",
        "is_abandoned",
        "is_ended_by_owner",
        "killed",
        "mark",
        "pid",
        "process",
    )

    def __init__(
        self, registry: "ChildProcesses", process: "RunningProcess", mark: str, confined: "ConfinedStart | None" = None
    ) -> None:
        self._registry = registry
        self._confined = confined
        self.process = process
        self.pid = process.pid
        self.mark = mark
        self.is_abandoned = False
        """Whether it has not exited, and nothing waits for its exit any more."""
        self.failure: str | None = None
        """After `reap`: why the program was not run, although something was started; None: it ran."""
        self._is_judged = False
        self.is_ended_by_owner = False
        self.killed: Collection[int] = ()
        """The numbers of the processes that were killed with it."""

    async def exited(self) -> None:
        """Wait until the process has exited, without reaping it, so that its number is not reused and it can be killed.

        Without pidfd (macOS, old kernels, no descriptor left) it is reaped. The number of its group is not reused while
        a descendant lives; only a kill right after the exit of the last one could hit another group.
        """
        if not await _exit_of(self.pid):
            try:
                await self.process.wait()
            except RuntimeError as error:  # no thread is left to wait in
                raise OSError(errno.EAGAIN, f"{os.strerror(errno.EAGAIN)}: {error}") from error

    def kill(self) -> None:
        """Send SIGKILL to all processes of the command. Only before `release`.

        No SIGTERM first: an aborted command must not continue, and one that traps signals would.
        """
        self._registry.kill((self,))

    def terminate(self) -> None:
        """Send SIGTERM to the process group. Only before `release`."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)

    def release(self) -> None:
        """Stop managing the command: its remaining processes live on. Further calls have no effect."""
        self._registry.release(self)

    def failure_at(self, status: int | None) -> str | None:
        """Return why the program was not run, once its process has exited with a status; None: it ran."""
        if self._confined is not None and not self._is_judged:  # what says so can be read once
            self._is_judged, self.failure = True, self._confined.failure(status)
        return self.failure

    async def reap(self, limit_s: float) -> int | None:
        """Release it, wait for its exit and return the status, or None after `limit_s` seconds.

        If it was killed, all its processes have exited then: a killed one lives on until it has its turn. Not cancelled
        from outside. After SIGKILL only a process that hangs in the kernel reaches the limit.
        """
        self.release()
        with trio.move_on_after(limit_s, shield=True), suppress(RuntimeError):  # no thread is left to wait in
            await self.process.wait()
            for pid in self.killed:
                await _exit_of(pid)
        status = self._registry.take_status(self)
        self.is_abandoned = status is None
        if self._confined is not None:
            self.failure_at(status)
            with trio.CancelScope(shield=True):
                try:
                    await trio.to_thread.run_sync(self._confined.close)  # it looks at what the program has left
                except RuntimeError:  # no thread is left
                    self._confined.close()
        return status

    @property
    def is_confined(self) -> bool:
        """Whether it runs in a sandbox."""
        return self._confined is not None

    def is_current(self) -> bool:
        """Return whether a program that is started now would see the same in the sandbox. Blocks; for any thread."""
        return self._confined is None or self._confined.is_current()


class ChildProcesses:
    """The running commands of one agent. Use it in the event loop; `kill_all` may be called from any thread."""

    __slots__ = (
        "__weakref__",
        "_descendants",
        "_has_others",
        "_is_closed",
        "_running",
        "_secret",
        "_starting",
        "_token",
        "_unreaped",
        "_watchdog",
        "confinement",
        "owns_all",
        "warn",
    )

    def __init__(self, watchdog: "CommandWatchdog | None" = None, *, has_others: bool = False) -> None:
        """Start nothing yet.

        Args:
            watchdog: Kills the commands if this process is killed; None: the one of this process.
            has_others: Whether the process belongs to a program: then a process counts as one of a command only if it
                shows that itself, and signals are left alone.
        """
        self._watchdog = watchdog
        self._has_others = has_others
        self._running: dict[int, Child] = {}
        self._secret = _new_secret()
        # By number, including those that were released and not reaped. No other code may take their status.
        self._unreaped: dict[int, Child] = {}
        self._starting = 0
        self._is_closed = False
        self._descendants: Descendants | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self.owns_all = False
        """Whether no other code of this process starts programs, such as an extension: then every unknown child is an
        adopted orphan."""
        self.confinement: Confinement | None = None
        """The sandbox of everything that is started; None: there is none."""
        self.warn: Callable[[str], None] = lambda text: _log.warning("%s", text)
        """Takes, at each command, what guards of its processes are missing, for the user."""

    @property
    def pids(self) -> frozenset[int]:
        """The process numbers of the running commands, each the leader of a group and of a session."""
        return frozenset(self._running)

    async def start(  # noqa: PLR0913  # all but the program are keywords, most of them defaulted
        self,
        arguments: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: int = subprocess.DEVNULL,
        access: "Access" = "policy",
        is_outside: bool = False,
        confinement: "Confinement | None" = None,
        pass_fds: Sequence[int] = (),
        is_ended_by_owner: bool = False,
    ) -> Child:
        """Start a program in a session of its own.

        Args:
            arguments: The program and its arguments.
            stdout: A descriptor, or a constant of `subprocess`.
            stderr: Likewise.
            env: The whole environment; None inherits ours.
            cwd: The folder to run in; None: ours.
            stdin: As `stdout`; by default it is at its end.
            access: What it may write, if there is a sandbox.
            is_outside: Whether it is started without the sandbox: for what the user has configured or approved.
            confinement: The sandbox, if it is another than that of this process.
            pass_fds: Further descriptors that it gets, by the same numbers; only outside of a sandbox.
            is_ended_by_owner: Whether `kill_all` leaves it, since it still has work at the end of this process.

        Raises:
            OSError: It can't be started: the program or folder is missing, the sandbox can't be set up, or no
                descriptors, processes, threads or memory are left.
            ValueError: An argument contains a NUL character.
        """
        watchdog = self._prepare()
        mark = f"{next(_NUMBERS)}.{self._secret}"
        whole = {**(environment() if env is None else env), MARK_VARIABLE: mark}
        confinement = None if is_outside else confinement or self.confinement
        confined: ConfinedStart | None = None
        process: RunningProcess
        self._starting += 1
        try:
            with watchdog.expecting(mark):  # another thread starts it: this process may end before it learns of that
                if confinement is not None:
                    from pinnace_agent.shell.confined_process import confine, start_here  # loaded with a sandbox

                    confined = await confine(confinement, arguments, whole, cwd, access)
                    process = start_here(confined, stdin, stdout, stderr)
                else:
                    process = await trio.lowlevel.open_process(
                        list(arguments),
                        stdin=stdin,
                        stdout=stdout,
                        stderr=stderr,
                        cwd=cwd,
                        env=whole,
                        start_new_session=True,
                        pass_fds=pass_fds,
                    )
        except (RuntimeError, MemoryError, subprocess.SubprocessError) as error:  # no thread, no memory
            raise OSError(errno.EAGAIN, f"{os.strerror(errno.EAGAIN)}: {error}") from error
        finally:
            self._starting -= 1
        child = self._running[process.pid] = self._unreaped[process.pid] = Child(self, process, mark, confined)
        child.is_ended_by_owner = is_ended_by_owner
        watchdog.add(mark, process.pid)
        if self._is_closed:
            child.kill()
        if confined is not None:
            from pinnace_agent.shell.confined_process import release

            await release(confined, child)
        return child

    def release(self, child: Child) -> None:
        """Stop managing a command."""
        if self._running.pop(child.pid, None) is not None:
            if self._watchdog is not None:
                self._watchdog.discard(child.mark)
            self._reap_soon()

    def take_status(self, child: Child) -> int | None:
        """Return the exit status of a command's process; None: it has not exited."""
        status = child.process.returncode
        if status is not None and self._unreaped.get(child.pid) is child:
            del self._unreaped[child.pid]
        return status

    def kill_all(self) -> None:
        """Kill all processes of the running commands but those that their owner ends; each of them ends soon after."""
        self.kill([child for child in self._running.values() if not child.is_ended_by_owner])

    def close(self) -> None:
        """Kill all commands, and every later one as soon as it has started. For the end of the process."""
        self._is_closed = True
        self.kill(tuple(self._running.values()))

    def kill(self, children: Collection[Child]) -> None:
        """Kill all processes of some commands, none of which is reaped. Takes less than a millisecond."""
        if self._descendants is not None:
            killed = self._descendants.kill(children)
            for child in children:
                child.killed = killed.union(child.killed)

    # Orphans are adopted, and have to be reaped.

    def _prepare(self) -> "CommandWatchdog":
        if self._watchdog is None:
            from pinnace_agent.shell.watchdog import WATCHDOG

            self._watchdog = WATCHDOG
        try:
            self._watchdog.prepare()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise
            self.warn(f"Commands would outlive a kill -9 of the agent: the watchdog cannot be started: {error}")
        if self._descendants is None:
            from pinnace_agent.shell.descendants import Descendants

            self._descendants = Descendants(
                MARK_VARIABLE,
                self._secret,
                self._known,
                lambda: self.owns_all and not self._starting,
                has_others=self._has_others,
            )
            try:
                adopt_orphans()
            except OSError as error:
                self.warn(f"A command that leaves its process group would outlive an abort: {error}")
        token = trio.lowlevel.current_trio_token()
        if token is not self._token:
            self._token = token
            if not self._has_others:
                from pinnace_agent.shell.descendants import listen_for_exits

                listen_for_exits(self._on_exit)
        return self._watchdog

    def _known(self) -> Collection[int]:
        return self._unreaped if self.confinement is None else {*self._unreaped, *self.confinement.helpers}

    def _on_exit(self, _number: int, _frame: object) -> None:
        self._reap_soon()

    def _reap_soon(self) -> None:
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self.reap, idempotent=True)

    def reap(self) -> None:
        """Reap adopted orphans that have exited. Never takes the status of a process that other code may wait for."""
        for child in [each for each in self._unreaped.values() if each.is_abandoned]:
            self.take_status(child)
        if self._descendants is not None:
            self._descendants.reap()

    def leave_to_the_parent(self) -> None:
        """Forget all commands in a forked child: none is its own. Its marks differ from those of its siblings."""
        self._running.clear()
        self._unreaped.clear()
        self._descendants = None
        if self._has_others and self._watchdog is not None:
            self._watchdog.leave_to_the_parent()
        self._token = None
        self._secret = _new_secret()

    def end(self) -> None:
        """Kill all commands, and let the watchdog, which is no other's, end. For the end of an agent in a program."""
        self.close()
        if self._watchdog is not None:
            self._watchdog.close()


async def _exit_of(pid: int) -> bool:
    """Wait until a process has exited, without reaping it.

    Returns:
        False if that can't be seen: it is gone, or there is no pidfd (macOS, old kernels, no descriptor left).
    """
    try:
        handle = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return False
    try:
        await trio.lowlevel.wait_readable(handle)
    finally:
        os.close(handle)
    return True


def _new_secret() -> str:
    return os.urandom(8).hex()


def commands_at_once() -> int:
    """Return the number of concurrent commands of the client, and as many of tools and extensions beside them.

    Less than `MOST_COMMANDS` if this process may not open enough descriptors. Further commands wait.
    """
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST_COMMANDS
    return max(1, min(MOST_COMMANDS, (limit - _OTHER_DESCRIPTORS) // (2 * _COMMAND_DESCRIPTORS)))


def client_turns() -> trio.CapacityLimiter:
    """Return the limiter of the client's commands, which never delay those of tools."""
    return _CLIENT_TURNS.get()


def work_turns() -> trio.CapacityLimiter:
    """Return the limiter of commands of tools and extensions."""
    return _WORK_TURNS.get()


def children() -> ChildProcesses:
    """Return the registry of the agent that runs this code."""
    return _OWN.get()


def _of_program() -> ChildProcesses:
    from pinnace_agent.shell.watchdog import CommandWatchdog

    made = ChildProcesses(CommandWatchdog(), has_others=True)
    _IN_PROGRAMS.add(made)
    return made


def _leave_to_the_parent() -> None:
    for each in (CHILDREN, *_IN_PROGRAMS):
        each.leave_to_the_parent()


CHILDREN: Final = ChildProcesses()
"""The children of a process that is one agent."""

_IN_PROGRAMS: Final[WeakSet[ChildProcesses]] = WeakSet()
_OWN: Final = PerAgent(_of_program, of_process=CHILDREN)
_CLIENT_TURNS: Final = PerAgent(lambda: trio.CapacityLimiter(commands_at_once()))
_WORK_TURNS: Final = PerAgent(lambda: trio.CapacityLimiter(commands_at_once()))

os.register_at_fork(after_in_child=_leave_to_the_parent)
