r"""Which files of a tree its `.gitignore`, `.ignore` and `.fdignore` leave out.

As git reads them: `#` begins a comment, `!` takes back, a slash at the end means folders only, one elsewhere ties the
pattern to the folder of its file; of several that fit, the last one of the nearest folder counts. A pattern that means
nothing is passed over. Reads those files and nothing else.
"""

import os
from typing import Final, NamedTuple

from pinnace_agent.files.text_file import TextFileError, read_beginning
from pinnace_agent.search.glob_match import BadGlob, Glob

_FILES: Final = (".gitignore", ".ignore", ".fdignore")
# A file of more is none that anybody wrote for such a folder.
_MAX_BYTES: Final = 64 * 1024


class IgnoreRule(NamedTuple):
    """One line."""

    glob: Glob
    is_anchored: bool
    is_for_folders: bool
    is_exception: bool


class IgnoreRules(NamedTuple):
    """The rules of a folder and of those above it."""

    folder: str = ""
    rules: tuple[IgnoreRule, ...] = ()
    above: "IgnoreRules | None" = None

    def entered(self, folder: str, names: frozenset[str]) -> "IgnoreRules":
        """Return the rules inside of a folder, which has these names in it."""
        rules: list[IgnoreRule] = []
        for name in _FILES:
            if name in names:
                rules += _read(os.path.join(folder, name))
        return IgnoreRules(folder, tuple(rules), self) if rules else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether a file or folder is left out. What is in a folder that is left out is not asked for."""
        scope: IgnoreRules | None = self
        while scope is not None:
            below = path[len(scope.folder) :]
            for rule in reversed(scope.rules):
                if (is_folder or not rule.is_for_folders) and rule.glob.matches(below):
                    return not rule.is_exception
            scope = scope.above
        return False


def _read(path: str) -> list[IgnoreRule]:
    try:
        text = read_beginning(path, _MAX_BYTES).text
    except TextFileError:
        return []
    rules = (_rule(line) for line in text.splitlines())
    return [rule for rule in rules if rule is not None]


def _rule(line: str) -> IgnoreRule | None:
    line = line.rstrip(" ")
    if not line or line.startswith("#"):
        return None
    is_exception = line.startswith("!")
    pattern = line[1:] if is_exception else line
    is_for_folders = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    is_anchored = "/" in pattern
    # Braces mean nothing to git.
    pattern = pattern.replace("{", r"\{").replace("}", r"\}").replace(",", r"\,")
    if is_anchored:
        pattern = f"/{pattern.lstrip('/')}"
    if not pattern:
        return None
    try:
        glob = Glob(pattern, is_case_exact=True)
    except BadGlob:
        return None
    return IgnoreRule(glob, is_anchored, is_for_folders, is_exception)
