"""The tool that searches files and folders by name.

Builds the text of the result and applies the limit; the operations search the files and match the glob. `.git` is not
searched unless it is the path itself. Rules R-TOL-02, R-TOL-05, R-TOL-07.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.shell.truncation import MAX_BYTES
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_argument, text_result
from pinnace_agent.tools.local.find import LOCAL_FIND
from pinnace_agent.tools.operations import FindOperations, GlobSearch
from pinnace_agent.tools.parameters import fields, number, text
from pinnace_agent.tools.paths import os_error_text, resolve_path, shown_name
from pinnace_agent.tools.text.search_result import ShownLines, limit_argument

DEFAULT_LIMIT: Final = 1000
"""Paths: about as many as fit into one result."""

_NOT_SEARCHED: Final = (".git",)


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
        folder = resolve_path(str(args.get("path") or "."), ctx.cwd)
        search = GlobSearch(
            text_argument(args, "pattern"), folder, _NOT_SEARCHED, limit_argument(args, DEFAULT_LIMIT), ctx.env
        )
        paths = _Paths(search.limit)
        try:
            if not await self._operations.exists(folder):
                raise ToolError(f"Path not found: {folder}")
            await self._operations.glob(search, paths.take)
        except NotADirectoryError as error:
            raise ToolError(f"Not a directory: {folder}") from error
        except OSError as error:
            raise ToolError(os_error_text(error, "glob", folder)) from error
        return paths.result()


class _Paths:
    """The paths to show, up to the limit, and whether there are more."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shown = ShownLines()
        self._count = 0
        self._has_more = False

    def take(self, path: str) -> bool:
        """Add a path; return true once no more are needed."""
        if self._count == self._limit:
            self._has_more = True
            return True
        self._count += 1
        self._shown.add(shown_name(path))
        return False

    def result(self) -> ToolResult:
        """Return the result."""
        if not self._shown:
            return text_result("No files found matching pattern")
        if not self._has_more:
            return self._shown.result(None, {})
        again = f"Use limit={self._limit * 2} for more, or refine pattern"
        notice = f"{self._limit} results limit reached. {again}"
        return self._shown.result(notice, {"resultLimitReached": self._limit})
