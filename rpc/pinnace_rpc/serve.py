"""Mode rpc: commands come in on stdin, records go out on stdout, until stdin ends.

The reader never waits for work. What happens at the end is the process' and the chart's to know.
"""

import logging

import trio

from pinnace_agent import compactor
from pinnace_rpc import stdio
from pinnace_rpc.options import Options, StartupError
from pinnace_rpc.process import AgentProcess
from pinnace_rpc.projection import make_projection
from pinnace_rpc.startup import prepare
from pinnace_spec.framing import LineDecoder, TooLong

_log = logging.getLogger("pinnace.serve")

# Clients begin with a burst of questions; loading competes with the answers.
WARM_DELAY_S = 0.05
WARMED_APIS = frozenset({"openai-completions"})


def run(options: Options) -> int:
    """Serve until stdin ends or a signal comes, and return the exit code.

    Raises:
        StartupError: The configuration can't be used; nothing was written to stdout.
    """
    observe = stdio.configure_logging(options)
    prepared = prepare(options)
    if (problem := stdio.wrong_direction()) is not None:
        raise StartupError(problem)
    stdout = stdio.take_stdout()
    process = AgentProcess(prepared, make_projection(options.protocol))
    process.outbox.on_record = observe
    server = Server(process, is_drained=options.on_eof == "drain")
    process.run(stdout, server.read, server.warm)
    if process.startup_failure is not None:
        raise process.startup_failure
    return process.exit_code()


class Server:
    """What belongs to this mode: lines of stdin, and loading while their writer thinks."""

    def __init__(self, process: AgentProcess, *, is_drained: bool) -> None:
        """Read nothing yet."""
        self._process = process
        self._is_drained = is_drained

    async def read(self) -> None:
        """Hand lines to the dispatcher. Never waits for what they cause."""
        decoder = LineDecoder()
        async with stdio.open_stdin() as stdin:
            if not self._is_drained:
                self._process.watch_stdin(stdin.fileno())
            try:
                while chunk := await stdin.receive_some(stdio.READ_BYTES):
                    decoder.receive_data(chunk)
                    with self._process.outbox.turn():
                        self._take_lines(decoder)
                    await self._process.outbox.reader_room()
            except trio.BrokenResourceError:
                _log.warning("stdin can't be read any more")
        decoder.close()
        self._take_lines(decoder)
        self._process.stop(drain=self._is_drained)

    def _take_lines(self, decoder: LineDecoder) -> None:
        dispatcher = self._process.dispatcher
        for line in decoder.lines():
            if isinstance(line, TooLong):
                dispatcher.receive_too_long()
            else:
                dispatcher.receive(line)

    async def warm(self) -> None:
        """Load what the next commands need once the client has its first answer and is likely to be thinking.

        Whatever fails here fails again, and is told, when a request needs it.
        """
        await self._process.outbox.begun.wait()
        await trio.sleep(WARM_DELAY_S)
        try:
            await self._load()
        except Exception as error:  # no descriptor, thread or memory is left, for example
            _log.info("what the next commands need can't be loaded ahead: %s", error)

    async def _load(self) -> None:
        await trio.to_thread.run_sync(compactor.load, abandon_on_cancel=True)
        model = self._process.prepared.session.model
        if model is None or model["api"] not in WARMED_APIS:
            return
        from pinnace_agent.llm.client import warm
        from pinnace_agent.llm.providers import find_provider

        await warm(model["baseUrl"])
        find_provider(model["api"])
