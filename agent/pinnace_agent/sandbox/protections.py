"""What this process protects from commands: decided when it is first seen, and kept until the process ends.

A command can change the files from which one reads what is to be protected: it moves the `HEAD` of a submodule away,
and there is no submodule any more. So what was protected once stays so, whatever the disk says later: what is still
there is protected, what is gone can't be made again, and what has become something else (a link, a file in the place of
a folder) stops every further program, since nothing can be said about it.

A few files that would turn a repository into another can't be kept from being made, since git writes in the folder that
they belong to. Whether they are there is compared with the first look, before each program and after it. Who has made
them does not matter: a command, the tool `write`, a client, an MCP server. Blocking; for any thread.
"""

import os
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final

from pinnace_agent.files.protected import STARTUP_OF_PROJECT
from pinnace_agent.sandbox.bubblewrap import ForbiddenFile
from pinnace_agent.sandbox.repositories import MOST_FOLDERS, Finder, ProtectedPaths, Unprotectable, joined

_KINDS: Final = {stat.S_IFDIR: "a folder", stat.S_IFREG: "a file", stat.S_IFLNK: "a link"}


class Protections:
    """What is protected in folders that commands can write."""

    def __init__(self) -> None:
        """Protect nothing yet."""
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self.came: Callable[[Sequence[str]], None] = _ignore
        """Called with what has come since the first look, once for each path; any thread."""

    @property
    def limits(self) -> tuple[str, ...]:
        """What is not looked at, for reports."""
        with self._lock:
            cut = [root for root, kept in self._kept.items() if kept.finder.is_cut]
        return tuple(
            f"repositories below the first {MOST_FOLDERS} folders of {each} are not looked for" for each in cut
        )

    def news(self) -> tuple[str, ...]:
        """Look again, and return what is protected since the last call, and was not there at the first look."""
        with self._lock:
            for kept in self._kept.values():
                kept.look()
        return self.unreported()

    def unreported(self) -> tuple[str, ...]:
        """Return the same as `news`, as of the last look: a look is taken before each program."""
        with self._lock:
            new = tuple(path for kept in self._kept.values() for path in kept.unreported())
        if new:
            self.came(new)
        return new

    def find(
        self, roots: Sequence[str], granted: Collection[str] = (), *, new_repository_in: str | None = None
    ) -> ProtectedPaths:
        """Return what is protected now.

        Args:
            roots: The folders that commands can write, resolved.
            granted: Paths that the user's settings make writable by name: these are not protected.
            new_repository_in: A folder in which commands may make a repository.

        Raises:
            Unprotectable: Something can't be protected, or has become something else.
        """
        with self._lock:
            parts = [self._in(root, allows_new_repository=root == new_repository_in) for root in roots]
        return _without(joined(parts), granted)

    def _in(self, root: str, *, allows_new_repository: bool) -> ProtectedPaths:
        if (kept := self._kept.get(root)) is None:
            kept = _Kept(root)
            first = kept.finder.find(allows_new_repository=allows_new_repository)
            kept.accept(first)
            self._kept[root] = kept
            return first._replace(forbidden=kept.still_forbidden(first.forbidden))
        return kept.with_what_is_new(kept.finder.find(allows_new_repository=allows_new_repository))


class _Kept:
    """What was found in one folder, ever."""

    def __init__(self, root: str) -> None:
        self.finder = Finder(root)
        self._kinds: dict[str, int] = {}
        self._pinned: dict[str, None] = {}
        self._forbidden: dict[ForbiddenFile, None] = {}
        self._usual: set[ForbiddenFile] = set()
        self._reported: set[str] = set()

    def accept(self, first: ProtectedPaths) -> None:
        """Take what was there before any program has run."""
        self._usual = {each for each in first.forbidden if each.is_there()}
        self._add(first)
        self._reported.update(self._kinds)

    def look(self) -> None:
        """Look again."""
        with suppress(Unprotectable):  # the next program is refused for it, with its text
            self._add(self.finder.find(allows_new_repository=True))

    def unreported(self) -> list[str]:
        """Return what has come since the last time."""
        # An empty one is the place of what the sandbox puts there.
        new = [path for path in self._kinds if path not in self._reported and not _is_empty_file(path)]
        self._reported.update(new)
        return new

    def with_what_is_new(self, now: ProtectedPaths) -> ProtectedPaths:
        """Keep what was found now, too, and return what all of it comes to.

        Raises:
            Unprotectable: Something has become something else, or what must not be there is.
        """
        self._add(now)
        protected: list[str] = []
        absent = list(now.absent)
        absent_files = list(now.absent_files)
        for path, kind in self._kinds.items():
            found = _kind_at(path)
            if found == kind:
                protected.append(path)
            elif found is not None:
                raise Unprotectable(
                    f"{path} was {_KINDS.get(kind, 'something else')} when it was first protected, and is "
                    f"{_KINDS.get(found, 'something else')} now: put back what was there, or start the agent again"
                )
            elif os.path.basename(path) in STARTUP_OF_PROJECT:
                continue  # no command could remove it; the user, who did, may want none
            elif os.path.isdir(os.path.dirname(path)):
                (absent if kind == stat.S_IFDIR else absent_files).append(path)
        pinned = [path for path in self._pinned if _kind_at(path) == stat.S_IFDIR]
        forbidden = self.still_forbidden(self._forbidden)
        if there := [each for each in forbidden if each.is_there()]:
            raise Unprotectable(
                f"{there[0].path} was not there at the start, and {there[0].effect}: remove it; if it is yours, start "
                "the agent again"
            )
        return ProtectedPaths(tuple(pinned), tuple(protected), tuple(absent), tuple(absent_files), forbidden)

    def still_forbidden(self, forbidden: Iterable[ForbiddenFile]) -> tuple[ForbiddenFile, ...]:
        """Return what was not there at the first look."""
        return tuple(each for each in forbidden if each not in self._usual)

    def _add(self, found: ProtectedPaths) -> None:
        for path in found.protected:
            kind = _kind_at(path)
            if kind is not None:
                self._kinds.setdefault(path, kind)
        self._pinned.update(dict.fromkeys(found.pinned))
        self._forbidden.update(dict.fromkeys(found.forbidden))


def _ignore(_paths: Sequence[str]) -> None:
    """Let nothing follow from what has come."""


def _kind_at(path: str) -> int | None:
    """Return what kind of thing is at a path; None: nothing.

    Raises:
        Unprotectable: It can't be looked at, since a folder on the way was closed: a command may open that again.
    """
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unprotectable(
            f"{path} is protected, and can't be looked at ({error.strerror}): give back the rights to its folders"
        ) from None


def _is_empty_file(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def _without(found: ProtectedPaths, granted: Collection[str]) -> ProtectedPaths:
    def rest(paths: Sequence[str]) -> tuple[str, ...]:
        return tuple(each for each in paths if each not in granted)

    return found._replace(
        protected=rest(found.protected), absent=rest(found.absent), absent_files=rest(found.absent_files)
    )
