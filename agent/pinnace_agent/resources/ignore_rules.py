r"""Which files of a tree its `.gitignore`, `.ignore` and `.fdignore` leave out.

As git reads them: `#` begins a comment, `!` takes back, a slash at the end means folders only, one elsewhere ties the
pattern to the folder of its file; of several that fit, the last one of the nearest folder counts. A pattern that means
nothing is passed over. Reads those files and nothing else.
"""

import os
from typing import Final, NamedTuple

from pinnace_agent.files.text_file import TextFileError, read_beginning
from pinnace_agent.search.ignore_lines import Rule, Rules, parse_rule, verdict

_FILES: Final = (".gitignore", ".ignore", ".fdignore")
# A file of more is none that anybody wrote for such a folder.
_MAX_BYTES: Final = 64 * 1024


class IgnoreRules(NamedTuple):
    """The rules of a folder and of those above it."""

    folder: str = ""
    rules: Rules = ()
    above: "IgnoreRules | None" = None

    def entered(self, folder: str, names: frozenset[str]) -> "IgnoreRules":
        """Return the rules inside of a folder, which has these names in it."""
        rules: list[Rule] = []
        for name in _FILES:
            if name in names:
                rules += _read(os.path.join(folder, name))
        return IgnoreRules(folder, tuple(rules), self) if rules else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether a file or folder is left out. What is in a folder that is left out is not asked for."""
        scope: IgnoreRules | None = self
        while scope is not None:
            is_left_out = verdict(scope.rules, path[len(scope.folder) :], is_folder=is_folder)
            if is_left_out is not None:
                return is_left_out
            scope = scope.above
        return False


def _read(path: str) -> list[Rule]:
    try:
        text = read_beginning(path, _MAX_BYTES).text
    except TextFileError:
        return []
    rules = (parse_rule(line, has_braces=False) for line in text.splitlines())
    return [rule for rule in rules if rule is not None]
