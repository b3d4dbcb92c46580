"""Finds the programs that search, and runs one: killed when enough was read.

Nothing of the user's own configuration of ripgrep gets in. Output goes piece by piece to whoever asked, so memory does
not grow with it. Must not know what is searched for, nor word results. Rule R-TOL-05.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from pinnace_agent.flat_nursery import open_flat_nursery
from pinnace_agent.processes.registry import CHILDREN, ChildProcesses, work_turns
from pinnace_agent.shell import REAP_S
from pinnace_agent.tools.operations import SearchEnd
from pinnace_agent.truncation import MAX_BYTES

CHUNK_BYTES: Final = 64 * 1024
"""What a pipe holds on Linux; taking it apart keeps others waiting for a millisecond or two."""

NO_RG: Final = "ripgrep (rg) is not available and could not be downloaded"

FindProgram = Callable[[Mapping[str, str]], str | None]
"""Takes an environment and returns the path of a program, if there is one. Blocking."""

_RG_CONFIG: Final = "RIPGREP_CONFIG_PATH"
_RG_PACKAGE: Final = "ripgrep"


def find_rg(env: Mapping[str, str]) -> str | None:
    """Return the path of ripgrep: the system's, else that of the package `ripgrep`. Blocking."""
    return shutil.which("rg", path=_search_path(env)) or _packaged_rg()


def find_fd(env: Mapping[str, str]) -> str | None:
    """Return the path of fd, which Debian calls `fdfind`. Blocking."""
    path = _search_path(env)
    return shutil.which("fd", path=path) or shutil.which("fdfind", path=path)


def python_search() -> list[str] | None:
    """Return the command of the search in Python, which takes ripgrep's arguments; None: no interpreter is known.

    It finds its modules where this process found them, whatever the environment and the folder say.
    """
    if not sys.executable:
        return None
    start = "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10)); "
    run = "from pinnace_agent.search.program import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-I", "-c", start + run, "\n".join(os.path.abspath(place) for place in sys.path)]


async def run_search(
    arguments: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    take: Callable[[bytes], bool],
    children: ChildProcesses = CHILDREN,
) -> SearchEnd:
    """Run a program that searches and pass on what it finds. It is reaped when this returns or raises.

    Cancelling kills it.

    Args:
        arguments: The program's path and its arguments.
        cwd: The folder to run in.
        env: Its environment; what configures ripgrep is left out.
        take: Gets the output, piece by piece; once it returns true it gets no more and the program is killed.
        children: Starts it, and can kill it as long as it runs.

    Raises:
        OSError: The system refused to start it.
        ValueError: An argument is none that a program can get.
    """
    async with work_turns():
        return await _run(arguments, cwd, env, take, children)


async def _run(
    arguments: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    take: Callable[[bytes], bool],
    children: ChildProcesses,
) -> SearchEnd:
    child = await children.start(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={name: value for name, value in env.items() if name != _RG_CONFIG},
    )
    process = child.process
    assert process.stdout is not None
    assert process.stderr is not None
    complaints = bytearray()
    was_stopped = is_done = False
    try:
        async with open_flat_nursery() as nursery:
            nursery.start_soon(_keep_beginning, process.stderr, complaints)
            while chunk := bytes(await process.stdout.receive_some(CHUNK_BYTES)):
                if take(chunk):
                    was_stopped = True
                    nursery.cancel_scope.cancel()
                    break
        if not was_stopped:
            await child.exited()
            is_done = True
    finally:
        if not is_done:
            child.kill()
        status = await child.reap(REAP_S)
        with trio.CancelScope(shield=True):  # closing a pipe waits for nothing
            await process.stdout.aclose()
            await process.stderr.aclose()
    return SearchEnd(status, _without_prefix(complaints.decode("utf-8", "replace")), was_stopped)


async def _keep_beginning(stream: trio.abc.ReceiveStream, kept: bytearray) -> None:
    while chunk := await stream.receive_some(CHUNK_BYTES):
        kept += chunk[: MAX_BYTES - len(kept)]


def _without_prefix(complaints: str) -> str:
    """Take off the name that newer releases of ripgrep put before what they complain of."""
    return "\n".join(line.removeprefix("rg: ") for line in complaints.split("\n")).strip()


def _search_path(env: Mapping[str, str]) -> str:
    return env.get("PATH", os.defpath)


def _packaged_rg() -> str | None:
    """Return the `rg` that the package puts among the scripts of its installation, wherever these are."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        shipped = files(_RG_PACKAGE) or ()
    except PackageNotFoundError:
        return None
    paths = (os.path.normpath(str(file.locate())) for file in shipped if file.name == "rg")
    return next((path for path in paths if os.access(path, os.X_OK)), None)
