"""Slash commands of extensions: under which name each can be called, and which one a text calls.

Pure. R10, R11.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pinnace_agent.extensions.host_view import CommandInfo
from pinnace_agent.extensions.registrations import CommandRegistration, Extension


class NamedCommand(NamedTuple):
    """A command, and whose it is."""

    extension: Extension
    registration: CommandRegistration


class CommandCall(NamedTuple):
    """A text that calls a command."""

    name: str
    """As it was called."""
    command: NamedCommand
    arguments: str
    """The rest of the text, verbatim."""


def command_names(extensions: Sequence[Extension]) -> dict[str, NamedCommand]:
    """Return the commands by the names they are called by, in load order.

    A name that several have is nobody's: theirs are `name:1`, `name:2` and so on, past names that are taken.
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
    """Return the call that a text is: `/`, a name up to the first space, and the rest."""
    if not text.startswith("/"):
        return None
    name, _, arguments = text[1:].partition(" ")
    command = commands.get(name)
    return None if command is None else CommandCall(name, command, arguments)


def command_infos(commands: Mapping[str, NamedCommand]) -> list[CommandInfo]:
    """Return the commands as extensions and clients are told of them."""
    return [
        CommandInfo(name, "extension", {**command.extension.source}, command.registration.description)
        for name, command in commands.items()
    ]
