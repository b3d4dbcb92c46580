"""Searches files of this machine by name: with fd, without it in ripgrep's list of files, without either in Python.

Chooses the program; other modules run it, and match globs without fd. Builds no texts of results but errors of a
program. Rules R-TOL-05, R-TOL-07.

With ripgrep instead of fd, or with an fd that can't apply .gitignore outside of a repository: folders are those with a
listed file, links are not listed, `?` is a character where fd takes it for a byte, .rgignore counts and .fdignore does
not.
"""

import errno
import os
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import trio

from pinnace_agent.files.tool_calls import FileCall
from pinnace_agent.search.glob_match import BadGlob, Glob, escape_glob, is_case_sensitive
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.local.file_calls import FILE_CALLS
from pinnace_agent.tools.local.search_program import FindProgram, find_fd, find_rg, python_search, run_search
from pinnace_agent.tools.operations import GlobSearch, SearchEnd

_NO_PROGRAM: Final = "fd is not available and could not be downloaded"
_OUTSIDE_REPOSITORIES: Final = "--no-require-git"
_ALSO_IGNORED: Final = "--no-ignore"

_Take = Callable[[str], bool]


# DEVIATION D-28: globs are relative to the path, with whichever program.
class LocalFind:
    """`FindOperations` of this machine. Memory does not grow with the number of paths."""

    def __init__(self, find_fd: FindProgram = find_fd, find_rg: FindProgram = find_rg) -> None:
        """Find the programs with these functions."""
        self._find_fd = find_fd
        self._find_rg = find_rg

    async def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        try:
            await FILE_CALLS.perform(FileCall("is folder", path))
        except (OSError, ValueError):
            return False
        return True

    async def glob(self, search: GlobSearch, take: _Take) -> None:
        """Search. Cancelling kills the program that searches."""
        folder = search.folder
        if await FILE_CALLS.perform(FileCall("is folder", folder)) is not True:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        is_repository = await FILE_CALLS.perform(FileCall("in repository", folder)) is True
        place = await trio.to_thread.run_sync(self._look, is_repository, search.env, abandon_on_cancel=True)
        if place.fd is not None and await _with_fd(search, take, place.fd, place.is_repository):
            return
        if place.rg is not None:
            await _with_rg(search, take, place.rg, place.is_repository)
            return
        command = python_search()
        if command is None:
            raise ToolError(_NO_PROGRAM)
        await _with_python(search, take, command, place.is_repository)

    def _look(self, is_repository: bool, env: Mapping[str, str]) -> "_Place":
        fd = self._find_fd(env)
        # Searched only where it may be needed: without fd, or with an old one outside of repositories.
        rg = self._find_rg(env) if fd is None or not is_repository else None
        return _Place(fd, rg, is_repository)


LOCAL_FIND: Final = LocalFind()


class _Place(NamedTuple):
    fd: str | None
    rg: str | None
    is_repository: bool


async def _with_fd(search: GlobSearch, take: _Take, fd: str, is_repository: bool) -> bool:
    """Search with fd; return false if its release lacks a required option."""
    prefix = search.folder.rstrip("/") + "/"
    options = ["--color=never", "--hidden", "--no-global-ignore-file", "--print0", "--glob"]
    options += [f"--exclude={name}" for name in search.ignore]
    options.append(f"--max-results={search.limit + 1}")
    if search.searches_ignored:
        options.append(_ALSO_IGNORED)
    if not is_repository:
        options.append(_OUTSIDE_REPOSITORIES)
    pattern = search.pattern
    if "/" in pattern:
        # fd matches these with absolute paths, and the name of the folder must not change the result.
        options += ["--full-path", "--case-sensitive" if is_case_sensitive(pattern) else "--ignore-case"]
        if not pattern.startswith("/"):
            pattern = escape_glob(prefix) + ("" if pattern.startswith("**/") else "**/") + pattern
    found = _Found(os.fsencode(prefix), take)
    end = await _run([fd, *options, "--", pattern, search.folder], search, found, "fd")
    if end.was_stopped or end.exit_code == 0 or found.has_some:
        return True
    if not is_repository and _OUTSIDE_REPOSITORIES in end.complaints:
        return False
    raise ToolError(end.complaints or f"fd exited with code {end.exit_code}")


async def _with_python(search: GlobSearch, take: _Take, command: list[str], is_repository: bool) -> None:
    glob = _glob(search.pattern)
    below = search.folder.rstrip("/") + "/" if glob.is_absolute else ""

    def take_entry(path: str) -> bool:
        return glob.matches(below + path.removesuffix("/")) and take(path)

    options = ["--entries", "--null", *(f"--glob=!{name}" for name in search.ignore)]
    if search.searches_ignored:
        options.append(_ALSO_IGNORED)
    if not is_repository:
        options.append(_OUTSIDE_REPOSITORIES)
    found = _Found(b"./", take_entry)
    end = await _run([*command, *options, "--", "."], search, found, "the search")
    if not end.was_stopped and end.exit_code not in (0, 1) and not found.has_some:
        raise ToolError(end.complaints or f"the search exited with code {end.exit_code}")


def _glob(pattern: str) -> Glob:
    try:
        return Glob(pattern or "*")  # for fd an empty pattern matches everything
    except BadGlob as error:
        raise ToolError(str(error)) from error


async def _with_rg(search: GlobSearch, take: _Take, rg: str, is_repository: bool) -> None:
    glob = _glob(search.pattern)
    options = ["--no-config", "--files", "--null", "--color=never", "--hidden"]
    options += [f"--glob=!{name}" for name in search.ignore]
    if search.searches_ignored:
        options.append(_ALSO_IGNORED)
    if not is_repository:
        options.append(_OUTSIDE_REPOSITORIES)
    found = _Found(b"./", _Listed(glob, search.folder, take).take)
    end = await _run([rg, *options, "--", "."], search, found, "ripgrep")
    if not end.was_stopped and end.exit_code not in (0, 1) and not found.has_some:
        raise ToolError(end.complaints or f"ripgrep exited with code {end.exit_code}")


async def _run(arguments: list[str], search: GlobSearch, found: "_Found", name: str) -> SearchEnd:
    try:
        return await run_search(arguments, cwd=search.folder, env=search.env, take=found.take)
    except (OSError, ValueError) as error:
        raise ToolError(f"Failed to run {name}: {error}") from error


class _Found:
    """Parses the output of a program: paths with a NUL after each."""

    def __init__(self, prefix: bytes, pass_on: _Take) -> None:
        self.has_some = False
        """Whether the program has found a path."""
        self._prefix = prefix
        self._pass_on = pass_on
        self._rest = b""

    def take(self, chunk: bytes) -> bool:
        """Parse output; return true once no more is needed."""
        *paths, self._rest = (self._rest + chunk).split(b"\0")
        self.has_some = self.has_some or bool(paths)
        return any(self._pass_on(os.fsdecode(path.removeprefix(self._prefix))) for path in paths)


class _Listed:
    """Filters a list of all files: those that a glob matches, and the folders above them that it matches."""

    def __init__(self, glob: Glob, searched: str, pass_on: _Take) -> None:
        self._glob = glob
        self._below = searched.rstrip("/") + "/" if glob.is_absolute else ""
        self._pass_on = pass_on
        # Every folder of the tree, since ripgrep lists none.
        self._folders = {""}

    def take(self, path: str) -> bool:
        """Take a file; return true once no more are needed."""
        new: list[str] = []
        folder = os.path.dirname(path)
        while folder not in self._folders:
            self._folders.add(folder)
            new.append(folder)
            folder = os.path.dirname(folder)
        matches, below = self._glob.matches, self._below
        if any(matches(below + each) and self._pass_on(each + "/") for each in reversed(new)):
            return True
        return matches(below + path) and self._pass_on(path)
