"""The tool that lists one folder.

Builds the text of the result; changes nothing. Rules R-TOL-02, R-TOL-05.
"""

from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.core.collation import collation_key
from pinnace_agent.shell.truncation import MAX_BYTES
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_result
from pinnace_agent.tools.local.files import LOCAL_LS
from pinnace_agent.tools.operations import LsOperations
from pinnace_agent.tools.parameters import fields, number, text
from pinnace_agent.tools.paths import existing_path, os_error_text, shown_name
from pinnace_agent.tools.text.search_result import ShownLines, limit_argument

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
    checks_itself = False

    def __init__(self, operations: LsOperations = LOCAL_LS) -> None:
        """List through `operations`, by default folders of this machine."""
        self._operations = operations

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments unchanged."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """List the folder. Cancelling ends the call at once, and leaves a hanging system call to its thread.

        Raises:
            ToolError: The folder is missing, or a system call failed.
        """
        folder = await existing_path(str(args.get("path") or "."), ctx.cwd, self._exists)
        limit = limit_argument(args, DEFAULT_LIMIT)
        names = await self._names(folder)
        shown = ShownLines()
        asked = count = 0
        while asked < len(names) and count < limit:
            some = names[asked : asked + limit - count]
            asked += len(some)
            for name, is_folder in zip(some, await self._are_folders(folder, some), strict=True):
                if is_folder is not None:  # else a broken link, or removed meanwhile
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
        except OSError as error:  # for any reason: its existence is unknown
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

    async def _exists(self, path: str) -> bool:
        try:
            await self._operations.is_folder(path)
        except OSError:
            return False
        return True


def _sorted(names: list[str]) -> list[str]:
    return sorted(names, key=collation_key)
