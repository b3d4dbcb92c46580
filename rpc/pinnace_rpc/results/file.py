"""Writes the file of `--result-file`: beside it and renamed, so that a reader finds a whole result or none.

Blocks on the file system for the length of one small file: the process ends behind it. Without keys.
"""

import logging
from pathlib import Path

from pinnace_agent.files.atomic_file import replace_file
from pinnace_agent.redaction.redactor import REDACTOR

_log = logging.getLogger("pinnace.result")


def write_result(path: str, line: bytes) -> None:
    """Write a result. A failure is logged: the exit code says what the process did, as it does without the file."""
    if REDACTOR.is_active:
        line = REDACTOR.line(line)
    try:
        replace_file(Path(path).absolute(), (line,), folder_flush="best effort")
    except OSError as error:
        _log.error("--result-file: %s can't be written: %s", path, error.strerror or error)


def check_place(path: str) -> str | None:
    """Return why a result can't be written there, as far as that is known before the run; None: it can."""
    place = Path(path).absolute()
    if not place.parent.is_dir():
        return f"--result-file: the folder {place.parent} does not exist"
    if place.exists() and not place.is_file():
        return f"--result-file: {place} is not a regular file"
    return None
