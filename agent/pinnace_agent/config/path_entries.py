"""The entries of `extensions`, `skills`, `prompts` and `themes` in a settings.json: what they name and leave out.

A plain entry names a file or a folder. An entry with `*` or `?` chooses among the files that plain entries name. The
others also apply to what is found in the usual folders: `!glob` leaves out, `+path` takes back in, `-path` leaves out
for good. All are relative to the folder of the settings file. A glob may match a name alone, and the folder of a
`SKILL.md`. Decides on paths only; reads no files.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pinnace_agent.files.paths import expand_home
from pinnace_agent.search.glob_match import BadGlob, Glob
from pinnace_agent.search.resource_files import ENTRY_NAMES, SKILL_FILE

_WILD: Final = frozenset("*?")
FOLDER_FILES: Final = frozenset({SKILL_FILE, *ENTRY_NAMES})
"""Files that represent the folder in which they are: of skills, and of extensions."""


class PathEntries:
    """The entries of one settings file for one kind of resource."""

    def __init__(self, entries: Sequence[str], folder: str, env: Mapping[str, str]) -> None:
        """Parse entries; `problems` lists those without a meaning."""
        self._folder = folder
        self.problems: list[str] = []
        self.paths: list[str] = []
        """The paths of plain entries, absolute."""
        self._chosen: list[Callable[[str], bool]] = []
        self._left_out: list[Callable[[str], bool]] = []
        self._taken: set[str] = set()
        self._dropped: set[str] = set()
        for entry in entries:
            self._read(entry, env)
        if self._chosen and not self.paths:
            self.problems.append("a pattern alone names nothing: it chooses among what other entries name")

    def keeps_found(self, path: str) -> bool:
        """Return whether a file of a usual folder is used."""
        names = _names(path)
        is_kept = not any(fits(path) for fits in self._left_out) or not self._taken.isdisjoint(names)
        return is_kept and self._dropped.isdisjoint(names)

    def keeps_named(self, path: str) -> bool:
        """Return whether a file that a plain entry names is used."""
        is_chosen = not self._chosen or any(fits(path) for fits in self._chosen)
        names = _names(path)
        return (is_chosen or not self._taken.isdisjoint(names)) and self.keeps_found(path)

    def _read(self, entry: str, env: Mapping[str, str]) -> None:
        sign, rest = entry[:1], entry[1:]
        match sign:
            case "!":
                self._add_glob(self._left_out, rest)
            case "+":
                self._taken.add(self._absolute(rest, env))
            case "-":
                self._dropped.add(self._absolute(rest, env))
            case _ if not _WILD.isdisjoint(entry):
                self._add_glob(self._chosen, entry)
            case _ if entry.strip():
                self.paths.append(self._absolute(entry, env))
            case _:
                pass

    def _absolute(self, path: str, env: Mapping[str, str]) -> str:
        return os.path.normpath(os.path.join(self._folder, expand_home(path.strip(), env)))

    def _add_glob(self, globs: list[Callable[[str], bool]], pattern: str) -> None:
        try:
            name = Glob(pattern, is_case_exact=True)
            # Tied to the folder, unlike a glob for searching.
            whole = Glob(f"/{pattern.lstrip('/')}", is_case_exact=True)
        except BadGlob:
            self.problems.append("a pattern is damaged and left out")
            return

        def fits(path: str) -> bool:
            for each in _names(path):
                relative = os.path.relpath(each, self._folder)
                below = "" if relative.startswith("..") else f"/{relative}"
                if (below and whole.matches(below)) or whole.matches(each):
                    return True
                if not name.has_folders and name.matches(os.path.basename(each)):
                    return True
            return False

        globs.append(fits)


def _names(path: str) -> tuple[str, ...]:
    """Return the paths that a pattern may match for a file."""
    folder, name = os.path.split(path)
    return (path, folder) if name in FOLDER_FILES else (path,)
