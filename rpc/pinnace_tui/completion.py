"""What may stand where the cursor is: files after `@`, commands after `/` at the beginning, and their arguments.

Pure but for `files_of`, which reads the names below a folder. Must not know widgets.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

MOST: Final = 8
_FILE: Final = re.compile(r"(?:^|(?<=\s))@(\S*)$")
_COMMAND: Final = re.compile(r"^/(\S*)$")
_ARGUMENTS: Final = re.compile(r"^/(\S+) (.*)$")


class Suggestion(NamedTuple):
    """One possible completion."""

    text: str
    """What replaces the text from `start` to the cursor."""
    description: str = ""
    label: str = ""
    """What is shown of it, if not the text."""


class CompletionContext(NamedTuple):
    """What is being written."""

    kind: str
    """`file`, `command` or `arguments`; `text`: what an extension completes."""
    start: int
    """Where it begins in the line."""
    prefix: str
    command: str = ""
    """Whose arguments they are."""


def place_in(line: str, *, is_first: bool) -> CompletionContext | None:
    """Return what is being written at the end of a line up to the cursor; None: nothing that can be completed."""
    if is_first and (found := _COMMAND.search(line)):
        return CompletionContext("command", 0, found[1])
    if found := _FILE.search(line):
        return CompletionContext("file", found.start(), found[1])
    if is_first and (found := _ARGUMENTS.search(line)):
        return CompletionContext("arguments", found.start(2), found[2], found[1])
    return None


def suggest_commands(prefix: str, commands: Sequence[tuple[str, str]]) -> list[Suggestion]:
    """Return the commands that fit, those that begin so first."""
    wanted = prefix.lower()
    near = sorted(
        (not name.lower().startswith(wanted), place, name, description)
        for place, (name, description) in enumerate(commands)
        if wanted in name.lower()
    )
    return [Suggestion(f"/{name} ", description) for _, _, name, description in near[:MOST]]


def suggest_files(prefix: str, files: Iterable[str]) -> list[Suggestion]:
    """Return the files that fit, the best one first."""
    from pinnace_agent.search.project_files import fitting  # with the first completion of a file

    found = fitting(prefix, files, MOST)
    return [Suggestion(f"@{path} " if not path.endswith("/") else f"@{path}") for path in found]


def files_of(folder: str) -> list[str]:
    """Return the files below a folder, relative to it."""
    from pinnace_agent.search.project_files import project_files  # with the first completion of a file

    return project_files(folder)
