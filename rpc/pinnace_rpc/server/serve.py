"""Mode rpc: commands come in on stdin, records go out on stdout, until stdin ends.

The reader never waits for work. The process and the statechart decide what happens at the end.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from pinnace_agent.engine import client_bash
from pinnace_agent.engine import compaction_job as compactor
from pinnace_rpc.options.options import Options, StartupError
from pinnace_rpc.server import stdio
from pinnace_rpc.server.dispatch import Dispatcher
from pinnace_rpc.server.process import ProcessRun
from pinnace_rpc.server.projection import make_projection
from pinnace_rpc.server.startup import StartedAgent, prepare
from pinnace_spec.wire.framing import LineDecoder, TooLong

if TYPE_CHECKING:  # for annotations alone
    from pinnace_rpc.server.streams import Input

_log = logging.getLogger("pinnace.serve")

# Clients begin with several commands at once; loading modules competes with the responses.
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
    observer, on_record = None, observe
    if options.result_file is not None or options.has_detailed_exit_codes:
        from pinnace_rpc.results.collector import observed

        observer, on_record = observed(options, observe)
    projection = make_projection(options.protocol)
    has_log = observe is not None
    process = ProcessRun(
        prepared,
        projection,
        on_record=on_record,
        has_log=has_log,
        observer=observer,
        has_host=options.hosted is not None,
    )
    server = Server(process, is_drained=options.on_eof == "drain", continues_queue=options.on_restore == "continue")
    process.run(stdout, server.read, server.warm)
    if process.startup_failure is not None:
        raise process.startup_failure
    return process.exit_code()


class Server:
    """The tasks of this mode: reading stdin, and loading modules while the client is idle."""

    def __init__(
        self,
        process: ProcessRun,
        *,
        is_drained: bool,
        continues_queue: bool,
        open_stdin: "Callable[[], Input]" = stdio.open_stdin,
    ) -> None:
        """Read nothing yet; `open_stdin` returns where commands come from."""
        self._open_stdin = open_stdin
        self._continues_queue = continues_queue
        self._process = process
        self._is_drained = is_drained

    async def read(self, agent: StartedAgent) -> None:
        """Pass lines to the dispatcher. Never waits for their commands."""
        # Before the first command is read, so that none of them meets a queue that is about to change.
        agent.interpreter.queue.restore(agent.interpreter.session, continues=self._continues_queue)
        decoder = LineDecoder()
        stdin = self._open_stdin()
        async with stdin:
            if not self._is_drained and isinstance(stdin, trio.lowlevel.FdStream):
                self._process.watch_stdin(stdin.fileno())
            try:
                while chunk := await stdin.receive_some(stdio.READ_BYTES):
                    decoder.receive_data(chunk)
                    with self._process.outbox.turn():
                        _take_lines(agent.dispatcher, decoder)
                    await self._process.outbox.reader_room()
            except trio.BrokenResourceError:
                _log.warning("stdin can't be read any more")
        decoder.close()
        _take_lines(agent.dispatcher, decoder)
        self._process.stop(agent, drain=self._is_drained)

    async def warm(self, agent: StartedAgent) -> None:
        """Load the modules that the next commands need, once the client has its first response and is probably idle.

        The HTTP client is a seventh of the memory of an idle agent, so it is loaded beside the checks of the first
        message. A failure here occurs again, and is reported, when a request needs the module.
        """
        await self._process.outbox.begun.wait()
        await trio.sleep(WARM_DELAY_S)
        await _load(compactor.load)
        await _load(client_bash.load)
        await agent.commands.first_message.wait()
        model = agent.interpreter.session.model
        if model is not None and model["api"] in WARMED_APIS:
            await _load(partial(_load_client, model["baseUrl"], model["api"]))


async def _load(load: Callable[[], object]) -> None:
    """Load modules in a thread. The end waits for it: an interpreter that ends under an import may crash."""
    try:
        await trio.to_thread.run_sync(load)
    except Exception as error:  # no descriptor, thread or memory is left, for example
        _log.info("modules of the next commands can't be loaded ahead: %s", error)


def _load_client(base_url: str, api: str) -> None:
    from pinnace_agent.llm.providers import find_provider
    from pinnace_agent.llm.transport.client import load

    find_provider(api)
    load(base_url)


def _take_lines(dispatcher: Dispatcher, decoder: LineDecoder) -> None:
    for line in decoder.lines():
        if isinstance(line, TooLong):
            dispatcher.receive_too_long()
        else:
            dispatcher.receive(line)
