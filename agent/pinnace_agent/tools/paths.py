"""Turns the path that a model wrote into a path of the system, and words what the system says about files.

No sandbox: paths outside the working folder are allowed. `readable_path` looks at the disk, so it belongs
into a thread; the rest is pure. Must not know the tools. Rule R-TOL-02.
"""

import errno
import os
import re
from collections.abc import Mapping
from typing import Final

from pinnace_agent.tools.base import ToolError

PATH_PARAMETER: Final[Mapping[str, object]] = {
    "type": "string",
    "description": "The file, as an absolute path or relative to the working folder",
}

_ODD_SPACES: Final = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_DAY_HALF: Final = re.compile(r" ([AaPp][Mm]\.)")


def resolve_path(path: str, cwd: str) -> str:
    """Return the absolute path that is meant; `.` and `..` are resolved without looking at the disk.

    Models write odd spaces for plain ones, put `@` in front as users do, and use `~` and `file://`.

    Raises:
        ToolError: A `file://` address of another machine, or a path that no file can have.
    """
    path = _ODD_SPACES.sub(" ", path).removeprefix("@")
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser("~") + path[1:]
    elif path.startswith("file://"):
        path = _path_of_address(path)
    if "\0" in path:
        raise ToolError(f"Not a path, since it contains a NUL character: {path!r}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ToolError(f"Not a path, since it contains half a character: {path!r}") from None
    # POSIX lets `//` at the start mean something else; no system that we run on uses it.
    return "/" + os.path.normpath(os.path.join(cwd, path)).lstrip("/")


def readable_path(path: str, cwd: str) -> str:
    """Return the absolute path to read: as written, or as macOS writes such a name, whichever exists first.

    The names of its screenshots have a narrow space before AM and PM, decomposed accents and typographic
    apostrophes, and models normalise all of them. If none exists the path as written is returned.
    """
    resolved = resolve_path(path, cwd)
    if os.path.lexists(resolved):
        return resolved
    import unicodedata

    decomposed = unicodedata.normalize("NFD", resolved)
    variants = (
        _DAY_HALF.sub("\u202f\\1", resolved),
        decomposed,
        resolved.replace("'", "\u2019"),
        decomposed.replace("'", "\u2019"),
    )
    return next((variant for variant in variants if os.path.lexists(variant)), resolved)


def os_error_text(error: OSError, operation: str, path: str | None = None) -> str:
    """Word a failure of the system: `ENOENT: no such file or directory, open '/a/b'`."""
    code = error_code(error)
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"{code}: {reason}, {operation}" + (f" '{path}'" if path is not None else "")


def error_code(error: OSError) -> str:
    """Return the system's name of an error, e.g. `ENOENT`."""
    return errno.errorcode.get(error.errno or 0, "EIO")


def _path_of_address(address: str) -> str:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(address)
    if parts.netloc not in ("", "localhost"):
        raise ToolError(f"Not a file of this machine: {address}")
    return unquote(parts.path)
