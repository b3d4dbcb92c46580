"""The tool that searches the content of files: ripgrep's matches, with lines around them.

Builds the text of the result and decides when to stop; other modules parse ripgrep's events and run the program. `.git`
is not searched unless it is the path itself. Rules R-TOL-02, R-TOL-05, R-TOL-07.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

import trio

from pinnace_agent.shell.truncation import MAX_BYTES
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_argument, text_result
from pinnace_agent.tools.local.programs import LOCAL_GREP
from pinnace_agent.tools.operations import GrepOperations
from pinnace_agent.tools.parameters import fields, flag, number, text
from pinnace_agent.tools.paths import existing_path, resolve_path, shown_name
from pinnace_agent.tools.text.match_events import MatchEvent, MatchEvents
from pinnace_agent.tools.text.search_result import (
    IGNORED_SEARCH_S,
    ShownLines,
    ignored_notice,
    ignored_notices,
    limit_argument,
    whole_argument,
)

DEFAULT_LIMIT: Final = 100
"""Matches: what a model reads before it refines the pattern; the number that models have learned."""

MAX_LINE_CHARS: Final = 500
"""A longer line is generated or data; a hundred of this length fit into one result."""

_CR: Final = re.compile(r"\r|\\r|\\x0?[dD]|\\x\{|\\u")
"""A pattern that is about CRs is searched as it is."""
_DOT_SLASH: Final = re.compile(r"^(!?)(?:\./)+")


PARAMETERS: Final = fields(
    {"pattern": text("A regular expression as of ripgrep, or a plain text")},
    {
        "path": text("The folder or file to search; by default the working folder"),
        "glob": text("Only files that it matches, relative to path, e.g. '*.ts' or 'src/**/*.py'"),
        "ignoreCase": flag("Ignore upper and lower case; by default they matter"),
        "literal": flag("The pattern is a plain text; by default it is not"),
        "context": number("Lines to show before and after each match; by default 0"),
        "limit": number(f"How many matches to return; by default {DEFAULT_LIMIT}"),
    },
)


class GrepTool:
    """Search the content of files."""

    name: str = "grep"
    label: str = "grep"
    description: str = (
        "Search the content of files for a pattern. Returns the matching lines with path and line number. "
        f"Respects .gitignore. Returns at most {DEFAULT_LIMIT} matches (see limit) or {MAX_BYTES // 1024}KB, "
        f"whichever is less; lines longer than {MAX_LINE_CHARS} characters are cut."
    )
    snippet: str = "Search the content of files (respects .gitignore)"
    guidelines: tuple[str, ...] = ()
    parameters: Mapping[str, object] = PARAMETERS
    is_sequential: bool = False
    checks_itself = False

    def __init__(self, operations: GrepOperations = LOCAL_GREP) -> None:
        """Search through `operations`, by default files of this machine."""
        self._operations = operations

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments unchanged."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Search. Cancelling kills ripgrep.

        Raises:
            ToolError: The path or ripgrep is missing, or ripgrep failed.
        """
        target = await existing_path(str(args.get("path") or "."), ctx.cwd, self._exists)
        try:
            is_folder = await self._operations.is_folder(target)
        except OSError as error:  # for any reason: its existence is unknown
            raise ToolError(f"Path not found: {target}") from error
        context = max(0, whole_argument(args, "context", 0))
        matches = _Matches(
            limit_argument(args, DEFAULT_LIMIT), context, None if is_folder else shown_name(os.path.basename(target))
        )
        try:
            options = [*_options(args, context), "--", text_argument(args, "pattern"), "." if is_folder else target]
            folder = target if is_folder else os.path.dirname(target)
            end = await self._operations.search(options, cwd=folder, env=ctx.env, take=matches.take)
            if not end.was_stopped and end.exit_code not in (0, 1):
                raise ToolError(end.complaints or f"ripgrep exited with code {end.exit_code}")
            if not matches and is_folder:
                return await self._ignored_result(options, matches, folder, ctx)
        except (OSError, ValueError) as error:
            raise ToolError(f"Failed to run ripgrep: {error}") from error
        return matches.result()

    async def _ignored_result(
        self, options: Sequence[str], matches: "_Matches", folder: str, ctx: ToolContext
    ) -> ToolResult:
        """Search also what is ignored; return what matches there if the folder was named, else whether anything does.

        What is not found in time is as if it was not there.
        """
        is_named = folder != resolve_path(".", ctx.cwd)

        def take(chunk: bytes) -> bool:
            return matches.take(chunk) or (not is_named and bool(matches))

        with trio.move_on_after(IGNORED_SEARCH_S) as limit:
            await self._operations.search(["--no-ignore", *options], cwd=folder, env=ctx.env, take=take)
        if is_named or not matches:
            return matches.result(*ignored_notices(was_stopped=limit.cancelled_caught))
        return text_result(f"No matches found\n\n[{ignored_notice(matches.first)}]")

    async def _exists(self, path: str) -> bool:
        try:
            await self._operations.is_folder(path)
        except OSError:
            return False
        return True


def _options(args: Mapping[str, object], context: int) -> list[str]:
    options = ["--no-config", "--json", "--line-number", "--color=never", "--hidden"]
    if args.get("ignoreCase") is True:
        options.append("--ignore-case")
    if args.get("literal") is True:
        options.append("--fixed-strings")
    elif "$" in (pattern := text_argument(args, "pattern")) and _CR.search(pattern) is None:
        options.append("--crlf")  # so that `$` is before a CRLF, too
    if glob := args.get("glob"):
        options.append("--glob=" + _DOT_SLASH.sub(r"\1", str(glob)))
    # The last matching glob counts, so this one takes precedence over the model's.
    options.append("--glob=!.git")
    if context:
        options.append(f"--context={context}")
    return options


class _Matches:
    """The lines to show: matches up to the limit, and their context."""

    def __init__(self, limit: int, context: int, file_name: str | None) -> None:
        self._limit = limit
        self._context = context
        self._file_name = file_name
        self._events = MatchEvents(MAX_LINE_CHARS)
        self._shown = ShownLines()
        self._count = 0
        self._last: MatchEvent | None = None
        self._has_more = False
        self._has_long_lines = False

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def first(self) -> str:
        """The path of the last match that is shown."""
        assert self._last is not None
        return self._last.path.removeprefix("./")

    def take(self, chunk: bytes) -> bool:
        """Read output of ripgrep; return true once no more is needed."""
        return any(self._take(event) for event in self._events.feed(chunk))

    def result(self, *more: str) -> ToolResult:
        """Return the result, with more notices if there are any."""
        if not self._count:
            return text_result("No matches found")
        details: dict[str, object] = {}
        limit_notice = None
        if self._has_more:
            details["matchLimitReached"] = self._limit
            again = f"Use limit={self._limit * 2} for more, or refine pattern"
            limit_notice = f"{self._limit} matches limit reached. {again}"
        notices = [*more]
        if self._has_long_lines:
            details["linesTruncated"] = True
            notices.append(f"Some lines truncated to {MAX_LINE_CHARS} chars. Use read tool to see full lines")
        return self._shown.result(limit_notice, details, *notices)

    def _take(self, event: MatchEvent) -> bool:
        if self._count < self._limit:
            is_match = event.is_match
            if is_match:
                self._count += 1
                self._last = event
            self._show(event, is_match)
            return False
        # After the limit only the context of the last match counts, and whether there is another match.
        self._has_more = self._has_more or event.is_match
        last = self._last
        assert last is not None
        end = last.number + self._context
        if event.path != last.path or event.number > end:
            return self._has_more
        self._show(event, False)
        return self._has_more and event.number == end

    def _show(self, event: MatchEvent, is_match: bool) -> None:
        name = self._file_name if self._file_name is not None else event.path.removeprefix("./")
        text = event.text
        if len(text) > MAX_LINE_CHARS:
            text = f"{text[:MAX_LINE_CHARS]}... [truncated]"
            self._has_long_lines = True
        mark = ":" if is_match else "-"
        self._shown.add(f"{name}{mark}{event.number}{mark} {text}")
