"""The source files of an extension: the check of their permissions, and their fingerprint.

An extension has all rights of the process, so only its owner may be able to change it. Reads files; runs nothing.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# A hundred times the largest handwritten module; compiling takes a hundred times the memory.
MAX_SOURCE_BYTES: Final = 8 * 1024 * 1024
# Of one folder. A larger one is a home folder or an environment by mistake, not an extension.
MAX_FILES: Final = 2_000
_INSTALLED: Final = ("__pycache__", "node_modules")
_SUFFIXES: Final = (".py", ".ts", ".mts", ".cts", ".js", ".mjs", ".cjs")


class SourceRefused(Exception):
    """The files must not be run; the text says why."""


def check_files(entry: str, folder: str | None) -> None:
    """Check that an extension may be run: its file has a sane size, and no file of it is writable by everyone.

    Args:
        entry: The file that is run first.
        folder: The folder of its relative imports, if there is one.

    Raises:
        SourceRefused: The extension must not be run, or can't be read.
    """
    try:
        real = os.path.realpath(entry)
        _check_ways(real)
        for path in (real, *(() if folder is None else _sources(os.path.realpath(folder)))):
            _check_file(path)
    except OSError as error:
        raise SourceRefused(f"can't be read: {error.strerror or error}") from error


def is_open_to_all(folder: str) -> bool:
    """Return whether a folder is writable by everyone."""
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def fingerprint(entry: str, folder: str | None) -> str:
    """Return the SHA-256 of an extension: of its file, or of the names and contents of all sources in its folder.

    Raises:
        OSError: A file can't be read.
        SourceRefused: There are too many files.
    """
    if folder is None:
        return hashlib.sha256(Path(entry).read_bytes()).hexdigest()
    digest = hashlib.sha256()
    root = os.path.realpath(folder)
    for path in sorted(_sources(root)):
        digest.update(f"{os.path.relpath(path, root)}\0".encode("utf-8", "surrogateescape"))
        digest.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return digest.hexdigest()


def _sources(folder: str) -> Iterator[str]:
    """Return the source files below a folder; packages that it has installed are not its own."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each not in _INSTALLED and not each.startswith(".")]
        if is_open_to_all(place):
            raise SourceRefused(f"{place} is writable by everyone: chmod o-w {place}")
        for name in names:
            if name.endswith(_SUFFIXES):
                count += 1
                if count > MAX_FILES:
                    raise SourceRefused(f"{folder} holds more than {MAX_FILES} source files, so it is not an extension")
                yield os.path.join(place, name)


def _check_file(path: str) -> None:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise SourceRefused(f"{path} is not a regular file")
    if status.st_mode & stat.S_IWOTH:
        raise SourceRefused(f"{path} is writable by everyone: chmod o-w {path}")
    if status.st_size > MAX_SOURCE_BYTES:
        raise SourceRefused(f"{path} has {status.st_size} bytes; the limit is {MAX_SOURCE_BYTES}")


def _check_ways(real: str) -> None:
    """Check the parent folders of a file: a writer of one could replace the file."""
    for folder in Path(real).parents:
        mode = os.stat(folder).st_mode
        # In a sticky folder such as /tmp, only a file's owner may replace it.
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise SourceRefused(f"{folder} is writable by everyone: chmod o-w {folder}")
