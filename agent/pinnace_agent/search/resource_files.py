"""Finds the files below a folder that may be prompt templates, skills or themes; and names the files of extensions.

Entries are visited in the order of their names, without dot names, `node_modules`, and what `.gitignore`, `.ignore` and
`.fdignore` leave out. Links are followed; a folder that was visited under another name is not entered again, so loops
end. Reads those ignore files and no others.

Ignore files are read as git reads them, with the line parser of `search.ignore_files`; several files of one folder
count as one.
"""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.files.text_file import TextFileError, read_beginning

if TYPE_CHECKING:  # loaded with the first folder that is searched
    from pinnace_agent.search.ignore_files import IgnoreRule, Rules

SKILL_FILE: Final = "SKILL.md"
ENTRY_NAMES: Final = ("extension.py", "__init__.py")
"""The file of an extension in Python in its folder."""
FOUND_SCRIPTS: Final = (".ts", ".js")
"""Suffixes of what is an extension in TypeScript or JavaScript by its place, as in pi."""
INDEX_NAMES: Final = ("index.ts", "index.js")
"""Its file in a folder."""
# More is a home directory by mistake, not a library of prompts; listing so many takes a tenth of a second.
MAX_NAMES: Final = 20_000
# The walk is recursive.
MAX_DEPTH: Final = 64
_FILES: Final = (".gitignore", ".ignore", ".fdignore")
# An ignore file that is larger was not written by hand; the rest of it is not read.
_MAX_BYTES: Final = 64 * 1024


class IgnoreRules(NamedTuple):
    """The rules of a folder and of those above it."""

    folder: str = ""
    rules: "Rules" = ()
    above: "IgnoreRules | None" = None

    def entered(self, folder: str, names: frozenset[str]) -> "IgnoreRules":
        """Return the rules inside of a folder, which has these names in it."""
        rules: list[IgnoreRule] = []
        for name in _FILES:
            if name in names:
                rules += _read(os.path.join(folder, name))
        return IgnoreRules(folder, tuple(rules), self) if rules else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a file or folder is left out. Never called for what lies in a folder that is left out."""
        from pinnace_agent.search.ignore_files import last_match

        scope: IgnoreRules | None = self
        while scope is not None:
            is_left_out = last_match(scope.rules, path[len(scope.folder) :], is_folder=is_folder)
            if is_left_out is not None:
                return is_left_out
            scope = scope.above
        return False


def _read(path: str) -> "list[IgnoreRule]":
    try:
        text = read_beginning(path, _MAX_BYTES).text
    except TextFileError:
        return []
    from pinnace_agent.search.ignore_files import parse_rule

    rules = (parse_rule(line, has_braces=False) for line in text.splitlines())
    return [rule for rule in rules if rule is not None]


class TooManyNames(Exception):
    """The tree holds more than `MAX_NAMES`."""


Enters = Callable[[str], bool]
"""Returns whether a folder may be entered: links may lead anywhere."""


def _always(_folder: str) -> bool:
    return True


class FoundFile(NamedTuple):
    """A file that may be a resource."""

    path: str
    is_declared: bool = True
    """Whether its place or name says that it is one."""


class _Entry(NamedTuple):
    name: str
    path: str
    is_folder: bool


def template_files(
    root: str, *, is_recursive: bool, enters: Enters = _always, suffix: str = ".md"
) -> Iterator[FoundFile]:
    """Find Markdown files in the folder, and optionally in all folders below it.

    Args:
        root: The folder.
        is_recursive: Whether the folders below it are searched too.
        enters: Called before a folder is entered.
        suffix: That of the files, if they are others.

    Raises:
        TooManyNames: The limit is reached; the files yielded until then count.
    """
    yield from _Walk(enters, suffix).templates(root, IgnoreRules(), 0 if is_recursive else MAX_DEPTH)


def skill_files(root: str, *, takes_files: bool, enters: Enters = _always) -> Iterator[FoundFile]:
    """Find the `SKILL.md` of each folder, below which nothing else counts.

    Args:
        root: The folder.
        takes_files: Whether Markdown files in `root` itself may be skills, too.
        enters: As for templates.

    Raises:
        TooManyNames: As for templates.
    """
    yield from _Walk(enters).skills(root, IgnoreRules(), 0, takes_files=takes_files)


class _Walk:
    """One search."""

    def __init__(self, enters: Enters, suffix: str = ".md") -> None:
        self._enters = enters
        self._suffix = suffix
        self._seen: set[tuple[int, int]] = set()
        self._names = 0

    def templates(self, folder: str, rules: IgnoreRules, depth: int) -> Iterator[FoundFile]:
        entries, rules = self._entries(folder, rules)
        for entry in entries:
            if not entry.is_folder:
                yield FoundFile(entry.path)
            elif depth < MAX_DEPTH:
                yield from self.templates(entry.path, rules, depth + 1)

    def skills(self, folder: str, rules: IgnoreRules, depth: int, *, takes_files: bool) -> Iterator[FoundFile]:
        entries, rules = self._entries(folder, rules)
        declared = next((each for each in entries if each.name == SKILL_FILE and not each.is_folder), None)
        if declared is not None:
            yield FoundFile(declared.path)
            return
        for entry in entries:
            if not entry.is_folder and takes_files:
                yield FoundFile(entry.path, is_declared=False)
            elif entry.is_folder and depth < MAX_DEPTH:
                yield from self.skills(entry.path, rules, depth + 1, takes_files=False)

    def _entries(self, folder: str, rules: IgnoreRules) -> tuple[list[_Entry], IgnoreRules]:
        """List the entries of a folder that count, and its rules; none if it was listed before or can't be listed."""
        try:
            status = os.stat(folder)
            identity = status.st_dev, status.st_ino
            if identity in self._seen:
                return [], rules
            self._seen.add(identity)
            if not self._enters(folder):
                return [], rules
            names, entries = self._listed(folder)
        except (OSError, ValueError):
            return [], rules
        rules = rules.entered(folder, names)
        kept = [each for each in entries if not rules.ignores(each.path, is_folder=each.is_folder)]
        return sorted(kept), rules

    def _listed(self, folder: str) -> tuple[frozenset[str], list[_Entry]]:
        names: set[str] = set()
        entries: list[_Entry] = []
        with os.scandir(folder) as listing:
            for found in listing:
                self._names += 1
                if self._names > MAX_NAMES:
                    raise TooManyNames
                names.add(found.name)
                if found.name.startswith(".") or found.name == "node_modules":
                    continue
                is_folder = found.is_dir()
                if is_folder or (found.name.endswith(self._suffix) and found.is_file()):
                    entries.append(_Entry(found.name, found.path, is_folder))
        return frozenset(names), entries
