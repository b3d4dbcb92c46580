"""The files of a project whose names complete what a user writes, and those that fit best."""

import os
from collections.abc import Iterable
from itertools import islice
from typing import Final

from pinnace_agent.search.ignore_files import IgnoreFiles, Overrides
from pinnace_agent.search.walk import walk

_MOST_FILES: Final = 20_000


def project_files(folder: str) -> list[str]:
    """Return the files below a folder, relative to it. Reads the names of all of them: call it in a thread.

    In a repository these are what git does not ignore, elsewhere what is not hidden. No git is asked: it would run
    programs that a repository names, and commands of the agent may have made that.
    """
    ignoring = IgnoreFiles(".ignore", os.environ, needs_repository=True)
    levels = (ignoring.level(folder), *ignoring.above(folder))
    # Patterns that take precedence over ignore files: what git never lists, and outside of a repository what is hidden.
    left_out = ["!.git"] if any(each.is_repository for each in levels) else ["!.*"]
    found = walk(folder, ignoring, Overrides(left_out), lambda _path, _error: None)
    return [each.path for each in islice((each for each in found if each.is_file), _MOST_FILES)]


def fitting(prefix: str, files: Iterable[str], most: int) -> list[str]:
    """Return the files that fit what is written: by their names, then by their paths, then by letters in this order."""
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
    return [path for _, _, path in sorted(ranked)[:most]]


def _has_letters(path: str, wanted: str) -> bool:
    letters = iter(path)
    return all(letter in letters for letter in wanted)
