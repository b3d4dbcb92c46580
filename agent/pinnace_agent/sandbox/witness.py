"""What has become of something protected while a command ran, and what a command has made that can't be protected.

A mount ends when a process outside replaces its mount point, also by an innocent `git config`: then the command could
write there. So the identity of each protected path, and a digest of the files that are small, are compared before and
after. And a repository gets another configuration by files that can't be protected while they are absent: those are
removed. Has no knowledge of mechanisms. Blocking: some microseconds for each path.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple

from pinnace_agent.sandbox.bubblewrap import Layout
from pinnace_agent.sandbox.layout import PROJECT_FOLDERS

MOST_DIGEST_BYTES: Final = 64 * 1024
"""Of a larger file its size and times are compared alone."""
MOST_ENTRIES: Final = 200
"""Of the files in one protected folder, and in those below it; further ones are not compared."""

_COMMON_FOLDER: Final = "commondir"
_HEAD: Final = "HEAD"
# Folders whose files are read by git or by agents, and changed by neither.
_COMPARED_WITHIN: Final = frozenset({*PROJECT_FOLDERS, "hooks"})


class Mark(NamedTuple):
    """What identifies a protected path, and what it holds."""

    identity: tuple[int, int]
    """Changes when something else is at the path, so that a mount there has ended."""
    content: object
    """What it holds, and when it was changed: the number of a file that was removed may be that of the next one."""


Marks = Mapping[str, Mark | None]
"""By path; None: nothing is there."""


def marks_of(layout: Layout) -> Marks:
    """Return the marks of all that is protected."""
    # Session files may be in .pi: this program writes them meanwhile.
    apart = frozenset(layout.protected)
    return {path: _mark(path, apart) for path in (*layout.protected, *layout.pinned)}


class Witness:
    """What is protected, before a command and after it."""

    def __init__(self, layout: Layout, repositories: Sequence[str]) -> None:
        """Note what is there.

        Args:
            layout: What the command sees.
            repositories: The git folders that it can write.
        """
        self._layout = layout
        self._before = marks_of(layout)
        # git can not be forced to ignore it.
        self._absent = [path for each in repositories if not os.path.lexists(path := f"{each}/{_COMMON_FOLDER}")]
        # If a command makes .git invalid, git takes the folder around it for a repository if it looks like one.
        roots = [os.path.dirname(each) for each in layout.pinned if os.path.basename(each) == ".git"]
        self._heads = [path for each in roots if not os.path.lexists(path := f"{each}/{_HEAD}")]

    def problem(self) -> str | None:
        """Return what has changed, for the user; None: nothing. Removes what would give git another configuration."""
        found: list[str] = []
        for path in self._absent:
            if os.path.lexists(path):
                with suppress(OSError):
                    os.unlink(path)
                found.append(f"{path} was created by a command, and would let git use another configuration: removed")
        for path in self._heads:
            if os.path.lexists(path) and _is_repository_around(os.path.dirname(path)):
                with suppress(OSError):
                    os.unlink(path)
                found.append(f"{path} was created by a command, and would make its folder a repository: removed")
        after = marks_of(self._layout)
        replaced = [path for path, mark in self._before.items() if _identity_of(after[path]) != _identity_of(mark)]
        if replaced:
            found.append(f"{', '.join(replaced)}: replaced while a command ran, which could write there from then on")
        changed = [path for path, mark in self._before.items() if path not in replaced and after[path] != mark]
        if changed:
            found.append(f"{', '.join(changed)}: changed while a command ran")
        return "; ".join(found) or None


def _identity_of(mark: Mark | None) -> tuple[int, int] | None:
    return None if mark is None else mark.identity


def _is_repository_around(folder: str) -> bool:
    """Return whether a folder with a HEAD has what else makes it a repository."""
    return os.path.isdir(f"{folder}/objects") or os.path.lexists(f"{folder}/{_COMMON_FOLDER}")


def _mark(path: str, apart: Collection[str]) -> Mark | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return Mark((status.st_dev, status.st_ino), (status.st_ctime_ns, _content(path, status)))
    within = tuple(_files(path, apart)) if os.path.basename(path) in _COMPARED_WITHIN else ()
    return Mark((status.st_dev, status.st_ino), within)


def _content(path: str, status: os.stat_result) -> object:
    if status.st_size <= MOST_DIGEST_BYTES and stat.S_ISREG(status.st_mode):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                return blake2b(os.read(descriptor, MOST_DIGEST_BYTES + 1), digest_size=16).digest()
            finally:
                os.close(descriptor)
    return status.st_size, status.st_mtime_ns


def _files(folder: str, apart: Collection[str]) -> Iterator[tuple[object, ...]]:
    """Yield what identifies the files in a folder and below, but for `apart`, in an order that is always the same."""
    count, left = 0, [folder]
    while left:
        try:
            entries = sorted(os.scandir(left.pop()), key=lambda each: each.name)
        except OSError:
            continue
        for entry in entries:
            if (count := count + 1) > MOST_ENTRIES:
                return
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    left += () if entry.path in apart else (entry.path,)
                else:
                    yield entry.path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
