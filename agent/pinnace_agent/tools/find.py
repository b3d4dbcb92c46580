"""The tool that searches files and folders by name.

Builds the text of the result and applies the limit; the operations search the files and match the glob. `.git` is not
searched unless it is the path itself. Rules R-TOL-02, R-TOL-05, R-TOL-07.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.search.glob_match import BadGlob, Glob, is_case_sensitive
from pinnace_agent.shell.truncation import MAX_BYTES
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_argument, text_result
from pinnace_agent.tools.local.find import LOCAL_FIND
from pinnace_agent.tools.operations import FindOperations, GlobSearch
from pinnace_agent.tools.parameters import fields, number, text
from pinnace_agent.tools.paths import existing_path, os_error_text, resolve_path, shown_name
from pinnace_agent.tools.text.search_result import (
    IGNORED_SEARCH_S,
    NO_LINE_LIMIT,
    ShownLines,
    ignored_notice,
    ignored_notices,
    limit_argument,
)

DEFAULT_LIMIT: Final = 1000
"""Paths: about as many as fit into one result."""

_NOT_SEARCHED: Final = (".git",)
_DOT_SLASH: Final = re.compile(r"^(?:\./)+")
_GLOB: Final = re.compile(r"[\\*?\[\]{}]")


PARAMETERS: Final = fields(
    {"pattern": text("A glob: of names at any depth, e.g. '*.ts', or of paths, e.g. 'src/**/*.test.py'")},
    {
        "path": text("The folder to search; by default the working folder"),
        "limit": number(f"How many paths to return; by default {DEFAULT_LIMIT}"),
    },
)


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
    parameters: Mapping[str, object] = PARAMETERS
    is_sequential: bool = False
    checks_itself = False

    def __init__(self, operations: FindOperations = LOCAL_FIND) -> None:
        """Search through `operations`, by default files of this machine."""
        self._operations = operations

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments unchanged."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Search. Cancelling kills the program that searches.

        Raises:
            ToolError: The folder or a program for the search is missing, or the program failed.
        """
        folder = await existing_path(str(args.get("path") or "."), ctx.cwd, self._operations.exists)
        given = text_argument(args, "pattern")
        pattern = _DOT_SLASH.sub("", given)
        is_anchored = pattern != given
        limit = limit_argument(args, DEFAULT_LIMIT)
        # What begins elsewhere is left out here, so the operations must not stop at the limit.
        asked = NO_LINE_LIMIT - 1 if is_anchored else limit
        search = GlobSearch(pattern, folder, _NOT_SEARCHED, asked, ctx.env)
        paths = _Paths(limit, _anchored(pattern) if is_anchored else None)
        try:
            if not await self._operations.exists(folder):
                raise ToolError(f"Path not found: {folder}")
            if (named := await self._named(folder, pattern)) is not None:
                paths.take(named)
            await self._operations.glob(search, paths.take)
            if not paths:
                return await self._ignored_result(search, paths, is_named=folder != resolve_path(".", ctx.cwd))
        except NotADirectoryError as error:
            raise ToolError(f"Not a directory: {folder}") from error
        except OSError as error:
            raise ToolError(os_error_text(error, "glob", folder)) from error
        return paths.result()

    async def _named(self, folder: str, pattern: str) -> str | None:
        """Return the path that a pattern without wildcards names, also if it is ignored; None: there is none."""
        if _GLOB.search(pattern) is not None or not pattern or pattern.startswith("/"):
            return None
        named = "/".join(name for name in pattern.split("/") if name not in ("", "."))
        if not named or not {"..", *_NOT_SEARCHED}.isdisjoint(named.split("/")):
            return None
        path = os.path.join(folder, named)
        if not await self._operations.exists(path):
            return None
        return f"{named}/" if await self._operations.exists(f"{path}/.") else named

    async def _ignored_result(self, search: GlobSearch, paths: "_Paths", *, is_named: bool) -> ToolResult:
        """Search also what is ignored; return what matches there if the folder was named, else whether anything does.

        What is not found in time is as if it was not there.
        """

        def take(path: str) -> bool:
            return paths.take(path) or (not is_named and bool(paths))

        with trio.move_on_after(IGNORED_SEARCH_S) as limit:
            await self._operations.glob(search._replace(searches_ignored=True), take)
        if is_named or not paths:
            return paths.result(*ignored_notices(was_stopped=limit.cancelled_caught))
        return text_result(f"No files found matching pattern\n\n[{ignored_notice(paths.first)}]")


def _anchored(pattern: str) -> Glob:
    """Return a glob for paths that begin in the folder that is searched."""
    try:
        return Glob(f"/{pattern}", is_case_exact=is_case_sensitive(pattern))
    except BadGlob as error:
        raise ToolError(str(error)) from error


class _Paths:
    """The paths to show, up to the limit, and whether there are more."""

    def __init__(self, limit: int, anchored: Glob | None) -> None:
        self._limit = limit
        self._anchored = anchored
        self.first = ""
        """The first path."""
        self._shown = ShownLines()
        self._count = 0
        self._has_more = False

    def take(self, path: str) -> bool:
        """Add a path; return true once no more are needed."""
        if path == self.first or (self._anchored is not None and not self._anchored.matches(f"/{path.rstrip('/')}")):
            return False
        if self._count == self._limit:
            self._has_more = True
            return True
        self._count += 1
        self.first = self.first or path
        self._shown.add(shown_name(path))
        return False

    def __bool__(self) -> bool:
        return self._count > 0

    def result(self, *notices: str) -> ToolResult:
        """Return the result, with these notices if there are paths."""
        if not self._shown:
            return text_result("No files found matching pattern")
        if not self._has_more:
            return self._shown.result(None, {}, *notices)
        again = f"Use limit={self._limit * 2} for more, or refine pattern"
        notice = f"{self._limit} results limit reached. {again}"
        return self._shown.result(notice, {"resultLimitReached": self._limit}, *notices)
