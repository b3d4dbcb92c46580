"""Changes of files as version 2 shows them: the operation on each file, and a patch in git's format where one is known.

Paths in a patch are absolute, have no prefix, and are quoted as git quotes them. A change that has not been made yet is
no diff but a text, since a client takes the operations of a diff for facts.
"""

from collections.abc import Iterator
from typing import Final

from pinnace_rpc.acp.translation.shown import Json
from pinnace_rpc.acp.translation.tool_calls import changed_file, details_of, fenced, replacements, text_content

_ESCAPES: Final = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}
_NO_LINE_END: Final = "\\ No newline at end of file\n"


def diff(tool: str, arguments: Json, result: Json, cwd: str) -> Json | None:
    """Return the change that a call has made; None: it is not known to have made one."""
    path = changed_file(tool, arguments, cwd)
    if path is None:
        return None
    details = details_of(result)
    is_new = tool == "write" and details.get("created") is True
    change = {"operation": "add" if is_new else "modify", "path": path, "fileType": "text"}
    found: dict[str, object] = {"type": "diff", "changes": [change]}
    patch = None
    if tool == "edit" and isinstance(unified := details.get("patch"), str):
        patch = _edited(path, unified)
    elif is_new and isinstance(content := arguments.get("content"), str):
        patch = _added(path, content)
    if patch is not None:
        found["patch"] = {"format": "git_patch", "text": patch}
    return found


def intended(tool: str, arguments: Json, cwd: str) -> list[dict[str, object]]:
    """Return the content that shows a change that has not been made."""
    if changed_file(tool, arguments, cwd) is None:
        return []
    if tool == "edit":
        lines = [line for old, new in replacements(arguments) for line in (*_marked("-", old), *_marked("+", new))]
        return text_content(fenced("\n".join(lines), "diff")) if lines else []
    content = arguments.get("content")
    return text_content(fenced(content)) if isinstance(content, str) else []


def quoted(path: str) -> str:
    """Return a path as git writes it in a patch: in quotes, with escapes, if it has a character that is not plain."""
    if all(" " <= each <= "~" and each not in '"\\' for each in path):
        return path
    written: list[str] = []
    for byte in path.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        if character in _ESCAPES:
            written.append(f"\\{_ESCAPES[character]}")
        else:
            written.append(character if " " <= character <= "~" else f"\\{byte:03o}")
    return f'"{"".join(written)}"'


def _edited(path: str, unified: str) -> str | None:
    """Return the patch of an edit, whose hunks its result has."""
    _, start, hunks = unified.partition("\n@@ ")
    if not start:
        return None
    name = quoted(path)
    return f"diff --git {name} {name}\n{_side('---', name)}{_side('+++', name)}@@ {_ended(hunks)}"


def _added(path: str, content: str) -> str:
    name = quoted(path)
    head = f"diff --git {name} {name}\nnew file mode 100644\n"
    if not content:
        return head
    lines = content.split("\n")
    is_ended = not lines[-1]
    if is_ended:
        lines.pop()
    body = "".join(f"+{line}\n" for line in lines)
    count = "1" if len(lines) == 1 else f"1,{len(lines)}"
    end = "" if is_ended else _NO_LINE_END
    return f"{head}--- /dev/null\n{_side('+++', name)}@@ -0,0 +{count} @@\n{body}{end}"


def _side(mark: str, name: str) -> str:
    # git ends a name with a tab if it has a space, so that nothing behind it is taken for a part of it.
    return f"{mark} {name}\t\n" if " " in name and not name.startswith('"') else f"{mark} {name}\n"


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _marked(mark: str, text: str) -> Iterator[str]:
    return (f"{mark}{line}" for line in text.removesuffix("\n").split("\n"))
