"""What a client shows of a tool's call: title, kind, places, output. The same live and in a replay.

A title is what editors show above the choice whether a call runs. What can't be seen in it is escaped, and it ends with
`…` where it is not the whole command, path or pattern.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.core.visible_text import visible_line
from pinnace_rpc.acp.translation.shown import Json
from pinnace_spec.rules import errors
from pinnace_spec.wire.json_text import encode_value

Kind: TypeAlias = Literal["read", "edit", "execute", "search", "think", "other"]

MAX_TITLE_CHARS: Final = 120
MAX_INPUT_BYTES: Final = 256 * 1024
MAX_OUTPUT_BYTES: Final = 32 * 1024

_KINDS: Final[Mapping[str, Kind]] = {
    "read": "read",
    "edit": "edit",
    "write": "edit",
    "bash": "execute",
    "grep": "search",
    "find": "search",
    "ls": "search",
}
_ABORTED: Final = (errors.OPERATION_ABORTED, errors.ABORTED_BEFORE_START)
_FENCES: Final = re.compile(r"^\s*(`{3,})", re.MULTILINE)


def kind(tool: str) -> Kind:
    """Return the kind of a tool."""
    return _KINDS.get(tool, "other")


def is_builtin(tool: str) -> bool:
    """Return whether a tool is one of this program, which asks no questions of its own."""
    return tool in _KINDS


def is_aborted(result: Json) -> bool:
    """Return whether the result of a failed call says that an abort has ended it."""
    said = [_text(block, "text") or "" for block in _objects(result.get("content"))]
    if not said:
        return False
    return said[-1].endswith(errors.SHELL_ABORTED) or said[0].startswith(_ABORTED)


def announced(tool: str) -> dict[str, object]:
    """Return the fields of a call whose arguments are not known yet."""
    return {"title": tool, "name": tool, "kind": kind(tool), "status": "pending"}


def described(tool: str, arguments: Json, cwd: str) -> dict[str, object]:
    """Return the fields of a call that follow from its arguments, but for its content."""
    fields: dict[str, object] = {
        "title": title(tool, arguments, cwd),
        "rawInput": _bounded(arguments, MAX_INPUT_BYTES),
    }
    if places := locations(tool, arguments, {}, cwd):
        fields["locations"] = places
    return fields


def finished(tool: str, arguments: Json, result: Json, cwd: str) -> dict[str, object]:
    """Return the fields of a call that follow from its result, but for its content and its status."""
    fields: dict[str, object] = {}
    details = details_of(result)
    if details:
        fields["rawOutput"] = _bounded(details, MAX_OUTPUT_BYTES)
    if places := locations(tool, arguments, details, cwd):
        fields["locations"] = places
    return fields


def details_of(result: Json) -> Json:
    """Return the details of a result; empty: it has none."""
    return as_object(result.get("details")) or {}


def changed_file(tool: str, arguments: Json, cwd: str) -> str | None:
    """Return the absolute path of the file that a call changes; None: it is not known to change one."""
    path = _text(arguments, "path") or _text(arguments, "file_path")
    return _absolute(path, cwd) if path is not None and tool in ("write", "edit") else None


def replacements(arguments: Json) -> Iterator[tuple[str, str]]:
    """Yield the former and the new text of each replacement of an edit."""
    for edit in list(_objects(arguments.get("edits"))) or [arguments]:
        old, new = _text(edit, "oldText"), _text(edit, "newText")
        if old is not None and new is not None:
            yield old, new


def title(tool: str, arguments: Json, cwd: str) -> str:
    """Return one line for people."""
    path = _text(arguments, "path") or _text(arguments, "file_path")
    match tool:
        case "bash":
            said, _, more = (_text(arguments, "command") or "").strip().partition("\n")
            if more:
                return _short(said, has_more=True)
        case "read" | "edit" | "write" | "ls":
            said = _shown_path(path, cwd)
            offset = arguments.get("offset")
            if tool == "read" and isinstance(offset, int) and said:
                said = f"{said}:{offset}"
        case "grep" | "find":
            pattern = _text(arguments, "pattern") or ""
            said = f"{pattern} in {_shown_path(path, cwd)}" if path and pattern else pattern
        case _:
            return _short(tool)
    return _short(said or tool)


def locations(tool: str, arguments: Json, details: Json, cwd: str) -> list[dict[str, object]]:
    """Return the files that a call is about, by absolute paths, with lines counted from 1."""
    path = _text(arguments, "path") or _text(arguments, "file_path")
    if path is None or tool not in _KINDS or tool == "bash":
        return []
    place: dict[str, object] = {"path": _absolute(path, cwd)}
    line = details.get("firstChangedLine", arguments.get("offset"))
    if isinstance(line, int) and not isinstance(line, bool) and line > 0:
        place["line"] = line
    return [place]


def output(content: object) -> list[dict[str, object]]:
    """Return what a tool has written so far or at its end: text in a fence, and images."""
    shown: list[dict[str, object]] = []
    for block in _objects(content):
        text = block.get("text")
        if block.get("type") == "text" and isinstance(text, str):
            if text:
                shown.append(_content({"type": "text", "text": fenced(text)}))
        elif block.get("type") == "image":
            image = {"type": "image", "data": block.get("data", ""), "mimeType": block.get("mimeType", "image/png")}
            shown.append(_content(image))
    return shown


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of code; the fence is longer than any in it."""
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def text_content(text: str) -> list[dict[str, object]]:
    """Return a text as the content of a call."""
    return [_content({"type": "text", "text": text})]


def _content(block: Json) -> dict[str, object]:
    return {"type": "content", "content": block}


def _bounded(value: Json, limit_bytes: int) -> object:
    try:
        size = len(encode_value(value))
    except (TypeError, ValueError):
        return {"note": "can't be shown"}
    return value if size <= limit_bytes else {"note": f"{size} bytes, not shown"}


def _objects(value: object) -> Iterator[Json]:
    for each in as_array(value):
        if (fields := as_object(each)) is not None:
            yield fields


def _text(fields: Json, name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _absolute(path: str, cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))


def _shown_path(path: str | None, cwd: str) -> str:
    if path is None:
        return ""
    absolute = _absolute(path, cwd)
    return os.path.relpath(absolute, cwd) if absolute.startswith(cwd.rstrip("/") + "/") else absolute


def _short(text: str, *, has_more: bool = False) -> str:
    shown = visible_line(text[: MAX_TITLE_CHARS + 1])
    if len(shown) <= MAX_TITLE_CHARS and not has_more:
        return shown
    return shown[: MAX_TITLE_CHARS - 2].rstrip() + " …"
