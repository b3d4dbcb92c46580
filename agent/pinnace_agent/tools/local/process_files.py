"""Rejects files of /proc that expose a process, above all the agent, whose memory and environment hold keys.

These are `/proc/<process>` under any name, except harmless files such as `status`; `/proc` itself and the kernel's
facts about the system are like other files. Commands of a shell are not restricted by this, but by the system.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from io import FileIO
from typing import Final

from pinnace_agent.files import tool_calls
from pinnace_agent.files.protected import is_inside
from pinnace_agent.files.tool_calls import CallRefused
from pinnace_agent.tools.base import ToolError

# Excluded from ripgrep, if the searched folder contains /proc.
_PROC: Final = "/proc"
_LEFT_OUT: Final = ("[0-9]*", "self", "thread-self", "kcore")


def refuse_process_files(path: str) -> None:
    """Raise if a path leads to a file that exposes a process; the file need not exist.

    Raises:
        ToolError: It does.
        ValueError: It is no path.
    """
    try:
        tool_calls.refuse_process_files(path)
    except CallRefused as error:
        raise ToolError(error.text) from error


@contextmanager
def opened(path: str) -> Generator[FileIO, None, None]:
    """Open a regular file for reading, without a buffer.

    Raises:
        ToolError: It exposes a process.
        OSError: It is no regular file, or can't be read.
    """
    try:
        with tool_calls.opened(path) as stream:
            yield stream
    except CallRefused as error:
        raise ToolError(error.text) from error


def unsearched_globs(folder: str) -> list[str]:
    """Return globs, relative to a searched folder, that exclude files which expose processes; mostly none."""
    real = os.path.realpath(folder)
    if not is_inside(_PROC, real):
        return []
    below = os.path.relpath(_PROC, real)
    prefix = "" if below == "." else f"{below}/"
    return [f"!/{prefix}{name}" for name in _LEFT_OUT]
