"""What may stand where the cursor is: files after `@`, commands after `/` at the beginning, and their arguments.

Pure but for `files_of`, which reads the names below a folder. Must not know widgets.
"""

import os
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

MOST: Final = 8
_MOST_FILES: Final = 20_000
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
    """`file`, `command` or `arguments`."""
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
    """Return the files that fit: by their names, then by their paths, then by letters in this order."""
    wanted = prefix.lower()
    ranked: list[tuple[int, int, str]] = []
    for path in files:
        low = path.lower()
        name = low.rstrip("/").rpartition("/")[2]
        if low.startswith(wanted) or name.startswith(wanted):
            rank = 0
        elif wanted in name:
            rank = 1
        elif wanted in low:
            rank = 2
        elif _has_letters(low, wanted):
            rank = 3
        else:
            continue
        ranked.append((rank, len(path), path))
    return [Suggestion(f"@{path} " if not path.endswith("/") else f"@{path}") for _, _, path in sorted(ranked)[:MOST]]


def _has_letters(path: str, wanted: str) -> bool:
    letters = iter(path)
    return all(letter in letters for letter in wanted)


def files_of(folder: str) -> list[str]:
    """Return the files below a folder, relative to it.

    In a repository these are what git does not ignore, elsewhere what is not hidden. No git is asked: it would run
    programs that a repository names, and commands of the agent may have made that.
    """
    from pinnace_agent.search.ignore_files import IgnoreFiles, Overrides  # with the first completion of a file
    from pinnace_agent.search.walk import walk

    ignoring = IgnoreFiles(".ignore", os.environ, needs_repository=True)
    levels = (ignoring.level(folder), *ignoring.above(folder))
    # Patterns that take precedence over ignore files: what git never lists, and outside of a repository what is hidden.
    left_out = ["!.git"] if any(each.is_repository for each in levels) else ["!.*"]
    found = walk(folder, ignoring, Overrides(left_out), lambda _path, _error: None)
    return [each.path for each in islice((each for each in found if each.is_file), _MOST_FILES)]
