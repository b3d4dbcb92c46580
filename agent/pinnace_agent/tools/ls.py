"""The tool that lists one folder.

Words results; must not change anything. Rules R-TOL-02, R-TOL-05.
"""

from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.collation import collation_key
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_result
from pinnace_agent.tools.local_files import LOCAL_LS
from pinnace_agent.tools.operations import LsOperations
from pinnace_agent.tools.parameters import fields, number, text
from pinnace_agent.tools.paths import os_error_text, resolve_path, shown_name
from pinnace_agent.tools.search_result import ShownLines, limit_argument
from pinnace_agent.truncation import MAX_BYTES

DEFAULT_LIMIT: Final = 500
"""Entries: a folder with more is searched by name rather than read."""


PARAMETERS: Final = fields(
    {},
    {
        "path": text("The folder; by default the working folder"),
        "limit": number(f"How many entries to return; by default {DEFAULT_LIMIT}"),
    },
)


class LsTool:
    """List a folder."""

    name: str = "ls"
    label: str = "ls"
    description: str = (
        "List the entries of a folder, sorted, with '/' after folders; those that begin with a dot as well. "
        f"Returns at most {DEFAULT_LIMIT} entries (see limit) or {MAX_BYTES // 1024}KB, whichever is less."
    )
    snippet: str = "List a folder"
    guidelines: tuple[str, ...] = ()
    parameters: Mapping[str, object] = PARAMETERS
    is_sequential: bool = False

    def __init__(self, operations: LsOperations = LOCAL_LS) -> None:
        """List through `operations`, by default folders of this machine."""
        self._operations = operations

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Leave the arguments as they are."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """List it. Cancelling ends the call at once; a disk that hangs is left behind.

        Raises:
            ToolError: There is no such folder, or the system refused.
        """
        folder = resolve_path(str(args.get("path") or "."), ctx.cwd)
        limit = limit_argument(args, DEFAULT_LIMIT)
        names = await self._names(folder)
        shown = ShownLines()
        asked = count = 0
        while asked < len(names) and count < limit:
            some = names[asked : asked + limit - count]
            asked += len(some)
            for name, is_folder in zip(some, await self._are_folders(folder, some), strict=True):
                if is_folder is not None:  # else a link to nothing, or gone meanwhile
                    shown.add(shown_name(name) + ("/" if is_folder else ""))
                    count += 1
        if asked < len(names):
            notice = f"{limit} entries limit reached. Use limit={limit * 2} for more"
            return shown.result(notice, {"entryLimitReached": limit})
        return shown.result(None, {}) if shown else text_result("(empty directory)")

    async def _names(self, folder: str) -> list[str]:
        """Return all names, in the order to show them."""
        try:
            is_folder = await self._operations.is_folder(folder)
        except OSError as error:  # for whatever reason: nobody can say that it is there
            raise ToolError(f"Path not found: {folder}") from error
        if not is_folder:
            raise ToolError(f"Not a directory: {folder}")
        try:
            names = await self._operations.entry_names(folder)
        except OSError as error:
            raise ToolError(f"Cannot read directory: {os_error_text(error, 'scandir', folder)}") from error
        return await trio.to_thread.run_sync(_sorted, names, abandon_on_cancel=True)

    async def _are_folders(self, folder: str, names: list[str]) -> list[bool | None]:
        try:
            return await self._operations.are_folders(folder, names)
        except OSError as error:
            raise ToolError(f"Cannot read directory: {os_error_text(error, 'stat', folder)}") from error


def _sorted(names: list[str]) -> list[str]:
    return sorted(names, key=collation_key)
