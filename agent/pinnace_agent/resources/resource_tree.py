"""Which files below a folder may be prompt templates or skills.

Names are taken in their order; dot names and `node_modules` never, what ignore files leave out neither. Links are
followed; a folder that was seen under another name is not entered again, so loops end. Must not know what the files
hold.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from pinnace_agent.resources.ignore_rules import IgnoreRules
from pinnace_agent.resources.skills import SKILL_FILE

# Somebody's home by mistake, not a library of prompts; to look at so many takes a tenth of a second.
MAX_NAMES: Final = 20_000
# No one nests so deeply, and the walk is recursive.
MAX_DEPTH: Final = 64


class TooManyNames(Exception):
    """The tree holds more than `MAX_NAMES`."""


Enters = Callable[[str], bool]
"""Says whether a folder may be looked into: links lead anywhere."""


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

    @property
    def is_markdown(self) -> bool:
        return not self.is_folder and self.name.endswith(".md")


def template_files(root: str, *, is_recursive: bool, enters: Enters = _always) -> Iterator[FoundFile]:
    """Find Markdown files, of the folder itself or of all below it as well.

    Args:
        root: The folder.
        is_recursive: Whether those below it count.
        enters: Asked before a folder is looked into.

    Raises:
        TooManyNames: There is no end to it; what was found until then counts.
    """
    yield from _Walk(enters).templates(root, IgnoreRules(), 0 if is_recursive else MAX_DEPTH)


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

    def __init__(self, enters: Enters) -> None:
        self._enters = enters
        self._seen: set[tuple[int, int]] = set()
        self._names = 0

    def templates(self, folder: str, rules: IgnoreRules, depth: int) -> Iterator[FoundFile]:
        entries, rules = self._entries(folder, rules)
        for entry in entries:
            if entry.is_markdown:
                yield FoundFile(entry.path)
            elif entry.is_folder and depth < MAX_DEPTH:
                yield from self.templates(entry.path, rules, depth + 1)

    def skills(self, folder: str, rules: IgnoreRules, depth: int, *, takes_files: bool) -> Iterator[FoundFile]:
        entries, rules = self._entries(folder, rules)
        declared = next((each for each in entries if each.name == SKILL_FILE and not each.is_folder), None)
        if declared is not None:
            yield FoundFile(declared.path)
            return
        for entry in entries:
            if entry.is_markdown and takes_files:
                yield FoundFile(entry.path, is_declared=False)
            elif entry.is_folder and depth < MAX_DEPTH:
                yield from self.skills(entry.path, rules, depth + 1, takes_files=False)

    def _entries(self, folder: str, rules: IgnoreRules) -> tuple[list[_Entry], IgnoreRules]:
        """List what counts in a folder, and the rules for it; nothing if it was listed before or can't be."""
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
                if is_folder or (found.name.endswith(".md") and found.is_file()):
                    entries.append(_Entry(found.name, found.path, is_folder))
        return frozenset(names), entries
