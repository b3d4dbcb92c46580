"""An agent in a thread of this process: its event loop, its two pipes, and its end.

The thread runs what `pinnace --mode rpc` runs, with pipes in place of stdin and stdout. It has an event loop of its
own, so that the program may use any other, may block its own, and is interrupted without interrupting an effect of the
agent. `end` is bounded: the end of stdin, an abort, and the cancellation of everything in the loop. Knows no records.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final
from weakref import WeakSet

import trio
from anyio import CancelScope, move_on_after, wait_readable

from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.shell.child_processes import children
from pinnace_rpc.client.connection.process import Pipe
from pinnace_rpc.client.failures import StartFailed
from pinnace_rpc.options.arguments import parse_arguments
from pinnace_rpc.options.options import Options, StartupError, UsageRefused
from pinnace_rpc.options.parser import CommandError, TextRequested
from pinnace_rpc.server.process import EXIT_DEFECT, SHUTDOWN_S, ProcessRun
from pinnace_rpc.server.projection import make_projection
from pinnace_rpc.server.serve import Server
from pinnace_rpc.server.startup import StartedAgent, prepare

_log: Final = logging.getLogger("pinnace.embedded")

# After the cancellation of everything: only code that shields itself, or blocks the loop, is still there.
CANCEL_WAIT_S: Final = 1.0
_NO_AGENT: Final = "the flags request a text instead of an agent"
_HELP: Final = frozenset({"--help", "-h", "--version", "-v"})
# What belongs to a process of its own, by the fields of the options.
_OF_PROCESSES: Final[Mapping[str, str]] = {
    "list_models": "--list-models",
    "login": "--login",
    "export": "--export",
    "api_key_file": "--api-key-file",
    "api_key_fd": "--api-key-fd",
    "hosted": "--hosted",
    "result_file": "--result-file",
    "has_detailed_exit_codes": "--exit-codes",
    "fails_on_error": "--fail-on-error",
    "verbose": "--verbose",
    "log_file": "--log-file",
}
_living: Final[WeakSet["AgentThread"]] = WeakSet()


class AgentThread:
    """One agent, from the start of its thread until `end`. Client's side of its pipes."""

    def __init__(self, flags: Sequence[str], surroundings: Surroundings) -> None:
        """Start the thread. Never waits; `started` reports how that went.

        Raises:
            OSError: No descriptors are left.
            RuntimeError: No thread is left.
        """
        self.command = ("pinnace", "--mode", "rpc", *flags)
        self.pid = os.getpid()
        self.exit_code: int | None = None
        """How a process of the agent would have ended; None while it runs."""
        self.stderr_tail = ""
        """Why it has ended, if it has failed."""
        self._surroundings = surroundings
        self._run: ProcessRun | None = None
        self._agent: StartedAgent | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._has_begun = False
        pipes: list[tuple[int, int]] = []
        try:
            for _ in range(4):
                pipes.append(os.pipe())
            (agent_in, ours_in), (ours_out, agent_out), (self._started, starting), (self._ended, ending) = pipes
            self._thread = threading.Thread(
                target=self._live, args=(agent_in, agent_out, starting, ending), name="pinnace-agent", daemon=True
            )
            self._thread.start()
        except BaseException:
            for descriptor in (each for pair in pipes for each in pair):
                os.close(descriptor)
            raise
        self.stdin = Pipe(os.fdopen(ours_in, "wb", buffering=0))
        self.stdout = Pipe(os.fdopen(ours_out, "rb", buffering=0))
        _living.add(self)

    async def started(self) -> None:
        """Wait until the agent takes commands.

        Raises:
            StartFailed: It can't start.
        """
        await _end_of(self._started)
        if not self._has_begun:
            await self.wait()
            raise StartFailed(self.stderr_tail, self.exit_code or EXIT_DEFECT)

    async def collect_stderr(self) -> None:
        """Return: it has no stderr of its own."""

    async def wait(self) -> None:
        """Wait until everything of the agent has ended."""
        if self._thread.is_alive():
            await _end_of(self._ended)
            self._thread.join()

    async def end(self, grace_s: float) -> None:
        """End it: by the end of stdin, or an abort after `grace_s`, or by cancelling everything in its loop.

        Takes `grace_s` and six seconds at most, also when cancelled. Code of an extension that still blocks its thread
        then is left behind, without its commands. Stdout must be read meanwhile.
        """
        with CancelScope(shield=True):
            self.stdin.close()
            for limit_s, then in ((grace_s, self.stop), (SHUTDOWN_S, self._cancel), (CANCEL_WAIT_S, self._give_up)):
                with move_on_after(limit_s):
                    await self.wait()
                    return
                then()

    def close(self) -> None:
        """Close the pipes; after `end`."""
        self.stdin.close()
        self.stdout.close()
        if self._started >= 0 and not self._thread.is_alive():
            os.close(self._started)
            os.close(self._ended)
            self._started = self._ended = -1
        _living.discard(self)

    def end_at_exit(self) -> None:
        """End it without a loop, at the exit of the interpreter."""
        self.stdin.close()
        self.stop()
        self._thread.join(SHUTDOWN_S)

    def stop(self) -> None:
        """Abort what it does, and end it, without waiting; what it was sent and has not read is not read any more."""

        def stop() -> None:
            if self._run is not None and self._agent is not None:
                self._run.stop(self._agent)

        self._post(stop)

    def _cancel(self) -> None:
        _log.error("an agent has not ended in time: what it does is cancelled")
        self._post(self._scope.cancel)

    def _give_up(self) -> None:
        _log.error("an agent has not ended: code that blocks its thread is left behind")

    def _post(self, function: Callable[[], object]) -> None:
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(function)

    # In the thread.

    def _live(self, stdin: int, stdout: int, starting: int, ending: int) -> None:
        self._open = {stdin, stdout, starting}
        try:
            with surrounded_by(self._surroundings):
                try:
                    self.exit_code = self._serve(stdin, stdout, starting)
                finally:
                    children().end()
        except (StartupError, CommandError) as error:
            self.exit_code, self.stderr_tail = error.exit_code, REDACTOR.text(str(error))
        except TextRequested:
            self.exit_code, self.stderr_tail = UsageRefused.exit_code, _NO_AGENT
        except BaseException as error:  # a defect; the program must not end by it
            _log.exception("an agent has failed")
            self.exit_code, self.stderr_tail = EXIT_DEFECT, REDACTOR.text(f"{type(error).__name__}: {error}")
        finally:
            for descriptor in self._open:
                os.close(descriptor)
            # Not by its end alone, which a process that the program has forked would hold back.
            os.write(ending, b".")
            os.close(ending)

    def _serve(self, stdin: int, stdout: int, starting: int) -> int:
        options = options_of_program(self.command[1:], self._surroundings)
        prepared = prepare(options)
        run = self._run = ProcessRun(prepared, make_projection(options.protocol), owns_process=False)
        # Streams close what they are given, at different times.
        server = Server(
            run,
            is_drained=options.on_eof == "drain",
            continues_queue=options.on_restore == "continue",
            open_stdin=lambda: trio.lowlevel.FdStream(os.dup(stdin)),
        )

        async def begin(agent: StartedAgent) -> None:
            self._agent, self._has_begun = agent, True
            os.write(starting, b".")

        async def live() -> None:
            self._token = trio.lowlevel.current_trio_token()
            with self._scope:
                await run.live(os.dup(stdout), (begin, server.read, server.warm))
            if self._scope.cancelled_caught:
                run.save_at_once()
            # A process closes its connections by ending.
            with trio.move_on_after(CANCEL_WAIT_S, shield=True):
                await close_clients()

        trio.run(live)
        if run.startup_failure is not None:
            raise run.startup_failure
        return run.exit_code()


def options_of_program(words: Sequence[str], surroundings: Surroundings, *, may_be_hosted: bool = False) -> Options:
    """Read the flags; an agent that may be hosted is one whose host runs in the same program.

    Raises:
        StartupError: They are not those of an agent in a program.
        CommandError: They are invalid.
    """
    if not _HELP.isdisjoint(words):
        raise UsageRefused(_NO_AGENT)
    options = parse_arguments(words, surroundings.environment)
    if options.mode != "rpc":
        raise UsageRefused(f"--mode {options.mode}: an agent in a program is in mode rpc")
    for field, option in _OF_PROCESSES.items():
        if getattr(options, field) not in (None, False) and not (may_be_hosted and field == "hosted"):
            raise UsageRefused(f"{option} is for a process of its own: start the agent with Client")
    return options


async def _end_of(descriptor: int) -> None:
    """Wait until a pipe can be read; several tasks may wait for the same one, which loops know by its number."""
    own = os.dup(descriptor)
    try:
        await wait_readable(own)
    finally:
        os.close(own)


def _end_all() -> None:
    for each in list(_living):
        each.end_at_exit()


atexit.register(_end_all)
