"""Commands of extensions that run.

A command is a task of its own, which no run waits for, so it may wait for a run, replace the session, and go on in the
next one. Its failure is told. Must not know which text comes from where. R11, R16, R22, R24.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial
from typing import Final

import trio

from pinnace_agent.extensions.calling import Caller
from pinnace_agent.extensions.commands import CommandCall, command_infos, command_names, find_call
from pinnace_agent.extensions.contexts import Binding, CommandContext, CommandWork, Context, ReplacedContext
from pinnace_agent.extensions.error_records import ownership, signature_hint
from pinnace_agent.extensions.host_port import CommandInfo, WithSession
from pinnace_agent.extensions.registrations import Extension
from pinnace_agent.extensions.thread_proxy import thread_context
from pinnace_agent.extensions.watchdog import Owner

RUNTIME: Final = "<runtime>"
"""The path of what no single extension has done."""

_COMMAND: Final[ContextVar[CommandWork | None]] = ContextVar("pinnace-extension-command", default=None)


class CommandRuns:
    """The commands of one session instance."""

    def __init__(self, extensions: Sequence[Extension], binding: Binding, caller: Caller) -> None:
        """Call by `caller`."""
        self._extensions = extensions
        self._binding = binding
        self._caller = caller
        self._works: set[CommandWork] = set()

    def __len__(self) -> int:
        """Count those that run."""
        return len(self._works)

    def find(self, text: str) -> CommandCall | None:
        """Return the command that a text calls; a queued text that calls one is to be refused."""
        if not text.startswith("/"):
            return None
        return find_call(command_names(self._extensions), text)

    def infos(self) -> list[CommandInfo]:
        """Return the commands of extensions by the names they are called by."""
        return command_infos(command_names(self._extensions))

    async def run(self, call: CommandCall) -> None:
        """Run a command to its end; a failure is told. To be run in a task of its own, that no run waits for.

        The task outlives this instance when the command replaces the session.
        """
        extension, registration = call.command
        work = CommandWork(trio.CancelScope())
        context: Context = CommandContext(self._binding, extension.path, work)
        if registration.in_thread:
            context = thread_context(context)
        owner = Owner(f"command:{call.name}", "command", kind="command")
        function = partial(registration.function, context, call.arguments)
        self._works.add(work)
        token = _COMMAND.set(work)
        try:
            with work.scope:
                await self._caller.run(owner, function, in_thread=registration.in_thread, is_timed=False)
        except BaseException as error:
            passing, failure = ownership(error)
            if failure is not None:
                hint = signature_hint(registration.function, failure, ("ctx", "args"))
                self._caller.tell(owner, failure, hint=hint)
            if passing is not None:
                raise passing from None
        finally:
            _COMMAND.reset(token)
            self._works.discard(work)

    def abort(self) -> None:
        """Tell the commands that run of an abort; those that were told before are cancelled."""
        for work in tuple(self._works):
            if work.is_aborted:
                work.scope.cancel()
            work.is_aborted = True

    async def run_with_session(self, function: WithSession) -> None:
        """Let what replaced the session go on in this one (R22, K8). What it raises is raised."""
        work = _COMMAND.get() or CommandWork(trio.CancelScope())
        answer = function(ReplacedContext(self._binding, RUNTIME, work))
        if answer is not None:
            await answer
