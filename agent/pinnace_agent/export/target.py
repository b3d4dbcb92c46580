"""The file that an export writes: its name, and that it is there whole or not at all.

Only its owner can read it, since sessions hold what tools have read. What is replaced is a regular file, never the
session itself. Blocks on the file system. Must not know what is written.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from pinnace_agent.resources.paths import expand_home
from pinnace_agent.session.new_file import replace_file
from pinnace_spec import errors


def target_name(session: Path, wanted: str | None, env: Mapping[str, str]) -> str:
    """Return the path to write, as clients are told it: relative if it was given so, or not at all."""
    return expand_home(wanted, env) if wanted else f"pi-session-{session.name.removesuffix('.jsonl')}.html"


def write_target(name: str, session: Path, chunks: Iterable[str], cwd: str) -> None:
    """Write a file, or replace it.

    Args:
        name: Its path.
        session: The file of the session that is exported.
        chunks: What to write; if making them fails, nothing is left behind.
        cwd: What a relative path starts from.

    Raises:
        ClientError: It can't be written; what was there is as it was.
    """
    try:
        path = Path(os.path.realpath(Path(cwd, name)))
        _check(path, session, name)
        replace_file(path, (chunk.encode() for chunk in chunks))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _refusal(name, reason) from None


def _check(path: Path, session: Path, name: str) -> None:
    if not path.parent.is_dir():
        raise _refusal(name, f"the folder {path.parent} does not exist")
    if path == Path(os.path.realpath(session)):
        raise _refusal(name, "it is the session itself")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise _refusal(name, "it is not a regular file")
    if not os.access(path, os.W_OK):  # a rename needs no right to the file; one that is read-only is so on purpose
        raise _refusal(name, "it is read-only")


def _refusal(name: str, reason: str) -> errors.ClientError:
    return errors.ClientError(errors.not_exported(name, reason), errors.ErrorCode.IO_ERROR)
