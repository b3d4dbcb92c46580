"""Resolves the paths that models write, and formats errors of the file system for them.

No sandbox: paths outside the working folder are allowed. Accesses the disk through functions that it is given alone.
Has no knowledge of the tools. Rule R-TOL-02.
"""

import errno
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from pinnace_agent.tools.base import ToolError

_ODD_SPACES: Final = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
# Lone surrogates that do not encode a byte: no file name of the system has them.
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
"""The texts that models know, where those of the system differ (from these, and between systems)."""


def resolve_path(path: str, cwd: str) -> str:
    """Return the absolute path; `.` and `..` are resolved without accessing the disk.

    Models write unusual spaces for plain ones, a leading `@` as users do, `~` and `file://`.

    Raises:
        ToolError: The path is a `file://` address of another machine, or impossible.
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
    # POSIX allows another meaning of a leading `//`; no supported system has one.
    return "/" + os.path.normpath(os.path.join(cwd, path)).lstrip("/")


async def existing_path(path: str, cwd: str, exists: Callable[[str], Awaitable[bool]]) -> str:
    """Return the absolute path of what a path names, also in the other normal form of Unicode.

    Names with accents are written composed or decomposed, which look alike, and models write the form that they
    prefer. Where nothing has the name as it is written, each part of it that exists in another form is taken in that
    form, so that a new file comes into the folder that is there.

    Args:
        path: As a model writes it.
        cwd: The working folder.
        exists: Returns whether something of an absolute path is there.

    Raises:
        ToolError: As `resolve_path`.
    """
    resolved = resolve_path(path, cwd)
    if resolved.isascii() or await exists(resolved):
        return resolved
    import unicodedata

    found = cwd if resolved.startswith(cwd.rstrip("/") + "/") else "/"
    names = resolved[len(found) :].strip("/").split("/")
    for index, name in enumerate(names):
        forms = dict.fromkeys((name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)))
        for form in forms if len(forms) > 1 else ():
            if await exists(os.path.join(found, form)):
                found = os.path.join(found, form)
                break
        else:
            if len(forms) > 1:
                return os.path.join(found, *names[index:])
            found = os.path.join(found, name)
    return found


def readable_paths(path: str, cwd: str) -> list[str]:
    """Return the absolute paths to try for reading, in order: as written, then as macOS writes such a name.

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
    """Return a file name as text that can be sent: bytes that are not UTF-8 are replaced."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape" if _LONE.search(name) is None else "replace").decode(
        "utf-8", "replace"
    )


def os_error_text(error: OSError, operation: str, path: str | None = None) -> str:
    """Format a system error: `ENOENT: no such file or directory, open '/a/b'`, with the notes added to it."""
    code = error_code(error)
    # An error of another machine may have no number, only a text.
    reason = _REASONS.get(code, os.strerror(error.errno).lower()) if error.errno else str(error)
    text = f"{code}: {reason}, {operation}" + (f" '{path}'" if path is not None else "")
    return ". ".join([text, *notes_of(error)])


def error_code(error: OSError) -> str:
    """Return the system's name of an error, e.g. `ENOENT`."""
    return errno.errorcode.get(error.errno or 0, "EIO")


def notes_of(error: OSError) -> list[str]:
    """Return the notes that were added to an error."""
    notes: list[str] = getattr(error, "__notes__", [])
    return notes


def _path_of_address(address: str) -> str:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(address)
    if parts.netloc not in ("", "localhost"):
        raise ToolError(f"Not a file of this machine: {address}")
    return unquote(parts.path)
