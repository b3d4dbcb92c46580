"""What has become of something protected while a command ran, and what a command has made that can't be protected.

A mount ends when a process outside replaces its mount point, also by an innocent `git config`: then the command could
write there. So the identity of each protected path, and a digest of the files that are small, are compared before and
after. And a repository gets another configuration by files that can't be protected while they are absent: those are
removed, as far as that is possible; while one is there nothing runs (`protections`). Has no knowledge of mechanisms.
Blocking: some microseconds for each path.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple

from pinnace_agent.files.protected import PROJECT_FOLDERS
from pinnace_agent.sandbox.bubblewrap import Layout
from pinnace_agent.sandbox.protections import Protections

MOST_DIGEST_BYTES: Final = 64 * 1024
"""Of a larger file its size and times are compared alone."""
MOST_ENTRIES: Final = 200
"""Of the files in one protected folder, and in those below it; further ones are not compared."""

# Folders whose files are read by git or by agents, and changed by neither.
_COMPARED_WITHIN: Final = frozenset({*PROJECT_FOLDERS, "hooks"})


class PathFingerprint(NamedTuple):
    """What identifies a protected path, and what it holds."""

    identity: tuple[int, int]
    """Changes when something else is at the path, so that a mount there has ended."""
    content: object
    """What it holds, and when it was changed: the number of a file that was removed may be that of the next one."""


Marks = Mapping[str, PathFingerprint | None]
"""By path; None: nothing is there."""


def marks_of(layout: Layout) -> Marks:
    """Return the marks of all that is protected."""
    # Session files may be in .pi: this program writes them meanwhile.
    apart = frozenset(layout.protected)
    return {path: _mark(path, apart) for path in (*layout.protected, *layout.pinned)}


class WitnessView(NamedTuple):
    """What a program sees from its start on; a value to compare."""

    layout: Layout
    places: Mapping[str, tuple[int, int] | None]
    """What is at each protected path: where something else is, the mount of a program that runs has ended."""


def view_of(layout: Layout) -> WitnessView:
    """Return what a program that is started now sees."""
    return WitnessView(layout, {path: _place(path) for path in (*layout.protected, *layout.pinned)})


def _place(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def news_text(new: Sequence[str]) -> str | None:
    """Return what is said of paths that have come and are protected from now on, for the user; None: there are none."""
    if not new:
        return None
    return (
        f"{', '.join(new)}: came since the start, and is used without being requested: look at it before you work "
        "there; commands can't change it from now on"
    )


class Witness:
    """What is protected, before a command and after it."""

    def __init__(self, layout: Layout, protections: Protections) -> None:
        """Note what is there; `layout` is what the command sees."""
        self._layout = layout
        self._protections = protections
        self._before = marks_of(layout)

    def problem(self) -> str | None:
        """Return what has changed, for the user; None: nothing.

        Removes what must not have been made. The next program would be refused otherwise, so it is
        said whether it is gone.
        """
        found: list[str] = []
        for each in self._layout.forbidden:
            if each.is_there():
                with suppress(OSError):
                    os.unlink(each.path)
                is_gone = not os.path.lexists(each.path)
                end = "removed" if is_gone else "it can't be removed, and nothing runs before it is"
                found.append(f"{each.path} was made while a command ran, and {each.effect}: {end}")
        after = marks_of(self._layout)
        replaced = [path for path, mark in self._before.items() if _identity_of(after[path]) != _identity_of(mark)]
        if replaced:
            found.append(f"{', '.join(replaced)}: replaced while a command ran, which could write there from then on")
        changed = [path for path, mark in self._before.items() if path not in replaced and after[path] != mark]
        if changed:
            found.append(f"{', '.join(changed)}: changed while a command ran")
        if news := news_text(self._protections.news()):
            found.append(news)
        return "; ".join(found) or None


def _identity_of(mark: PathFingerprint | None) -> tuple[int, int] | None:
    return None if mark is None else mark.identity


def _mark(path: str, apart: Collection[str]) -> PathFingerprint | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return PathFingerprint((status.st_dev, status.st_ino), (status.st_ctime_ns, _content(path, status)))
    within = tuple(_files(path, apart)) if os.path.basename(path) in _COMPARED_WITHIN else ()
    return PathFingerprint((status.st_dev, status.st_ino), within)


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
