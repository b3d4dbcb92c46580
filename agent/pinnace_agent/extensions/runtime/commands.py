"""Slash commands of extensions: their names, the call in a message, and the running commands.

A command runs as a task of its own, which no run waits for, so it may wait for a run, replace the session, and continue
in the next one. Its failure is reported.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Final, NamedTuple

import trio

from pinnace_agent.extensions.api.contexts import Binding, CommandContext, CommandWork, Context, ReplacedContext
from pinnace_agent.extensions.handlers.calling import Caller
from pinnace_agent.extensions.handlers.thread_proxy import thread_context
from pinnace_agent.extensions.ports.host_view import CommandInfo, WithSession
from pinnace_agent.extensions.registration.registrations import CommandRegistration, Extension
from pinnace_agent.extensions.services.error_records import ownership, signature_hint
from pinnace_agent.extensions.services.watchdog import Owner


class NamedCommand(NamedTuple):
    """A command and its extension."""

    extension: Extension
    registration: CommandRegistration


class CommandCall(NamedTuple):
    """A message that calls a command."""

    name: str
    """The name used in the call."""
    command: NamedCommand
    arguments: str
    """The rest of the message, unchanged."""


def command_names(extensions: Sequence[Extension]) -> dict[str, NamedCommand]:
    """Return the commands by their names in calls, in load order.

    Commands that share a name are called `name:1`, `name:2` and so on, skipping names in use.
    """
    commands = [
        NamedCommand(extension, registration)
        for extension in extensions
        for registration in extension.commands.values()
    ]
    shared = {name for name, count in Counter(each.registration.name for each in commands).items() if count > 1}
    plain = {each.registration.name for each in commands} - shared
    named: dict[str, NamedCommand] = {}
    numbers: Counter[str] = Counter()
    for command in commands:
        name = command.registration.name
        if name in shared:
            name = _numbered(name, numbers, plain)
        named[name] = command
    return named


def _numbered(name: str, numbers: Counter[str], taken: set[str]) -> str:
    while True:
        numbers[name] += 1
        if (numbered := f"{name}:{numbers[name]}") not in taken:
            return numbered


def find_call(commands: Mapping[str, NamedCommand], text: str) -> CommandCall | None:
    """Read a message as a call: `/`, a name up to the first space, and the arguments; None: it calls no command."""
    if not text.startswith("/"):
        return None
    name, _, arguments = text[1:].partition(" ")
    command = commands.get(name)
    return None if command is None else CommandCall(name, command, arguments)


def command_infos(commands: Mapping[str, NamedCommand]) -> list[CommandInfo]:
    """Return the commands as extensions and clients receive them."""
    return [_info(name, command.extension, command.registration) for name, command in commands.items()]


def _info(name: str, extension: Extension, registration: CommandRegistration) -> CommandInfo:
    source, path = {**extension.source}, registration.prompt_path
    if path is None:
        return CommandInfo(name, "extension", source, registration.description)
    return CommandInfo(name, "prompt", {**source, "path": path}, registration.description, path)


RUNTIME: Final = "<runtime>"
"""The path in error records that belong to no single extension."""

_COMMAND: Final[ContextVar[CommandWork | None]] = ContextVar("pinnace-extension-command", default=None)


class CommandRuns:
    """The running commands of one session instance."""

    def __init__(self, extensions: Sequence[Extension], binding: Binding, caller: Caller) -> None:
        """Call commands with `caller`."""
        self._extensions = extensions
        self._binding = binding
        self._caller = caller
        self._works: set[CommandWork] = set()

    def __len__(self) -> int:
        """Return the number of running commands."""
        return len(self._works)

    def find(self, text: str) -> CommandCall | None:
        """Return the command that a message calls."""
        if not text.startswith("/"):
            return None
        return find_call(command_names(self._extensions), text)

    def infos(self) -> list[CommandInfo]:
        """Return the commands of extensions, with their names in calls."""
        return command_infos(command_names(self._extensions))

    def completes(self, name: str) -> bool:
        """Return whether there is a command of this name whose arguments its extension completes."""
        found = command_names(self._extensions).get(name)
        return found is not None and found.registration.complete is not None

    async def complete(self, name: str, prefix: str) -> Sequence[Mapping[str, object]]:
        """Return what its extension offers for the arguments of a command; see `completions.complete`."""
        from pinnace_agent.extensions.runtime.completions import complete  # with the first question

        found = command_names(self._extensions).get(name)
        if found is None or found.registration.complete is None:
            return []
        return await complete(self._caller, found.extension.path, found.registration.complete, prefix)

    async def run(self, call: CommandCall) -> None:
        """Run a command to its end and report its failure. Must run in a task of its own, which no run waits for.

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
                self._caller.report(owner, failure, hint=hint, file=extension.path)
            if passing is not None:
                raise passing from None
        finally:
            _COMMAND.reset(token)
            self._works.discard(work)

    def abort(self) -> None:
        """Mark the running commands as aborted; cancel those that were marked before."""
        for work in tuple(self._works):
            if work.is_aborted:
                work.scope.cancel()
            work.is_aborted = True

    async def run_with_session(self, function: WithSession) -> None:
        """Call the `with_session` of a replacement in this session. Its exceptions are raised."""
        work = _COMMAND.get() or CommandWork(trio.CancelScope())
        awaitable = function(ReplacedContext(self._binding, RUNTIME, work))
        if awaitable is not None:
            await awaitable
