"""One agent process, whoever talks to it: who starts, who ends, and with which exit code.

The nursery tree (docs/architecture.md): an outer nursery with the writer and the signals, an inner one with the tasks
of the mode and the jobs. The writer is the only task that writes. Signals, and whatever ends the conversation, are
triggers of the chart like any other: the process leaves when the chart says that all is answered and closed, or when
its time is over. Must not know what is said, nor in which mode.

Only here and in `jobs` are groups of exceptions and defects handled.
"""

import gc
import signal
from collections.abc import Awaitable, Callable

import trio

from pinnace_agent.host import Host
from pinnace_agent.jobs import Jobs
from pinnace_agent.shell import SHELL_GROUPS
from pinnace_rpc import stdio
from pinnace_rpc.dispatch import Dispatcher
from pinnace_rpc.outbox import Outbox, Projection
from pinnace_rpc.startup import Prepared, build_host
from pinnace_statechart.triggers import Happening

# The longest that a shutdown may take, whatever a job does; clients kill after one second, so this is for the worst
# case.
SHUTDOWN_S = 5.0
# A reader that takes nothing in so many looks after everything is closed will not read the rest. Several short ones: on
# a busy machine this process, or its reader, may not have had the processor during any single one.
FLUSH_LOOKS = 3
FLUSH_LOOK_S = 0.1
# A reader or writer that is gone; nobody can be told, so the exit code has to.
EXIT_STDOUT_GONE = 1
# An extension that was asked for, or lies in a folder for them, can't be loaded.
EXIT_NOT_STARTED = 1

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
        self._deadline = trio.CancelScope()

    def run(self, stdout_fd: int, *tasks: Task) -> None:
        """Live, with these tasks beside the jobs, until everything is written or the reader is gone.

        One of the tasks has to `stop` the process in the end, unless a signal does. Does not return after SIGINT.
        """
        # What is loaded by now stays: it is not searched for garbage again.
        gc.freeze()
        gc.enable()
        trio.run(self._live, stdout_fd, tasks)
        if self.signal_number == signal.SIGINT:
            stdio.die_by(signal.SIGINT)

    def exit_code(self, otherwise: int = 0) -> int:
        """Return the exit code: what a signal or a reader that is gone demands, or else the mode's own."""
        if self.signal_number is not None:
            return stdio.exit_status(self.signal_number)
        if self.startup_failure is not None:
            return EXIT_NOT_STARTED
        return EXIT_STDOUT_GONE if self.stdout_gone else otherwise

    @property
    def startup_failure(self) -> str | None:
        """Why extensions keep the process from starting; None: they don't."""
        host = self.dispatcher.host
        failure = None if host is None or host.seat is None else host.seat.failure
        return None if failure is None else str(failure)

    def stop(self, *, drain: bool = False) -> None:
        """Begin to end, or turn a drain into an abort."""
        host = self.dispatcher.host
        assert host is not None
        if not drain:
            self.is_stopping = True
            SHELL_GROUPS.kill_all()
            self.dispatcher.exports.hurry()
            self._deadline.deadline = trio.current_time() + SHUTDOWN_S
        host.submit(Happening("stop_drain" if drain else "stop_abort"))

    async def _live(self, stdout_fd: int, tasks: tuple[Task, ...]) -> None:
        pumped = trio.Event()
        async with trio.open_nursery() as outer:
            outer.start_soon(self._pump, trio.lowlevel.FdStream(stdout_fd), pumped, name="pump")
            async with trio.open_nursery() as inner:
                jobs = Jobs(inner)
                host = build_host(self.prepared, self.outbox, self.dispatcher, jobs)
                outer.start_soon(self._watch_signals, name="signals")
                self._begin(host)
                for task in tasks:
                    inner.start_soon(task)
                with self._deadline:
                    await self._done.wait()
                    if host.seat is not None:
                        await host.seat.close()
                # Everything is answered and closed, or nobody can read it: what is left has no one to work for.
                inner.cancel_scope.cancel()
            with trio.move_on_after(SHUTDOWN_S):
                await host.sessions.close_all()
            self.outbox.close()
            await self._flush(pumped)
            outer.cancel_scope.cancel()

    def _begin(self, host: Host) -> None:
        """Let extensions be loaded; commands wait until they are."""
        if host.seat is not None:
            host.seat.on_shutdown = self.stop
            host.submit(Happening("begin_instance"))

    async def _watch_signals(self) -> None:
        with trio.open_signal_receiver(*stdio.SHUTDOWN_SIGNALS) as signals:
            async for number in signals:
                if self.signal_number is not None:
                    SHELL_GROUPS.kill_all()
                    stdio.leave_now(number)
                self.signal_number = number
                self.stop()

    async def _pump(self, stdout: trio.lowlevel.FdStream, pumped: trio.Event) -> None:
        try:
            async with stdout:
                await self.outbox.pump(stdout)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.stdout_gone = True
            SHELL_GROUPS.kill_all()
            self.outbox.close()
            self._done.set()
        pumped.set()

    async def _flush(self, pumped: trio.Event) -> None:
        """Wait for the writer as long as the reader goes on reading."""
        with trio.move_on_after(SHUTDOWN_S):
            looks, written = 0, -1
            while not pumped.is_set() and looks < FLUSH_LOOKS:
                looks = looks + 1 if written == self.outbox.written_bytes else 0
                written = self.outbox.written_bytes
                with trio.move_on_after(FLUSH_LOOK_S):
                    await pumped.wait()
