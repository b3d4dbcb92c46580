"""Finds what in a folder that commands can write is to be protected from them: git's files, agents' and programs' own.

Protected is what runs, or grants rights, without being requested: the configuration and the hooks of repositories,
wherever they are below the folder, the folders that configure agents, and files that editors and other programs read by
themselves (`STARTUP_OF_PROJECT`). Not what a person runs on purpose: build files, tests, environments.

Says what is there at this moment; that it stays protected is the business of `protections`. A file that a command has
made is read without waiting for it, and as far as it can be understood. Blocking.
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from pinnace_agent.files.protected import PROJECT_FOLDERS, STARTUP_OF_PROJECT, is_inside
from pinnace_agent.files.regular_file import NotRegular, open_regular
from pinnace_agent.sandbox.bubblewrap import ForbiddenFile

MOST_MODULES: Final = 100
"""Of a repository with more submodules their git folders are read-only as a whole."""
MOST_FOLDERS: Final = 2000
"""Looked into below one folder; deeper ones beyond that number are not."""
_MOST_SCANNED: Final = 5000
_MOST_BYTES: Final = 1024 * 1024

# Nothing in them runs by itself where a program enters them, and they are large.
_NOT_ENTERED: Final = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".git", ".hg"})
# A folder that was changed so shortly before may change again without another time.
_RECENT_NS: Final = 50_000_000

_GIT: Final = ".git"
_HG: Final = ".hg"
_COMMON_FOLDER: Final = "commondir"
_OTHER_CONFIGURATION: Final = "would let git use another configuration"
_OF_GIT_FOLDERS: Final = ("config", "hooks", "config.worktree", "info/attributes", _COMMON_FOLDER)
_OF_WORKTREES: Final = (_COMMON_FOLDER, "gitdir", "config.worktree")


class Unprotectable(OSError):
    """Something can't be protected or does not exist; nothing may run. The text is for the user."""


class ProtectedPaths(NamedTuple):
    """What of a folder is protected, and how. All paths are absolute."""

    pinned: tuple[str, ...] = ()
    """Folders that can be written, and not renamed."""
    protected: tuple[str, ...] = ()
    """Files and folders that exist and can't be written."""
    absent: tuple[str, ...] = ()
    """Folders that do not exist and can't be made."""
    absent_files: tuple[str, ...] = ()
    """Files that do not exist and can't be made."""
    forbidden: tuple[ForbiddenFile, ...] = ()
    """Files that no mount can keep from being made."""


def joined(parts: Iterable[ProtectedPaths]) -> ProtectedPaths:
    """Return several findings as one, each path once."""
    listed = list(parts)
    return ProtectedPaths(
        tuple(dict.fromkeys(path for each in listed for path in each.pinned)),
        tuple(dict.fromkeys(path for each in listed for path in each.protected)),
        tuple(dict.fromkeys(path for each in listed for path in each.absent)),
        tuple(dict.fromkeys(path for each in listed for path in each.absent_files)),
        tuple(dict.fromkeys(item for each in listed for item in each.forbidden)),
    )


def is_git_folder(path: str) -> bool:
    """Return whether git takes a folder for one of its own."""
    return os.path.isfile(f"{path}/HEAD") and (
        os.path.isdir(f"{path}/objects") or os.path.lexists(f"{path}/{_COMMON_FOLDER}")
    )


class Finder:
    """Looks below one folder, and again only where something has changed since."""

    def __init__(self, root: str) -> None:
        """Look at nothing yet; `root` is resolved."""
        self._root = root
        self._seen: dict[str, _Folder] = {}
        self.is_cut = False
        """Whether there are more folders than are looked into."""

    def find(self, *, allows_new_repository: bool = False) -> ProtectedPaths:
        """Return what is to be protected now.

        Args:
            allows_new_repository: Whether commands may make a repository of the folder itself.

        Raises:
            Unprotectable: Something is a link, which a command could replace.
        """
        root = self._root
        parts = [self._at_root(allows_new_repository)]
        for folder, names in self._folders():
            is_root = folder == root
            protected = [f"{folder}/{name}" for name in names if name not in (_GIT, _HG, *PROJECT_FOLDERS)]
            # Not a matter of this folder's own time.
            if _HG in names and os.path.lexists(f"{folder}/{_HG}/hgrc"):
                protected.append(f"{folder}/{_HG}/hgrc")
            for name in PROJECT_FOLDERS:
                if name in names and not is_root and not _is_nothing(f"{folder}/{name}"):
                    protected.append(f"{folder}/{name}")
            parts.append(ProtectedPaths(protected=tuple(path for path in protected if not os.path.islink(path))))
            if not is_root and _GIT in names and not _is_nothing(f"{folder}/{_GIT}"):
                parts.append(self._repository(folder))
        return joined(parts)

    def _at_root(self, allows_new_repository: bool) -> ProtectedPaths:
        root = self._root
        present: list[str] = []
        absent: list[str] = []
        for name in PROJECT_FOLDERS:
            _refuse_link(f"{root}/{name}")
            (absent if _is_nothing(f"{root}/{name}") else present).append(f"{root}/{name}")
        own = ProtectedPaths(protected=tuple(present), absent=tuple(absent))
        _refuse_link(f"{root}/{_GIT}")
        has_git = not _is_nothing(f"{root}/{_GIT}")
        if not has_git and is_git_folder(root):
            return joined([own, _git_folder(root)])
        head = ForbiddenFile(f"{root}/HEAD", "would make its folder a repository", is_around=True)
        own = own._replace(forbidden=(head,))
        if has_git:
            submodules = (self._repository(f"{root}/{each}") for each in self._submodules())
            return joined([own, self._repository(root), *submodules])
        return own if allows_new_repository else own._replace(absent=(*own.absent, f"{root}/{_GIT}"))

    def _repository(self, folder: str) -> ProtectedPaths:
        """Return what is protected of the repository whose work tree a folder is."""
        git = f"{folder}/{_GIT}"
        _refuse_link(git)
        if os.path.isdir(git):
            return joined([ProtectedPaths(pinned=(git,)), _git_folder(git)])
        parts = [ProtectedPaths(protected=(git,) if os.path.lexists(git) else ())]
        # The file of a worktree, of a submodule, or of a repository that is kept beside its work tree.
        named = _named_in(git, b"gitdir:", folder)
        if named is not None and is_inside(named, self._root) and is_git_folder(named):
            common = _named_in(f"{named}/{_COMMON_FOLDER}", b"", named)
            parts.append(_git_folder(named) if common is None else _worktree(named))
            if common is not None and is_inside(common, self._root) and is_git_folder(common):
                parts.append(_git_folder(common))
        return joined(parts)

    def _submodules(self) -> Iterator[str]:
        """Yield the folders that `.gitmodules` names, as far as git would enter them."""
        for line in _read(f"{self._root}/.gitmodules").splitlines():
            name, _, value = line.partition(b"=")
            path = os.fsdecode(value.strip().strip(b'"'))
            if name.strip().lower() != b"path" or not path or path.startswith("/") or "\0" in path:
                continue
            folder = f"{self._root}/{path}"
            is_usual = os.path.normpath(folder) == os.path.realpath(folder)
            if is_usual and is_inside(folder, self._root) and os.path.lexists(f"{folder}/{_GIT}"):
                yield path

    def _folders(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each folder with the names in it that are of interest, the nearest ones first."""
        left = [self._root]
        seen: dict[str, _Folder] = {}
        for folder in left:
            if len(seen) == MOST_FOLDERS:
                self.is_cut = True
                break
            if (found := _looked_at(folder, self._seen.get(folder))) is None:
                continue
            seen[folder] = found
            left += [f"{folder}/{name}" for name in found.below]
            if found.names:
                yield folder, found.names
        self._seen = seen


class _Folder(NamedTuple):
    """A folder as it was looked at."""

    time_ns: int
    """When it was changed."""
    names: tuple[str, ...]
    """Those that are of interest."""
    below: tuple[str, ...]
    """The folders in it."""
    is_certain: bool
    """Whether another change would have given it another time."""


_OF_INTEREST: Final = frozenset({_GIT, _HG, *PROJECT_FOLDERS, *STARTUP_OF_PROJECT})


def _looked_at(folder: str, before: _Folder | None) -> _Folder | None:
    try:
        time_ns = os.stat(folder, follow_symlinks=False).st_mtime_ns
        if before is not None and before.is_certain and before.time_ns == time_ns:
            return before
        names: list[str] = []
        below: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name in _OF_INTEREST:
                    names.append(entry.name)
                elif entry.name not in _NOT_ENTERED and entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
    except OSError:  # it is gone, or a command has made it unreadable: for git, too
        return None
    is_certain = time.time_ns() - time_ns > _RECENT_NS
    return _Folder(time_ns, tuple(sorted(names)), tuple(sorted(below)), is_certain)


def _is_nothing(path: str) -> bool:
    """Return whether nothing is there, or an empty folder, as a sandbox leaves of an absent one while it is used."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _git_folder(git: str) -> ProtectedPaths:
    """Return what is protected of a git folder, its worktrees and its submodules."""
    modules = _modules(git)
    if modules is None:  # more than can be named: all of it
        return joined([_of_one(git), ProtectedPaths(protected=(f"{git}/modules",))])
    return joined(map(_of_one, (git, *modules)))


def _of_one(git: str) -> ProtectedPaths:
    protected: list[str] = []
    absent: list[str] = []
    absent_files: list[str] = []
    pinned: list[str] = []
    forbidden: list[ForbiddenFile] = []
    has_worktree_config = b"worktreeconfig" in _read(f"{git}/config").lower()
    for name in _OF_GIT_FOLDERS:
        path = f"{git}/{name}"
        if name == "config.worktree" and not has_worktree_config and not os.path.isfile(path):
            continue  # git does not read it
        _refuse_link(path)
        if name == "hooks" and _is_nothing(path):
            absent.append(path)
        elif os.path.lexists(path):
            protected.append(path)
        elif name in ("config", "config.worktree"):
            absent_files.append(path)
        elif name == _COMMON_FOLDER:
            forbidden.append(ForbiddenFile(path, _OTHER_CONFIGURATION))
    worktrees = joined(map(_worktree, _folders_in(f"{git}/worktrees")))
    protected += worktrees.protected
    pinned += worktrees.pinned
    included = [each for each in _included(git) if os.path.isfile(each) and not os.path.islink(each)]
    return ProtectedPaths(tuple(pinned), (*protected, *included), tuple(absent), tuple(absent_files), tuple(forbidden))


def _worktree(git: str) -> ProtectedPaths:
    """Return what is protected of the git folder of a worktree: configuration and hooks are those of its repository."""
    named = [f"{git}/{name}" for name in _OF_WORKTREES]
    return ProtectedPaths((os.path.dirname(git), git), tuple(each for each in named if os.path.isfile(each)))


def _included(git: str) -> Iterator[str]:
    """Yield the files that a configuration includes and that are in the folder around the repository."""
    section = b""
    around = os.path.dirname(git)
    for line in _read(f"{git}/config").splitlines():
        text = line.strip()
        if text.startswith(b"["):
            section = text[1:8].lower()
        name, _, value = text.partition(b"=")
        path = os.fsdecode(value.strip().strip(b'"'))
        if section == b"include" and name.strip().lower() == b"path" and path and "\0" not in path:
            found = os.path.normpath(os.path.join(git, path))
            if is_inside(found, around) and os.path.realpath(found) == found:
                yield found


def _modules(git: str) -> list[str] | None:
    """Return the git folders of submodules, whose names may have several parts; None: there are too many to name."""
    found: list[str] = []
    left = [f"{git}/modules"]
    _refuse_link(left[0])
    scanned = 0
    for folder in left:
        for path in _folders_in(folder):
            if (scanned := scanned + 1) > _MOST_SCANNED:
                return None
            if is_git_folder(path):
                found.append(path)
                left.append(f"{path}/modules")
            else:
                left.append(path)
        if len(found) > MOST_MODULES:
            return None
    return found


def _folders_in(folder: str) -> list[str]:
    try:
        return sorted(each.path for each in os.scandir(folder) if each.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _named_in(path: str, prefix: bytes, base: str) -> str | None:
    """Return the folder that a file of git names, resolved; None: it names none."""
    text = _read(path)
    if not text.startswith(prefix):
        return None
    name = os.fsdecode(text[len(prefix) :].strip())
    if not name or "\0" in name:
        return None
    with suppress(OSError):
        return os.path.realpath(os.path.join(base, name))
    return None


def _read(path: str) -> bytes:
    """Return the beginning of a regular file; nothing where it is none."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b""
        descriptor, _ = open_regular(path)
    except (OSError, ValueError, NotRegular):
        return b""
    try:
        return os.read(descriptor, _MOST_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _refuse_link(path: str) -> None:
    if os.path.islink(path):
        raise Unprotectable(
            f"{path} is a link, which a command could replace, so the sandbox can't protect it: put what it leads to "
            "in its place, or use --sandbox read-only"
        )
