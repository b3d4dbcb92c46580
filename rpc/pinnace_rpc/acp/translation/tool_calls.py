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
from pinnace_spec.wire.json_text import encode_value

Kind: TypeAlias = Literal["read", "edit", "execute", "search", "think", "other"]
Json: TypeAlias = Mapping[str, object]

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
_FENCES: Final = re.compile(r"^\s*(`{3,})", re.MULTILINE)


def kind(tool: str) -> Kind:
    """Return the kind of a tool."""
    return _KINDS.get(tool, "other")


def announced(call_id: str, tool: str) -> dict[str, object]:
    """Return the update that announces a call whose arguments are not known yet."""
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": call_id,
        "title": tool,
        "name": tool,
        "kind": kind(tool),
        "status": "pending",
    }


def described(tool: str, arguments: Json, cwd: str) -> dict[str, object]:
    """Return the fields of a call that follow from its arguments."""
    fields: dict[str, object] = {
        "title": title(tool, arguments, cwd),
        "rawInput": _bounded(arguments, MAX_INPUT_BYTES),
    }
    if places := locations(tool, arguments, {}, cwd):
        fields["locations"] = places
    if edits := list(_diffs(tool, arguments, {}, cwd)):
        fields["content"] = edits
    return fields


def finished(tool: str, arguments: Json, result: Json, cwd: str, *, is_error: bool) -> dict[str, object]:
    """Return the fields of a call that has ended."""
    fields: dict[str, object] = {"status": "failed" if is_error else "completed"}
    details = as_object(result.get("details")) or {}
    edits = [] if is_error else list(_diffs(tool, arguments, details, cwd))
    shown = edits or output(result.get("content"))
    fields["content"] = shown
    if details:
        fields["rawOutput"] = _bounded(details, MAX_OUTPUT_BYTES)
    if places := locations(tool, arguments, details, cwd):
        fields["locations"] = places
    return fields


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


def fenced(text: str) -> str:
    """Return a text as a block of code; the fence is longer than any in it."""
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def text_content(text: str) -> list[dict[str, object]]:
    """Return a text as the content of a call."""
    return [_content({"type": "text", "text": text})]


def _content(block: Json) -> dict[str, object]:
    return {"type": "content", "content": block}


def _diffs(tool: str, arguments: Json, details: Json, cwd: str) -> Iterator[dict[str, object]]:
    path = _text(arguments, "path") or _text(arguments, "file_path")
    if path is None:
        return
    if tool == "write" and (new := _text(arguments, "content")) is not None:
        diff: dict[str, object] = {"type": "diff", "path": _absolute(path, cwd), "newText": new}
        if details.get("created") is True:
            diff["oldText"] = None
        yield diff
    elif tool == "edit":
        edits = list(_objects(arguments.get("edits"))) or [arguments]
        for edit in edits:
            old, new = _text(edit, "oldText"), _text(edit, "newText")
            if old is not None and new is not None:
                yield {"type": "diff", "path": _absolute(path, cwd), "oldText": old, "newText": new}


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
