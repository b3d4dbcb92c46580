"""Mode acp: the client's messages come in on stdin, ours go out on stdout, until stdin ends.

Composes the mode. Nothing of an agent is loaded here, so that the first answer comes soon.
"""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.core.surroundings import environment
from pinnace_rpc.acp.agents import Agents
from pinnace_rpc.acp.keys import UsersKeys
from pinnace_rpc.acp.library import Library
from pinnace_rpc.acp.machine import Machine, OfProcess
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.providers import ClientProviders
from pinnace_rpc.acp.router import Router
from pinnace_rpc.acp.translation.jsonrpc import CANCELLED, RequestError
from pinnace_rpc.options.options import Options, StartupError
from pinnace_rpc.options.release import program_version
from pinnace_rpc.server import stdio
from pinnace_spec.wire.framing import LineDecoder

if TYPE_CHECKING:  # for annotations alone
    from pinnace_rpc.server.streams import Input, Output

EXIT_STDOUT_GONE: Final = 1
_END_S: Final = 6.0
"""How long agents may take to end; each takes 5 s at most."""
_REQUESTS_S: Final = 10.0
"""How long requests other than prompts, such as `session/new`, may take that are open when stdin ends."""


def run(options: Options, words: Sequence[str]) -> int:
    """Serve until stdin ends or a signal comes, and return the exit code.

    Args:
        options: Of this process.
        words: Of its command line, which each agent gets.

    Raises:
        StartupError: stdin or stdout can't be used; nothing was written to stdout.
    """
    stdio.configure_logging(options)
    if (problem := stdio.wrong_direction()) is not None:
        raise StartupError(problem)
    adapter = Adapter(options, words, OfProcess(), stdio.open_stdin)
    stdio.end_start()
    trio.run(_serve, adapter, stdio.take_stdout())
    if adapter.signal_number == signal.SIGINT:
        stdio.die_by(signal.SIGINT)
    if adapter.signal_number is not None:
        return stdio.exit_status(adapter.signal_number)
    return adapter.exit_code


async def _serve(adapter: "Adapter", stdout_fd: int) -> None:
    async with trio.open_nursery() as nursery:
        stdout = stdio.Stdout(stdout_fd)
        nursery.start_soon(_watch_signals, adapter)
        await adapter.run(stdout)
        nursery.cancel_scope.cancel()


async def _watch_signals(adapter: "Adapter") -> None:
    with trio.open_signal_receiver(*stdio.SHUTDOWN_SIGNALS) as signals:
        async for number in signals:
            if adapter.signal_number is not None:
                stdio.leave_now(number)
            adapter.signal_number = number
            adapter.end_at_once()


class Adapter:
    """The tasks of one adapter, from its start to its end."""

    def __init__(
        self, options: Options, words: Sequence[str], machine: Machine, open_stdin: "Callable[[], Input]"
    ) -> None:
        """Start nothing yet.

        Args:
            options: Of the adapter.
            words: Of its command line, which each agent gets.
            machine: Where it finds a host, and starts agents.
            open_stdin: Opens what the client sends; called once, in `run`.
        """
        self.signal_number: int | None = None
        """The signal that ends it, if one does."""
        self._is_stdout_gone = False
        self._words = tuple(words)
        self._options = options
        self._machine = machine
        self._open_stdin = open_stdin
        self._library = Library(environment(), options.session_dir) if options.is_persistent else None
        self._outbox = Outbox()
        self._ending = trio.Event()
        self._patience = trio.CancelScope()
        """Of the wait for requests that are open when stdin ends."""

    @property
    def exit_code(self) -> int:
        """The exit code of an adapter that has ended by no signal."""
        return EXIT_STDOUT_GONE if self._is_stdout_gone else 0

    async def run(self, stdout: "Output") -> None:
        """Serve until stdin ends. Cancelled, nothing more is answered; agents of its own get the end of their stdin."""
        pumped = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pump, stdout, pumped)
            async with trio.open_nursery() as agents:
                release = program_version()
                options, providers, library = self._options, ClientProviders(self._options), self._library
                starter = Agents(
                    agents, self._words, options, release, providers, self._machine, is_persistent=library is not None
                )
                keys = UsersKeys(options, providers)
                router = Router(agents, self._outbox, starter, keys, providers, library, release)
                agents.start_soon(self._read, router)
                await self._ending.wait()
                router.end_turns()
                with self._patience:
                    self._patience.deadline = trio.current_time() + _REQUESTS_S
                    await router.wait_answered()
                router.close()
                with trio.move_on_after(_END_S):
                    await router.wait_closed()
                agents.cancel_scope.cancel()
            self._outbox.refuse_rest(RequestError(CANCELLED, "pinnace is ending", {"errorCode": "shutting_down"}))
            self._outbox.close()
            await stdout.wait_read(lambda: self.signal_number is not None, pumped)
            nursery.cancel_scope.cancel()

    async def _read(self, router: Router) -> None:
        decoder = LineDecoder()
        stdin = self._open_stdin()
        async with stdin:
            with suppress(trio.BrokenResourceError):
                while chunk := await stdin.receive_some(stdio.READ_BYTES):
                    decoder.receive_data(chunk)
                    for line in decoder.lines():
                        router.take_line(line)
                    await self._outbox.room()
        decoder.close()
        for line in decoder.lines():
            router.take_line(line)
        self._ending.set()

    async def _pump(self, stdout: "Output", pumped: trio.Event) -> None:
        try:
            async with stdout:
                await self._outbox.pump(stdout)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._is_stdout_gone = True
            self._outbox.close()
            self.end_at_once()
        pumped.set()

    def end_at_once(self) -> None:
        """End without waiting for requests that are at work; they are cancelled."""
        self._patience.cancel()
        self._ending.set()
