"""Lines of ignore files, and what several of them say about a path.

`#` begins a comment, `!` takes back, a slash at the end means folders only, one elsewhere ties the pattern to the
folder of its file. Pure. Must not know which files there are, nor which of them goes before others.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pinnace_agent.search.glob_match import BadGlob, Glob


class Rule(NamedTuple):
    """One line of an ignore file."""

    glob: Glob
    is_for_folders: bool
    is_exception: bool


Rules = Sequence[Rule]


def parse_rule(line: str, *, is_strict: bool = False, has_braces: bool = True) -> Rule | None:
    """Read a line of an ignore file; None: it says nothing. A pattern without meaning says nothing unless `is_strict`.

    Args:
        line: Without its line end.
        is_strict: Whether a pattern without meaning is an error.
        has_braces: Whether braces hold alternatives, as ripgrep and fd have it; for git they are characters.

    Raises:
        BadGlob: It has no meaning, and `is_strict`.
    """
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip()
    is_exception = line.startswith("!")
    pattern = line[1:] if is_exception else line
    is_anchored = pattern.startswith("/")
    is_for_folders = pattern.endswith("/")
    pattern = pattern.removesuffix("/").removeprefix("/")
    if not pattern:
        return None
    if not has_braces:
        pattern = pattern.replace("{", r"\{").replace("}", r"\}").replace(",", r"\,")
    if is_anchored or "/" in pattern:
        pattern = f"/{pattern}"
    try:
        return Rule(Glob(pattern, is_case_exact=True), is_for_folders, is_exception)
    except BadGlob:
        if is_strict:
            raise
        return None


def verdict(rules: Rules, path: str, *, is_folder: bool) -> bool | None:
    """Return what the last rule that fits a path says: whether it is left out; None: none fits."""
    for rule in reversed(rules):
        if (is_folder or not rule.is_for_folders) and rule.glob.matches(path):
            return not rule.is_exception
    return None
