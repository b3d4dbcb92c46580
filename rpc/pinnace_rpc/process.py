"""One agent process, whoever talks to it: who starts, who ends, and with which exit code.

The nursery tree (docs/architecture.md): an outer nursery with the writer and the signals, an inner one with the tasks
of the mode and the jobs. The writer is the only task that writes. Signals, and whatever ends the conversation, are
triggers of the chart like any other: the process leaves when the chart says that all is answered and closed, or when
its time is over. Must not know what is said, nor in which mode.

Only here and in `jobs` are groups of exceptions and defects handled.
"""

import gc
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.host import Host
from pinnace_agent.jobs import ABORT_GRACE_S, Jobs
from pinnace_agent.processes.registry import CHILDREN
from pinnace_rpc import stdio
from pinnace_rpc.dispatch import Dispatcher
from pinnace_rpc.options import StartupError, UsageRefused
from pinnace_rpc.outbox import Outbox, Projection
from pinnace_rpc.startup import Prepared, add_extensions, build_host
from pinnace_statechart.triggers import Happening

if TYPE_CHECKING:  # loaded behind the first answer, or with extensions
    from pinnace_rpc.last_resort import LastResort

_log = logging.getLogger("pinnace.process")

# The longest that a shutdown may take, whatever a job does; clients kill after one second, so this is for the worst
# case. A thread outside the event loop ends the process then.
SHUTDOWN_S: Final = 5.0
# Within it: jobs that have not ended by then are taken for ended, so that all is answered and every bracket closed ...
ABANDON_S: Final = ABORT_GRACE_S + 0.3
# ... extensions have had their last word ...
LAST_WORD_S: Final = 4.2
# ... and tasks that don't end are no longer waited for.
UNWIND_S: Final = 4.5
# The thread is given what its last steps need.
LAST_RESORT_S: Final = 4.8
# What handlers of session_shutdown have in any case.
LEAST_LAST_WORD_S: Final = 0.3
# A reader that takes nothing in so many looks after everything is closed will not read the rest. Several short ones: on
# a busy machine this process, or its reader, may not have had the processor during any single one.
FLUSH_LOOKS = 3
FLUSH_LOOK_S = 0.1
# A reader or writer that is gone; nobody can be told, so the exit code has to.
EXIT_STDOUT_GONE = 1

Task = Callable[[], Awaitable[None]]


class AgentProcess:
    """The process' life: from the first task to the last record."""

    def __init__(self, prepared: Prepared, projection: Projection) -> None:
        """Start nothing yet."""
        self.signal_number: int | None = None
        self.stdout_gone = False
        self.is_stopping = False
        """Something has begun to end it."""
        self.prepared = prepared
        self.outbox = Outbox(projection)
        self._done = trio.Event()
        self.dispatcher = Dispatcher(self.outbox, self._done.set)
        self._ending = trio.Event()
        self._last_word = trio.CancelScope()
        self._unwinding = trio.CancelScope()
        self._otherwise: Callable[[], int] = _success
        self._last_resort: LastResort | None = None
        self._saving = threading.Lock()
        self._is_saved = False
        self._stdin: int | None = None

    def run(self, stdout_fd: int, *tasks: Task, otherwise: Callable[[], int] | None = None) -> None:
        """Live, with these tasks beside the jobs, until everything is written or the reader is gone.

        One of the tasks has to `stop` the process in the end, unless a signal does. Does not return after SIGINT, nor
        where something of an extension can't be ended: the process has ended then.

        Args:
            stdout_fd: Where records go.
            *tasks: Those of the mode.
            otherwise: Returns the mode's own exit code, for an end from inside.
        """
        self._otherwise = otherwise or _success
        # What is loaded by now stays: it is not searched for garbage again.
        gc.freeze()
        gc.enable()
        has_log = self.outbox.on_record is not None
        if has_log:
            from pinnace_rpc.journal import log_session

            session = self.prepared.session
            log_session(session.path, session.id, session.model)
        trio.run(self._live, stdout_fd, tasks)
        if has_log:
            from pinnace_rpc.journal import log_end

            log_end(self.exit_code(self._otherwise()))
        if self.signal_number == signal.SIGINT:
            stdio.die_by(signal.SIGINT)

    def exit_code(self, otherwise: int = 0) -> int:
        """Return the exit code: what a signal or a reader that is gone demands, or else the mode's own."""
        if self.signal_number is not None:
            return stdio.exit_status(self.signal_number)
        if self.startup_failure is not None:
            return self.startup_failure.exit_code
        return EXIT_STDOUT_GONE if self.stdout_gone else otherwise

    @property
    def startup_failure(self) -> StartupError | None:
        """Why the process can't start with its extensions; None: it can."""
        host = self.dispatcher.host
        failure = None if host is None or host.seat is None else host.seat.failure
        if failure is None:
            return None
        return UsageRefused(str(failure)) if failure.is_usage else StartupError(str(failure))

    def stop(self, *, drain: bool = False) -> None:
        """Begin to end, or turn a drain into an abort."""
        host = self.dispatcher.host
        assert host is not None
        if not drain:
            self.is_stopping = True
            CHILDREN.kill_all()
            self.dispatcher.exports.hurry()
            self._end_in_time()
        host.submit(Happening("stop_drain" if drain else "stop_abort"))

    def watch_stdin(self, descriptor: int) -> None:
        """End the process, too, if stdin ends while the event loop is held up, so that it can't notice."""
        self._stdin = descriptor
        if self._last_resort is not None:
            self._last_resort.watch_stdin(descriptor)

    def _end_in_time(self) -> None:
        """From now on the process has `SHUTDOWN_S`. Further calls change nothing."""
        if self._ending.is_set():
            return
        self._ending.set()
        now = trio.current_time()
        self._last_word.deadline = now + LAST_WORD_S
        self._unwinding.deadline = now + UNWIND_S
        if (guard := self._guard()) is not None:
            guard.begin()

    def _guard(self) -> "LastResort | None":
        """Have the thread that ends the process where the event loop can't; None: the system has no room for it now."""
        if self._last_resort is None:
            try:
                from pinnace_rpc.last_resort import LastResort

                guard = LastResort(LAST_RESORT_S, self._save_at_once, self._leave)
                guard.start(self.signal_number)
            except (OSError, ImportError, RuntimeError) as error:
                _log.warning("nothing ends the process if its event loop is held up: %s", error)
                return None
            self._last_resort = guard
            if self._stdin is not None:
                self._last_resort.watch_stdin(self._stdin)
        return self._last_resort

    async def _guard_later(self) -> None:
        """A start need not wait for it: without extensions nothing foreign runs in the loop."""
        await self.outbox.begun.wait()
        self._guard()

    async def _live(self, stdout_fd: int, tasks: tuple[Task, ...]) -> None:
        pumped, ended = trio.Event(), trio.Event()
        try:
            async with trio.open_nursery() as outer:
                outer.start_soon(self._pump, stdio.Stdout(stdout_fd), pumped, name="pump")
                outer.start_soon(self._work, outer, tasks, ended, name="work")
                with self._unwinding:
                    await ended.wait()
                host = self.dispatcher.host
                assert host is not None
                with trio.move_on_after(SHUTDOWN_S):
                    await host.sessions.close_all()
                self.outbox.close()
                await self._flush(pumped)
                if not ended.is_set():
                    # A task that can't be cancelled: all is written and saved, and nothing can be waited for.
                    if (guard := self._guard()) is not None:
                        guard.report()
                    self._leave(None)
                outer.cancel_scope.cancel()
        finally:
            if self._last_resort is not None:
                self._last_resort.stop_forwarding()

    async def _work(self, outer: trio.Nursery, tasks: tuple[Task, ...], ended: trio.Event) -> None:
        """Work until everything is answered and closed, and all tasks have ended."""
        async with trio.open_nursery() as inner:
            jobs = Jobs(inner)
            host = build_host(self.prepared, self.outbox, self.dispatcher, jobs)
            outer.start_soon(self._watch_signals, name="signals")
            self._begin(host)
            for task in tasks:
                inner.start_soon(task)
            inner.start_soon(self._guard_later, name="guard")
            inner.start_soon(self._abandon, jobs, name="abandon")
            with self._last_word:
                await self._done.wait()
                self._end_in_time()
                if host.seat is not None:
                    left_s = self._last_word.deadline - trio.current_time()
                    await host.seat.close(max(LEAST_LAST_WORD_S, left_s))
            # Everything is answered and closed, or nobody can read it: what is left has no one to work for.
            inner.cancel_scope.cancel()
        ended.set()

    async def _abandon(self, jobs: Jobs) -> None:
        """Take jobs for ended that were cancelled and don't end, so that what they hold up is answered and closed."""
        await self._ending.wait()
        await trio.sleep(ABANDON_S)
        for name in jobs.abandon():
            _log.debug("%s has not ended in time", name)

    # The end that nothing can hold up.

    def _save_at_once(self) -> None:
        """End processes and save what only this one holds, in any thread: the loop's tasks don't get to it any more."""
        with self._saving:
            CHILDREN.kill_all()
            if self.dispatcher.host is not None and not self._is_saved:
                self._is_saved = True
                try:
                    self.dispatcher.host.save_at_once()
                except Exception:  # the process ends: what can't be saved must not keep it
                    _log.exception("what was not yet saved is lost")

    def _leave(self, signal_number: int | None) -> None:
        """End the process, from any thread; None: as it would have ended by itself."""
        if signal_number is None:
            signal_number = self.signal_number
        if signal_number is not None:
            stdio.leave_now(signal_number)
        if (failure := self.startup_failure) is not None:
            with suppress(OSError):
                stdio.write_stderr(f"pinnace: {failure}\n")
        stdio.give_back()
        os._exit(self.exit_code(self._otherwise()))

    def _begin(self, host: Host) -> None:
        """Let extensions be loaded; commands wait until they are."""
        # Extensions may start programs of their own, and wait for them.
        CHILDREN.owns_all = host.seat is None
        host.sessions.on_folder = self._find_extensions
        if host.seat is not None:
            self._guard()
            host.seat.on_shutdown = self.stop
            host.submit(Happening("begin_instance"))

    def _find_extensions(self, folder: str) -> None:
        """Have extensions from now on, if the project of a session that is opened later brings some."""
        plan, host = self.prepared.late_extensions(Path(folder)), self.dispatcher.host
        if plan is not None:
            assert host is not None
            CHILDREN.owns_all = False
            self._guard()
            add_extensions(host, plan, self.dispatcher, is_late=True)
            assert host.seat is not None
            host.seat.on_shutdown = self.stop

    async def _watch_signals(self) -> None:
        with trio.open_signal_receiver(*stdio.SHUTDOWN_SIGNALS) as signals:
            async for number in signals:
                if self.signal_number is not None:
                    self._save_at_once()
                    stdio.leave_now(number)
                self.signal_number = number
                self.stop()

    async def _pump(self, stdout: stdio.Stdout, pumped: trio.Event) -> None:
        try:
            async with stdout:
                await self.outbox.pump(stdout, stdout.write_now)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.stdout_gone = True
            CHILDREN.kill_all()
            self.outbox.close()
            self._done.set()
        pumped.set()

    async def _flush(self, pumped: trio.Event) -> None:
        """Wait for the writer as long as the reader goes on reading."""
        with trio.move_on_after(SHUTDOWN_S):
            looks, written = 0, -1
            while not pumped.is_set() and looks < FLUSH_LOOKS:
                looks = looks + 1 if written == self.outbox.written_bytes else 0
                if written != self.outbox.written_bytes and (guard := self._guard()) is not None:
                    guard.begin()
                written = self.outbox.written_bytes
                with trio.move_on_after(FLUSH_LOOK_S):
                    await pumped.wait()


def _success() -> int:
    return 0
