"""The tool that searches files and folders by name: fd's matches, or without fd those of ripgrep's list of files.

Words results and chooses the program; how one runs and what a glob means without fd is decided elsewhere. Globs with
`/` are relative to the path. `.git` is not searched unless it is the path itself. Rules R-TOL-02, R-TOL-05, R-TOL-07.

Without fd, or with one that can't apply .gitignore outside of a repository: folders are those with a file that is
listed, links are not listed, `?` is a character where fd takes it for a byte, .rgignore counts and .fdignore does not.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import trio

from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_argument, text_result
from pinnace_agent.tools.glob_match import BadGlob, Glob, escape_glob, is_case_meant
from pinnace_agent.tools.paths import resolve_path
from pinnace_agent.tools.search_program import SearchEnd, find_fd, find_rg, run_search
from pinnace_agent.tools.search_result import ShownLines, limit_argument
from pinnace_agent.truncation import MAX_BYTES

DEFAULT_LIMIT: Final = 1000
"""Paths: about as many as fit into one result."""

_NO_PROGRAM: Final = "fd is not available and could not be downloaded"
_OUTSIDE_REPOSITORIES: Final = "--no-require-git"


# DEVIATION D-28: globs are relative to the path, with whichever program.
class FindTool:
    """Search files and folders by name."""

    name: str = "find"
    label: str = "find"
    description: str = (
        "Search files and folders by name with a glob. Returns their paths, relative to the folder that is searched. "
        f"Respects .gitignore. Returns at most {DEFAULT_LIMIT} paths (see limit) or {MAX_BYTES // 1024}KB, "
        "whichever is less."
    )
    snippet: str = "Search files by name with a glob (respects .gitignore)"
    guidelines: tuple[str, ...] = ()
    parameters: Mapping[str, object] = {
        "type": "object",
        "required": ["pattern"],
        "properties": {
            "pattern": {
                "type": "string",
                "description": "A glob: of names at any depth, e.g. '*.ts', or of paths, e.g. 'src/**/*.test.py'",
            },
            "path": {"type": "string", "description": "The folder to search; by default the working folder"},
            "limit": {"type": "number", "description": f"How many paths to return; by default {DEFAULT_LIMIT}"},
        },
    }
    is_sequential: bool = False

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Leave the arguments as they are."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Search. Cancelling kills the program that does.

        Raises:
            ToolError: There is no such folder, no program to search with, or it refused.
        """
        folder = resolve_path(str(args.get("path") or "."), ctx.cwd)
        pattern = text_argument(args, "pattern")
        search = _Search(folder, pattern, limit_argument(args, DEFAULT_LIMIT), ctx.env)
        place = await trio.to_thread.run_sync(_look, folder, ctx.env, abandon_on_cancel=True)
        paths = None
        if place.fd is not None:
            paths = await _with_fd(search, place.fd, place.is_repository)
        if paths is None:
            if place.rg is None:
                raise ToolError(_NO_PROGRAM)
            paths = await _with_rg(search, place.rg, place.is_repository)
        return paths.result()


class _Search(NamedTuple):
    folder: str
    pattern: str
    limit: int
    env: Mapping[str, str]


class _Place(NamedTuple):
    fd: str | None
    rg: str | None
    is_repository: bool


def _look(folder: str, env: Mapping[str, str]) -> _Place:
    if not os.path.exists(folder):
        raise ToolError(f"Path not found: {folder}")
    if not os.path.isdir(folder):
        raise ToolError(f"Not a directory: {folder}")
    is_repository = any(os.path.lexists(os.path.join(above, ".git")) for above in _upwards(folder))
    fd = find_fd(env)
    # Looked for only where it may be needed: without fd, or with an old one outside of repositories.
    rg = find_rg(env) if fd is None or not is_repository else None
    return _Place(fd, rg, is_repository)


def _upwards(folder: str) -> Iterator[str]:
    while folder != "/":
        yield folder
        folder = os.path.dirname(folder)
    yield folder


async def _with_fd(search: _Search, fd: str, is_repository: bool) -> "_Paths | None":
    """Search with fd; None if this one does not know an option that is needed."""
    prefix = search.folder.rstrip("/") + "/"
    options = ["--color=never", "--hidden", "--no-global-ignore-file", "--exclude=.git", "--print0", "--glob"]
    options.append(f"--max-results={search.limit + 1}")
    if not is_repository:
        options.append(_OUTSIDE_REPOSITORIES)
    pattern = search.pattern
    if "/" in pattern:
        # fd matches these with absolute paths, and what the folder is called must not change anything.
        options += ["--full-path", "--case-sensitive" if is_case_meant(pattern) else "--ignore-case"]
        if not pattern.startswith("/"):
            pattern = escape_glob(prefix) + ("" if pattern.startswith("**/") else "**/") + pattern
    paths = _Paths(search.limit, prefix)
    end = await _run([fd, *options, "--", pattern, search.folder], search, paths, "fd")
    if end.was_stopped or end.exit_code == 0 or paths.has_some:
        return paths
    if not is_repository and _OUTSIDE_REPOSITORIES in end.complaints:
        return None
    raise ToolError(end.complaints or f"fd exited with code {end.exit_code}")


async def _with_rg(search: _Search, rg: str, is_repository: bool) -> "_Paths":
    try:
        glob = Glob(search.pattern or "*")  # to fd no pattern is every pattern
    except BadGlob as error:
        raise ToolError(str(error)) from error
    options = ["--no-config", "--files", "--null", "--color=never", "--hidden", "--glob=!.git"]
    if not is_repository:
        options.append(_OUTSIDE_REPOSITORIES)
    paths = _ListedPaths(search.limit, search.folder.rstrip("/") + "/", glob)
    end = await _run([rg, *options, "--", "."], search, paths, "ripgrep")
    if end.was_stopped or end.exit_code in (0, 1) or paths.has_some:
        return paths
    raise ToolError(end.complaints or f"ripgrep exited with code {end.exit_code}")


async def _run(arguments: list[str], search: _Search, paths: "_Paths", name: str) -> SearchEnd:
    try:
        return await run_search(arguments, cwd=search.folder, env=search.env, take=paths.take)
    except (OSError, ValueError) as error:
        raise ToolError(f"Failed to run {name}: {error}") from error


class _Paths:
    """The paths to show, up to the limit; whether there is one more."""

    def __init__(self, limit: int, prefix: str) -> None:
        self.has_some = False
        """Whether the program has found anything."""
        self._limit = limit
        self._prefix = os.fsencode(prefix)
        self._rest = b""
        self._shown = ShownLines()
        self._count = 0
        self._has_more = False

    def take(self, chunk: bytes) -> bool:
        """Take output, paths with a NUL after each; true once no more of it is needed."""
        *paths, self._rest = (self._rest + chunk).split(b"\0")
        self.has_some = self.has_some or bool(paths)
        return any(self._take(path) for path in paths)

    def result(self) -> ToolResult:
        """Return what was found."""
        if not self._shown:
            return text_result("No files found matching pattern")
        if not self._has_more:
            return self._shown.result(None, {})
        again = f"Use limit={self._limit * 2} for more, or refine pattern"
        notice = f"{self._limit} results limit reached. {again}"
        return self._shown.result(notice, {"resultLimitReached": self._limit})

    def _take(self, path: bytes) -> bool:
        return self._show(path.removeprefix(self._prefix))

    def _show(self, path: bytes) -> bool:
        if self._count == self._limit:
            self._has_more = True
            return True
        self._count += 1
        self._shown.add(path.decode("utf-8", "replace"))
        return False


class _ListedPaths(_Paths):
    """Of a list of all files those that a glob means, and the folders above them that it means."""

    def __init__(self, limit: int, prefix: str, glob: Glob) -> None:
        super().__init__(limit, prefix)
        self._glob = glob
        # Every folder once: as many as the tree has, which is the price of not being told of them.
        self._folders = {""}

    def _take(self, path: bytes) -> bool:
        name = os.fsdecode(path.removeprefix(b"./"))
        new: list[str] = []
        folder = os.path.dirname(name)
        while folder not in self._folders:
            self._folders.add(folder)
            new.append(folder)
            folder = os.path.dirname(folder)
        below = os.fsdecode(self._prefix) if self._glob.is_absolute else ""
        if any(self._glob.matches(below + each) and self._show(os.fsencode(each) + b"/") for each in reversed(new)):
            return True
        return self._glob.matches(below + name) and self._show(os.fsencode(name))
