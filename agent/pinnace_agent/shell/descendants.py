"""Finds the processes of commands, kills them, and reaps orphans that this process has adopted.

A process belongs to a command by its parent, its session, the mark in its environment, or its start time; see
`child_processes`. Linux only: elsewhere nothing is found, and only the process groups are killed.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, Protocol

import trio

from pinnace_agent.shell.process_table import Status, children_of, status_of, variable_of

# A search without a result is repeated: while processes exit, the list of children may miss some.
_QUIET_LOOKS: Final = 2
_MOST_LOOKS: Final = 100


class StartedCommand(Protocol):
    """A command that was started."""

    @property
    def pid(self) -> int:
        """The leader of its process group and session."""
        ...

    @property
    def mark(self) -> str:
        """The value of its variable, which ends with the agent's secret."""
        ...


class _Spare:
    """A descriptor that is reserved for the search for processes when no other is left."""

    __slots__ = ("_descriptor",)

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def keep(self) -> None:
        if self._descriptor is None:
            with suppress(OSError):
                self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_SPARE: Final = _Spare()


class Descendants:
    """The descendants of this process. May be used in any thread."""

    __slots__ = ("_has_others", "_is_all_ours", "_secret", "_started", "_variable")

    def __init__(
        self,
        variable: str,
        secret: str,
        started: Callable[[], Collection[int]],
        is_all_ours: Callable[[], bool],
        *,
        has_others: bool = False,
    ) -> None:
        """Reserve a descriptor.

        Args:
            variable: The name of the variable that holds a command's mark.
            secret: The end of the marks of this process' commands.
            started: Returns the children that were started and not reaped, and are no orphans.
            is_all_ours: Returns whether every other child is an orphan of a command.
            has_others: Whether orphans may be those of other code: then one belongs to a command only by its session
                or its mark.
        """
        self._has_others = has_others
        self._variable = variable
        self._secret = secret.encode()
        self._started = started
        self._is_all_ours = is_all_ours
        _SPARE.keep()

    def kill(self, children: Collection[StartedCommand]) -> set[int]:
        """Kill all processes of some commands, none of which is reaped; return the numbers of those that exit by it."""
        ending: set[int] = set()
        if not children:
            return ending
        sessions = {child.pid for child in children}
        killed: set[int] = set()
        quiet = 0
        for look in range(_MOST_LOOKS):
            # Before anything is killed: orphans are harder to recognise.
            found = self._family(children, sessions) - killed
            if look == 0:
                for child in children:
                    _kill_group(child.pid)
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    sessions.add(os.getsid(pid))
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                    ending.add(pid)
            sessions.discard(os.getsid(0))
            killed |= found
            # The next search finds children that were forked before the kill.
            quiet = 0 if found else quiet + 1
            if quiet == _QUIET_LOOKS:
                break
        return ending

    def _family(self, children: Collection[StartedCommand], sessions: Collection[int]) -> set[int]:
        """Find the processes that belong to commands."""
        try:
            return self._search(children, sessions)
        except OSError:  # no descriptor is left: use the reserved one
            _SPARE.release()
            try:
                return self._search(children, sessions)
            except OSError:
                return set()
            finally:
                _SPARE.keep()

    def _search(self, children: Collection[StartedCommand], sessions: Collection[int]) -> set[int]:
        marks = {child.mark.encode() for child in children}
        since = -1
        todo = [child.pid for child in children]
        present = children_of(os.getpid())
        started = self._started()
        for pid in present:
            if pid in started:
                continue
            status = status_of(pid)
            if status is None or status.is_zombie:
                continue
            if since < 0:
                since = min((known.start for child in children if (known := status_of(child.pid))), default=sys.maxsize)
            if self._belongs(pid, status, marks, sessions, since):
                todo.append(pid)
        found: set[int] = set()
        while todo:
            pid = todo.pop()
            if pid not in found:
                found.add(pid)
                todo += children_of(pid)
        return found

    def _belongs(
        self, pid: int, status: Status, marks: Collection[bytes], sessions: Collection[int], since: int
    ) -> bool:
        """Return whether a child that was not started here is an orphan of one of some commands."""
        if status.session in sessions:
            return True
        mark = variable_of(pid, self._variable)
        if mark is not None and mark.endswith(self._secret):
            return mark in marks
        return not self._has_others and status.start >= since and not self._may_be_foreign(pid, status)

    def _may_be_foreign(self, pid: int, status: Status) -> bool:
        """Return whether a child may have been started by other code of this process, which waits for its status.

        Descendants of a command are never in this process' session, and a child that is being started is in that
        session or leads its own. An orphan in another session can only be a command's.
        """
        if self._is_all_ours():
            return False
        return status.session in (pid, os.getsid(0))

    def reap(self) -> None:
        """Reap adopted orphans that have exited. Never takes the status of a process that other code may wait for."""
        with suppress(OSError):
            present = children_of(os.getpid())
            started = self._started()
            for pid in present:
                if pid in started:
                    continue
                status = status_of(pid)
                if status is not None and status.is_zombie and not self._may_be_foreign(pid, status):
                    with suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError:
        # No process of the group may be signalled, e.g. all run as another user. The leader is our own child.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def listen_for_exits(on_exit: Callable[[int, object], None]) -> None:
    """Call a method at the exit of each child for as long as this run of trio lasts.

    Only in the main thread, and not if other code listens: without it, orphans are reaped when a command is released.

    Args:
        on_exit: A handler of SIGCHLD.
    """
    if threading.current_thread() is threading.main_thread() and _is_free(on_exit):
        signal.signal(signal.SIGCHLD, on_exit)
        trio.lowlevel.spawn_system_task(_leave_the_wakeup_descriptor_at_the_end)


def _is_free(on_exit: Callable[[int, object], None]) -> bool:
    """Return whether there is no handler of SIGCHLD, or the same method as in an earlier run of trio."""
    handler = signal.getsignal(signal.SIGCHLD)
    return handler in (signal.SIG_DFL, None) or getattr(handler, "__func__", None) is getattr(
        on_exit, "__func__", on_exit
    )


async def _leave_the_wakeup_descriptor_at_the_end() -> None:
    """Let Python write to no descriptor on a signal when the run of trio ends, which closes that descriptor.

    The handler stays, and does nothing then: to take it away races with a signal that has just arrived, which Python
    reports on stderr.
    """
    try:
        await trio.sleep_forever()
    finally:
        signal.set_wakeup_fd(-1)
