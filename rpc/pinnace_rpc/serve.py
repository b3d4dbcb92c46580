"""One agent process on stdin and stdout: who starts, who ends, and with which exit code.

The nursery tree (docs/architecture.md): an outer nursery with the writer and the signals, an inner one with the reader
and the jobs. The reader never waits for work; the writer is the only task that writes. Stdin's end and signals are
triggers of the chart like any other: the process leaves when the chart says that all is answered and closed, or when
its time is over.

Only here and in `jobs` are groups of exceptions and defects handled.
"""

import gc
import logging
import signal

import trio

from pinnace_agent import compactor
from pinnace_agent.jobs import Jobs
from pinnace_agent.shell import SHELL_GROUPS
from pinnace_rpc import stdio
from pinnace_rpc.dispatch import Dispatcher
from pinnace_rpc.options import Options
from pinnace_rpc.outbox import Outbox
from pinnace_rpc.projection import make_projection
from pinnace_rpc.startup import Prepared, build_host, prepare
from pinnace_spec.framing import LineDecoder, TooLong
from pinnace_spec.records import load_models
from pinnace_statechart.triggers import Happening

_log = logging.getLogger("pinnace.serve")

# The longest that a shutdown may take, whatever a job does; clients kill after one second, so this is for the worst
# case.
SHUTDOWN_S = 5.0
# A reader that takes nothing for this long after everything is closed will not read the rest.
FLUSH_S = 0.3
# Clients begin with a burst of questions; loading competes with the answers.
WARM_DELAY_S = 0.05
WARMED_APIS = frozenset({"openai-completions"})
# A reader or writer that is gone; nobody can be told, so the exit code has to.
EXIT_STDOUT_GONE = 1


def run(options: Options) -> int:
    """Serve until stdin ends or a signal comes, and return the exit code.

    Raises:
        StartupError: The configuration can't be used; nothing was written to stdout.
    """
    stdio.configure_logging(verbose=options.verbose)
    prepared = prepare(options)
    stdout = stdio.take_stdout()
    server = Server(options, prepared)
    # What is loaded by now stays: it is not searched for garbage again.
    gc.freeze()
    gc.enable()
    trio.run(server.serve, stdout)
    if server.signal_number == signal.SIGINT:
        stdio.die_by(signal.SIGINT)
    if server.stdout_gone and server.signal_number is None:
        return EXIT_STDOUT_GONE
    return stdio.exit_status(server.signal_number)


class Server:
    """The process' life: from the first line to the last record."""

    def __init__(self, options: Options, prepared: Prepared) -> None:
        """Start nothing yet."""
        self.signal_number: int | None = None
        self.stdout_gone = False
        self._options = options
        self._prepared = prepared
        self._outbox = Outbox(make_projection(options.protocol))
        self._done = trio.Event()
        self._dispatcher = Dispatcher(self._outbox, self._done.set)
        self._deadline = trio.CancelScope()

    async def serve(self, stdout_fd: int) -> None:
        """Run the nursery tree until everything is written or the reader is gone."""
        pumped = trio.Event()
        async with trio.open_nursery() as outer:
            outer.start_soon(self._pump, trio.lowlevel.FdStream(stdout_fd), pumped, name="pump")
            async with trio.open_nursery() as inner:
                jobs = Jobs(inner)
                host = build_host(self._prepared, self._outbox, self._dispatcher, jobs)
                outer.start_soon(self._watch_signals, name="signals")
                inner.start_soon(self._read, stdio.open_stdin(), name="reader")
                inner.start_soon(self._warm, name="warm")
                with self._deadline:
                    await self._done.wait()
                # Everything is answered and closed, or nobody can read it: what is left has no one to work for.
                inner.cancel_scope.cancel()
            with trio.move_on_after(SHUTDOWN_S):
                await host.sessions.close_all()
            self._outbox.close()
            await self._flush(pumped)
            outer.cancel_scope.cancel()

    async def _read(self, stdin: trio.lowlevel.FdStream) -> None:
        """Hand lines to the dispatcher. Never waits for what they cause."""
        decoder = LineDecoder()
        # Closing gives the descriptor its blocking mode back, which the parent may share.
        async with stdin:
            try:
                while chunk := await stdin.receive_some(stdio.READ_BYTES):
                    decoder.receive_data(chunk)
                    self._take_lines(decoder)
                    await self._outbox.reader_room()
            except trio.BrokenResourceError:
                _log.warning("stdin can't be read any more")
        decoder.close()
        self._take_lines(decoder)
        self._stop(drain=self._options.on_eof == "drain")

    async def _warm(self) -> None:
        """Load what the next commands need once the client has its first answer and is likely to be thinking.

        Whatever fails here fails again, and is told, when a request needs it.
        """
        await self._outbox.begun.wait()
        await trio.sleep(WARM_DELAY_S)
        await trio.to_thread.run_sync(load_models, abandon_on_cancel=True)
        await trio.to_thread.run_sync(compactor.load, abandon_on_cancel=True)
        model = self._prepared.session.model
        if model is None or model["api"] not in WARMED_APIS:
            return
        from pinnace_agent.llm.client import warm
        from pinnace_agent.llm.providers import find_provider

        try:
            await warm(model["baseUrl"])
        except OSError as error:
            _log.info("the HTTP client can't be loaded ahead: %s", error)
        find_provider(model["api"])

    def _take_lines(self, decoder: LineDecoder) -> None:
        for line in decoder.lines():
            if isinstance(line, TooLong):
                self._dispatcher.receive_too_long()
            else:
                self._dispatcher.receive(line)

    async def _watch_signals(self) -> None:
        with trio.open_signal_receiver(*stdio.SHUTDOWN_SIGNALS) as signals:
            async for number in signals:
                if self.signal_number is not None:
                    SHELL_GROUPS.kill_all()
                    stdio.leave_now(number)
                self.signal_number = number
                self._stop(drain=False)

    def _stop(self, *, drain: bool) -> None:
        """Begin to end, or turn a drain into an abort."""
        host = self._dispatcher.host
        assert host is not None
        if not drain:
            SHELL_GROUPS.kill_all()
            self._deadline.deadline = trio.current_time() + SHUTDOWN_S
        host.submit(Happening("stop_drain" if drain else "stop_abort"))

    async def _pump(self, stdout: trio.lowlevel.FdStream, pumped: trio.Event) -> None:
        try:
            async with stdout:
                await self._outbox.pump(stdout)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.stdout_gone = True
            SHELL_GROUPS.kill_all()
            self._outbox.close()
            self._done.set()
        pumped.set()

    async def _flush(self, pumped: trio.Event) -> None:
        """Wait for the writer as long as the reader goes on reading."""
        with trio.move_on_after(SHUTDOWN_S):
            written = -1
            while not pumped.is_set() and written != self._outbox.written_bytes:
                written = self._outbox.written_bytes
                with trio.move_on_after(FLUSH_S):
                    await pumped.wait()
