"""The tool that lists one folder.

Words results; must not change anything. Rules R-TOL-02, R-TOL-05.
"""

import os
import stat
from collections.abc import Mapping
from typing import Final

import trio

from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_result
from pinnace_agent.tools.paths import os_error_text, resolve_path
from pinnace_agent.tools.search_result import ShownLines, limit_argument
from pinnace_agent.truncation import MAX_BYTES

DEFAULT_LIMIT: Final = 500
"""Entries: a folder with more is searched by name rather than read."""

# The order of a people's list, as other implementations have it: marks before digits before letters.
_MARKS: Final = {mark: place for place, mark in enumerate("\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$")}
_AFTER_MARKS: Final = len(_MARKS)


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
    parameters: Mapping[str, object] = {
        "type": "object",
        "required": [],
        "properties": {
            "path": {"type": "string", "description": "The folder; by default the working folder"},
            "limit": {"type": "number", "description": f"How many entries to return; by default {DEFAULT_LIMIT}"},
        },
    }
    is_sequential: bool = False

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Leave the arguments as they are."""
        return raw

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """List it. Cancelling ends the call at once; a disk that hangs is left behind.

        Raises:
            ToolError: There is no such folder, or the system refused.
        """
        folder = resolve_path(str(args.get("path") or "."), ctx.cwd)
        return await trio.to_thread.run_sync(_list, folder, limit_argument(args, DEFAULT_LIMIT), abandon_on_cancel=True)


def _list(folder: str, limit: int) -> ToolResult:
    try:
        if not stat.S_ISDIR(os.stat(folder).st_mode):
            raise ToolError(f"Not a directory: {folder}")
    except OSError:  # for whatever reason: nobody can say that it is there
        raise ToolError(f"Path not found: {folder}") from None
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise ToolError(f"Cannot read directory: {os_error_text(error, 'scandir', folder)}") from error
    names.sort(key=_place)
    shown = ShownLines()
    count = 0
    for name in names:
        trio.from_thread.check_cancelled()
        if count == limit:
            notice = f"{limit} entries limit reached. Use limit={limit * 2} for more"
            return shown.result(notice, {"entryLimitReached": limit})
        try:
            is_folder = stat.S_ISDIR(os.stat(os.path.join(folder, name)).st_mode)
        except OSError:  # a link to nothing, or gone meanwhile
            continue
        shown.add(os.fsencode(name).decode("utf-8", "replace") + ("/" if is_folder else ""))
        count += 1
    return shown.result(None, {}) if shown else text_result("(empty directory)")


def _place(name: str) -> tuple[list[tuple[int, str]], str, str]:
    """Return what names are sorted by: letters without case and accents first, and only then these."""
    import unicodedata

    lowered = unicodedata.normalize("NFD", name.lower())
    letters = [character for character in lowered.replace("ß", "ss") if not unicodedata.combining(character)]
    return [_rank(letter) for letter in letters], lowered, name


def _rank(character: str) -> tuple[int, str]:
    if (place := _MARKS.get(character)) is not None:
        return place, character
    if character.isalnum():
        return _AFTER_MARKS + (1 if character.isdigit() else 2), character
    # What can't be shown comes last: bytes that are no UTF-8.
    return _AFTER_MARKS + (3 if "\udc80" <= character <= "\udcff" else 0), character
