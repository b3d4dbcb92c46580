"""Turns the path that a model wrote into a path of the system, and words what the system says about files.

No sandbox: paths outside the working folder are allowed. Never looks at the disk. Must not know the tools. Rule
R-TOL-02.
"""

import errno
import os
import re
from collections.abc import Mapping
from typing import Final

from pinnace_agent.tools.base import ToolError

_ODD_SPACES: Final = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
# Halves of characters that do not stand for a byte: no name of this system has them.
_LONE: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_DAY_HALF: Final = re.compile(r" ([AaPp][Mm]\.)")

_REASONS: Final[Mapping[str, str]] = {
    "EBUSY": "resource busy or locked",
    "EEXIST": "file already exists",
    "EIO": "i/o error",
    "EISDIR": "illegal operation on a directory",
    "ELOOP": "too many symbolic links encountered",
    "EMFILE": "too many open files",
    "ENAMETOOLONG": "name too long",
    "ENFILE": "file table overflow",
    "EROFS": "read-only file system",
    "ETXTBSY": "text file is busy",
    "EXDEV": "cross-device link not permitted",
}
"""What models know in place of the system's own words, where these differ (and from system to system)."""


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


def readable_paths(path: str, cwd: str) -> list[str]:
    """Return the absolute paths to try for reading, best first: as written, then as macOS writes such a name.

    The names of its screenshots have a narrow space before AM and PM, decomposed accents and typographic
    apostrophes, and models normalise all of them.
    """
    resolved = resolve_path(path, cwd)
    import unicodedata

    decomposed = unicodedata.normalize("NFD", resolved)
    variants = (
        resolved,
        _DAY_HALF.sub("\u202f\\1", resolved),
        decomposed,
        resolved.replace("'", "\u2019"),
        decomposed.replace("'", "\u2019"),
    )
    return list(dict.fromkeys(variants))


def shown_name(name: str) -> str:
    """Return a name of the system as text that can be sent: what is no UTF-8 in it is replaced."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape" if _LONE.search(name) is None else "replace").decode(
        "utf-8", "replace"
    )


def os_error_text(error: OSError, operation: str, path: str | None = None) -> str:
    """Word a failure of the system: `ENOENT: no such file or directory, open '/a/b'`, and the notes added to it."""
    code = error_code(error)
    # What comes from another machine may have no number, only words.
    reason = _REASONS.get(code, os.strerror(error.errno).lower()) if error.errno else str(error)
    text = f"{code}: {reason}, {operation}" + (f" '{path}'" if path is not None else "")
    return ". ".join([text, *notes_of(error)])


def error_code(error: OSError) -> str:
    """Return the system's name of an error, e.g. `ENOENT`."""
    return errno.errorcode.get(error.errno or 0, "EIO")


def notes_of(error: OSError) -> list[str]:
    """Return what was added to an error for whoever reads it."""
    notes: list[str] = getattr(error, "__notes__", [])
    return notes


def _path_of_address(address: str) -> str:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(address)
    if parts.netloc not in ("", "localhost"):
        raise ToolError(f"Not a file of this machine: {address}")
    return unquote(parts.path)
