"""One agent in any mode: its tasks, its end, and the exit code of its process.

The nursery tree (docs/architecture.md): an outer nursery with the writer and the signals, an inner one with the tasks
of the mode and the jobs. The writer is the only task that writes. Signals, and the end of the conversation, are
triggers of the statechart: the process exits when everything is answered and closed, or when its time is over. An agent
in a process of others (`owns_process=False`) leaves that process alone: no signals, no thread that ends it, no exit.

Only here and in `jobs` are groups of exceptions and defects handled.
"""

import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import trio

from pinnace_agent.core.jobs import ABORT_GRACE_S, Jobs
from pinnace_agent.core.surroundings import environment
from pinnace_agent.session.conversation import Session
from pinnace_agent.shell.child_processes import children
from pinnace_rpc.options.options import StartupError, UsageRefused
from pinnace_rpc.server import stdio
from pinnace_rpc.server.dispatch import OpenCommands
from pinnace_rpc.server.outbox import Outbox, Projection, Record
from pinnace_rpc.server.startup import PreparedAgent, StartedAgent, compose
from pinnace_statechart.triggers import InternalEvent

if TYPE_CHECKING:  # loaded behind the first answer, or with extensions
    from pinnace_rpc.server.last_resort import LastResort
    from pinnace_rpc.server.streams import Output

_log = logging.getLogger("pinnace.process")

# The longest that a shutdown may take, whatever a job does; clients kill after one second, so this is for the worst
# case. A thread outside the event loop ends the process then.
SHUTDOWN_S: Final = 5.0
# Within it: jobs that have not ended by then count as ended, so that commands are answered and brackets closed ...
ABANDON_S: Final = ABORT_GRACE_S + 0.3
# ... handlers of session_shutdown have ended ...
LAST_WORD_S: Final = 4.2
# ... and tasks that don't end are no longer waited for.
UNWIND_S: Final = 4.5
# The rest is for the last steps of the thread.
LAST_RESORT_S: Final = 4.8
# The time that handlers of session_shutdown always have.
LEAST_LAST_WORD_S: Final = 0.3
# stdout is closed: only the exit code can report it.
EXIT_STDOUT_GONE = 1
# A defect of the statechart, R-RUN-08 (EX_SOFTWARE of sysexits.h): a supervisor may report it and start the agent anew.
EXIT_DEFECT: Final = 70

Task = Callable[[StartedAgent], Awaitable[None]]
"""A task of the mode, with the agent that it uses."""


class EndObserver(Protocol):
    """Decides the exit code of a process, and takes note of its end."""

    def exit_code(self, code: int, process: "ProcessRun") -> int:
        """Return the exit code; `code` is the one that the process has by itself."""
        ...

    def finish(self, code: int, process: "ProcessRun") -> None:
        """Everything is answered and closed, or the time for it is over. May be called more than once."""
        ...


class ProcessRun:
    """Runs the process from the first task to the last record."""

    def __init__(
        self,
        prepared: PreparedAgent,
        projection: Projection,
        *,
        on_record: Callable[[Record], None] | None = None,
        has_log: bool = False,
        observer: EndObserver | None = None,
        has_host: bool = False,
        owns_process: bool = True,
    ) -> None:
        """Start nothing yet.

        Args:
            prepared: The configuration of the agent.
            projection: Encodes its records.
            on_record: Takes every record but updates, before it is written.
            has_log: Whether the log takes them.
            observer: Takes note of the end.
            has_host: Whether a durable host reads what it writes.
            owns_process: Whether the process is this agent's, and ends with it.
        """
        self.signal_number: int | None = None
        self.stdout_gone = False
        self.is_stopping = False
        """The process has begun to end."""
        self.prepared = prepared
        self._close_telemetry: Callable[[], object] = _success
        self._owns_process = owns_process
        self._children = children()
        if any(name.startswith("OTEL_") for name in environment()):
            from pinnace_agent.telemetry.switch import begin, withhold_keys

            if owns_process:
                on_record, self._close_telemetry = begin(prepared.profile, on_record)
            else:  # the library's providers are the program's
                withhold_keys(prepared.profile)
        self.outbox = Outbox(
            projection,
            on_record=on_record,
            on_defect=self._record_failed,
            on_unshown_dialog=self._decline_dialog,
            has_host=has_host,
        )
        self._has_log = has_log
        self._observer = observer
        self._agent: StartedAgent | None = None  # until the event loop runs
        self._done = trio.Event()
        self._ending = trio.Event()
        self._last_word = trio.CancelScope()
        self._unwinding = trio.CancelScope()
        self._otherwise: Callable[[], int] = _success
        self._last_resort: LastResort | None = None
        self._saving = threading.Lock()
        self._is_saved = False
        self._stdin: int | None = None

    def run(self, stdout_fd: int, *tasks: Task, otherwise: Callable[[], int] | None = None) -> None:
        """Run these tasks beside the jobs, until everything is written or stdout is closed.

        One of the tasks has to `stop` the process in the end, unless a signal does. Does not return after SIGINT, nor
        if code of an extension can't be ended: the process has ended then.

        Args:
            stdout_fd: Where records go.
            *tasks: Those of the mode.
            otherwise: Returns the mode's own exit code, for an end from inside.
        """
        self._otherwise = otherwise or _success
        stdio.end_start()
        if self._has_log:
            from pinnace_rpc.server.log_file import log_session

            session = self.prepared.session
            log_session(session.path, session.id, session.model)
        trio.run(self.live, stdout_fd, tasks)
        if self._has_log:
            from pinnace_rpc.server.log_file import log_end

            log_end(self.exit_code(self._otherwise()))
        self._close_telemetry()
        if self.signal_number == signal.SIGINT and not self.has_defect:
            stdio.die_by(signal.SIGINT)

    def exit_code(self, otherwise: int = 0) -> int:
        """Return the exit code: of a defect, a signal or a closed stdout, or else the mode's own."""
        code = self._plain_exit_code(otherwise)
        return code if self._observer is None else self._observer.exit_code(code, self)

    def _plain_exit_code(self, otherwise: int) -> int:
        if self.has_defect:
            return EXIT_DEFECT
        if self.signal_number is not None:
            return stdio.exit_status(self.signal_number)
        if self.startup_failure is not None:
            return self.startup_failure.exit_code
        return EXIT_STDOUT_GONE if self.stdout_gone else otherwise

    def _finish(self) -> None:
        """Let the observer take note of the end."""
        if self._observer is not None:
            self._observer.finish(self.exit_code(self._otherwise()), self)

    @property
    def session(self) -> Session:
        """The current session."""
        return self.prepared.session if self._agent is None else self._agent.interpreter.session

    @property
    def has_defect(self) -> bool:
        """Whether the statechart has failed: everything is answered and closed, and the process ends."""
        return self._agent is not None and self._agent.interpreter.defect is not None

    @property
    def startup_failure(self) -> StartupError | None:
        """Why the process can't start with its extensions; None: it can."""
        manager = None if self._agent is None else self._agent.extensions.manager
        failure = None if manager is None else manager.failure
        if failure is None:
            return None
        if failure.is_usage:
            return UsageRefused(str(failure))
        return StartupError(str(failure), "no_model" if failure.is_model else "extension_error")

    def stop(self, agent: StartedAgent, *, drain: bool = False) -> None:
        """Begin to end, or turn a drain into an abort."""
        if not drain:
            self._hurry(agent.commands)
        agent.interpreter.submit(InternalEvent("stop_drain" if drain else "stop_abort"))

    def _hurry(self, commands: OpenCommands) -> None:
        self.is_stopping = True
        self._children.kill_all()
        commands.hurry()
        self._end_in_time()

    def watch_stdin(self, descriptor: int) -> None:
        """End the process also if stdin ends while the event loop is blocked and can't detect it."""
        self._stdin = descriptor
        if self._last_resort is not None:
            self._last_resort.watch_stdin(descriptor)

    def _end_in_time(self) -> None:
        """From now on the process has `SHUTDOWN_S`. Further calls change nothing."""
        if self._ending.is_set():
            return
        self._ending.set()
        if self._agent is not None:
            self._agent.interpreter.sessions.announce_end()
        now = trio.current_time()
        self._last_word.deadline = now + LAST_WORD_S
        self._unwinding.deadline = now + UNWIND_S
        if (guard := self._guard()) is not None:
            guard.begin()

    def _guard(self) -> "LastResort | None":
        """Return the thread that ends the process if the event loop can't; None: the system can't start one now.

        None also for a process of others.
        """
        if self._last_resort is None and self._owns_process:
            try:
                from pinnace_rpc.server.last_resort import LastResort

                guard = LastResort(LAST_RESORT_S, self.save_at_once, self._leave)
                guard.start(self.signal_number)
            except (OSError, ImportError, RuntimeError) as error:
                _log.warning("no thread can end the process if its event loop is blocked: %s", error)
                return None
            self._last_resort = guard
            if self._stdin is not None:
                self._last_resort.watch_stdin(self._stdin)
        return self._last_resort

    async def _guard_later(self) -> None:
        """Start the thread after the first record: without extensions only the agent's own code runs in the loop."""
        await self.outbox.begun.wait()
        self._guard()

    async def live(self, stdout: "int | Output", tasks: tuple[Task, ...]) -> None:
        """Run these tasks beside the jobs; the arguments are those of `run`, or an output without a descriptor."""
        pumped, ended = trio.Event(), trio.Event()
        try:
            async with trio.open_nursery() as outer:
                output: Output = stdio.Stdout(stdout) if isinstance(stdout, int) else stdout
                outer.start_soon(self._pump, output, pumped, name="pump")
                outer.start_soon(self._work, outer, tasks, ended, name="work")
                with self._unwinding:
                    await ended.wait()
                if self._agent is not None:
                    with trio.move_on_after(SHUTDOWN_S):
                        await self._agent.interpreter.sessions.close_all()
                self._finish()
                self.outbox.close()
                guard = self._guard()
                await output.wait_read(lambda: self.signal_number is not None, pumped, guard.begin if guard else bool)
                if not ended.is_set() and self._owns_process:
                    # A task that can't be cancelled: all is written and saved, and the process ends anyway.
                    if guard is not None:
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
            agent = self._compose(jobs)
            if self._owns_process:
                outer.start_soon(self._watch_signals, agent, name="signals")
            for task in tasks:
                inner.start_soon(task, agent)
            if self._owns_process:
                inner.start_soon(self._guard_later, name="guard")
            inner.start_soon(self._abandon, jobs, name="abandon")
            with self._last_word:
                await self._done.wait()
                self._end_in_time()
                if (manager := agent.extensions.manager) is not None:
                    left_s = self._last_word.deadline - trio.current_time()
                    await manager.close(max(LEAST_LAST_WORD_S, left_s))
            # Everything is answered and closed, or stdout is closed: the remaining work has no use.
            inner.cancel_scope.cancel()
        ended.set()

    def _compose(self, jobs: Jobs) -> StartedAgent:
        """Build the agent, and let its extensions be loaded; commands wait until they are."""
        # Extensions may start programs of their own, and wait for them.
        self._children.owns_all = self._owns_process
        agent = self._agent = compose(
            self.prepared,
            self.outbox,
            jobs,
            self._done.set,
            shutdown=self._shutdown,
            before_extensions=self._before_extensions,
        )
        if agent.extensions.manager is not None:
            agent.interpreter.submit(InternalEvent("begin_instance"))
        return agent

    def _record_failed(self, problem: str) -> None:
        """Report an event that could not be encoded, and end its run."""
        if self._agent is not None:
            self._agent.interpreter.record_failed(problem)

    def _decline_dialog(self, request_id: str) -> None:
        """Decline a dialog that the client's generation does not have: an extension must not wait for ever."""
        if self._agent is not None and (extensions := self._agent.interpreter.extensions) is not None:
            extensions.answer({"id": request_id, "cancelled": True})

    def _shutdown(self) -> None:
        """End the process, as an extension has requested, or since extensions can't be loaded."""
        if self._agent is not None:
            self.stop(self._agent)

    def _before_extensions(self) -> None:
        self._children.owns_all = False
        self._guard()

    async def _abandon(self, jobs: Jobs) -> None:
        """Count cancelled jobs that don't end as ended, so that commands are answered and brackets closed."""
        await self._ending.wait()
        await trio.sleep(ABANDON_S)
        for name in jobs.abandon():
            _log.debug("%s has not ended in time", name)

    # The end that no task can delay.

    def save_at_once(self) -> None:
        """End child processes and save unsaved data, in any thread: the loop's tasks can't any more."""
        with self._saving:
            self._children.kill_all()
            if self._agent is not None and not self._is_saved:
                self._is_saved = True
                try:
                    self._agent.interpreter.save_at_once()
                except Exception:  # the process ends, even if data can't be saved
                    _log.exception("unsaved data is lost")

    def _leave(self, signal_number: int | None) -> None:
        """End the process, from any thread; None: as it would have ended by itself."""
        if signal_number is None:
            signal_number = self.signal_number
        self._finish()
        if signal_number is not None and not self.has_defect:
            stdio.leave_now(signal_number)
        if (failure := self.startup_failure) is not None:
            with suppress(OSError):
                stdio.write_stderr(f"pinnace: {failure}\n")
        stdio.give_back()
        os._exit(self.exit_code(self._otherwise()))

    async def _watch_signals(self, agent: StartedAgent) -> None:
        with trio.open_signal_receiver(*stdio.SHUTDOWN_SIGNALS) as signals:
            async for number in signals:
                if self.signal_number is not None:
                    self.save_at_once()
                    self._finish()
                    stdio.leave_now(number)
                self.signal_number = number
                self.stop(agent)

    async def _pump(self, stdout: "Output", pumped: trio.Event) -> None:
        try:
            async with stdout:
                await self.outbox.pump(stdout, stdout.write_now)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.stdout_gone = True
            self._children.kill_all()
            self.outbox.close()
            self._done.set()
        pumped.set()


def _success() -> int:
    return 0
