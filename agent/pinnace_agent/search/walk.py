"""Walks a tree in the order of names, without ignored entries.

Links are not followed. A folder that can't be read is reported, and the walk continues. Memory does not grow with the
number of files, but with the entries of one folder.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pinnace_agent.search.ignore_files import FolderRules, IgnoreFiles, Overrides


class Entry(NamedTuple):
    """A file, folder or anything else in a tree."""

    path: str
    """Relative to the root that is walked."""
    is_folder: bool
    is_file: bool


def walk(
    root: str, ignoring: IgnoreFiles, overrides: Overrides, report: Callable[[str, OSError], None]
) -> Iterator[Entry]:
    """Yield every entry below a folder that is not ignored.

    Args:
        root: An absolute path.
        ignoring: The rules of ignore files.
        overrides: Globs that take precedence over them.
        report: Called for a folder that can't be read, with its path relative to the root.
    """
    root = os.path.realpath(root)
    walker = _Walk(root, ignoring, overrides, report)
    yield from walker.below("", (ignoring.level(root), *ignoring.above(root)))


class _Walk:
    def __init__(
        self, root: str, ignoring: IgnoreFiles, overrides: Overrides, report: Callable[[str, OSError], None]
    ) -> None:
        self._root = root
        self._ignoring = ignoring
        self._overrides = overrides
        self._report = report

    def below(self, folder: str, levels: Sequence[FolderRules]) -> Iterator[Entry]:
        # A stack of open folders instead of recursion, since trees may be deep.
        open_folders: list[Iterator[tuple[Entry, Sequence[FolderRules]]]] = [self._entries(folder, levels)]
        while open_folders:
            found = next(open_folders[-1], None)
            if found is None:
                open_folders.pop()
                continue
            entry, above = found
            yield entry
            if entry.is_folder:
                level = self._ignoring.level(os.path.join(self._root, entry.path))
                open_folders.append(self._entries(entry.path, (level, *above)))

    def _entries(self, folder: str, levels: Sequence[FolderRules]) -> Iterator[tuple[Entry, Sequence[FolderRules]]]:
        try:
            with os.scandir(os.path.join(self._root, folder)) as scan:
                found = sorted(
                    (each.name, each.is_dir(follow_symlinks=False), each.is_file(follow_symlinks=False))
                    for each in scan
                )
        except OSError as error:
            self._report(folder, error)
            return
        for name, is_folder, is_file in found:
            path = f"{folder}/{name}" if folder else name
            is_searched = self._overrides.decision(path, is_folder=is_folder)
            if is_searched is None:
                whole = f"{self._root.rstrip('/')}/{path}"
                is_searched = not self._ignoring.ignores(whole, levels, self._root, is_folder=is_folder)
            if is_searched:
                yield Entry(path, is_folder, is_file), levels
