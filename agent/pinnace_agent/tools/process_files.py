"""What no tool opens: files of /proc that show a process, above all the agent, whose keys they would show.

`/proc/<process>`, however it is called, but for figures such as `status`; `/proc` itself and what the kernel says of
the system are like other files. Commands of a shell are not held by this: what they can see of a process the system
decides.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from io import FileIO
from typing import Final

from pinnace_agent.files.opener import FileRefused, Reach, open_file
from pinnace_agent.files.protected import OF_PROCESSES, Places, Protection, is_inside, protection_of
from pinnace_agent.tools.base import ToolError

_REACH: Final = Reach(OF_PROCESSES, Places())
# For ripgrep, relative to the folder that is searched, which has processes in it.
_PROC: Final = "/proc"
_LEFT_OUT: Final = ("[0-9]*", "self", "thread-self", "kcore")


def refuse_process_files(path: str) -> None:
    """Raise if a path leads to what shows a process; what is not there may be named.

    Raises:
        ToolError: It does.
        ValueError: It is no path.
    """
    real = os.path.realpath(path)
    if protection_of(real, Places()) in OF_PROCESSES:
        raise _refused(path, real)


@contextmanager
def opened(path: str) -> Generator[FileIO, None, None]:
    """Open a regular file for reading, without a buffer.

    Raises:
        ToolError: It shows a process.
        OSError: It is no regular file, or can't be read.
    """
    try:
        with open_file(path, _REACH) as file, open(file.descriptor, "rb", buffering=0, closefd=False) as stream:
            yield stream
    except FileRefused as error:
        raise ToolError(f"Not opened: {path} {error.text}") from error


def unsearched_globs(folder: str) -> list[str]:
    """Return globs, relative to a folder that is searched, that leave out what shows processes; mostly none."""
    real = os.path.realpath(folder)
    if not is_inside(_PROC, real):
        return []
    below = os.path.relpath(_PROC, real)
    prefix = "" if below == "." else f"{below}/"
    return [f"!/{prefix}{name}" for name in _LEFT_OUT]


def _refused(path: str, real: str) -> ToolError:
    where = "" if real == path else f"leads to {real}, which "
    return ToolError(f"Not opened: {path} {where}{Protection.PROCESS.value}")
