"""Changes of files as version 1 shows them: each with the text before and after it, as far as these are known."""

from collections.abc import Iterator

from pinnace_rpc.acp.translation.shown import Json
from pinnace_rpc.acp.translation.tool_calls import changed_file, details_of, replacements


def diffs(tool: str, arguments: Json, result: Json, cwd: str) -> Iterator[dict[str, object]]:
    """Yield the changes that a call makes; `result` is empty before it has one."""
    path = changed_file(tool, arguments, cwd)
    if path is None:
        return
    if tool == "edit":
        for old, new in replacements(arguments):
            yield {"type": "diff", "path": path, "oldText": old, "newText": new}
    elif isinstance(content := arguments.get("content"), str):
        diff: dict[str, object] = {"type": "diff", "path": path, "newText": content}
        if details_of(result).get("created") is True:
            diff["oldText"] = None
        yield diff
