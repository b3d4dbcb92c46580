"""Finds the search programs, and runs one until enough was read.

The user's configuration of ripgrep has no effect. Output is passed on piece by piece, so memory does not grow with it.
Has no knowledge of the search, and builds no texts of results. Rule R-TOL-05.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.shell.child_processes import ChildProcesses, work_turns
from pinnace_agent.shell.child_processes import children as own_children
from pinnace_agent.shell.own_programs import own_program
from pinnace_agent.shell.process import REAP_S
from pinnace_agent.shell.truncation import MAX_BYTES
from pinnace_agent.tools.operations import SearchEnd

CHUNK_BYTES: Final = 64 * 1024
"""The capacity of a pipe on Linux; parsing it blocks the event loop for a millisecond or two."""

NO_RG: Final = "ripgrep (rg) is not available and could not be downloaded"

FindProgram = Callable[[Mapping[str, str]], str | None]
"""Takes an environment and returns the path of a program, if there is one. Blocking."""

_RG_CONFIG: Final = "RIPGREP_CONFIG_PATH"
_RG_PACKAGE: Final = "ripgrep"


def find_rg(env: Mapping[str, str]) -> str | None:
    """Return the path of ripgrep: the system's, else that of the package `ripgrep`. Blocking."""
    return _shown(shutil.which("rg", path=_search_path(env))) or _packaged_rg()


def find_fd(env: Mapping[str, str]) -> str | None:
    """Return the path of fd, which Debian calls `fdfind`. Blocking."""
    path = _search_path(env)
    return _shown(shutil.which("fd", path=path)) or _shown(shutil.which("fdfind", path=path))


def _shown(program: str | None) -> str | None:
    """Return the path by which a sandbox, if there is one, can run a program; None: it has no such path."""
    confinement = own_children().confinement
    if program is None or confinement is None:
        return program
    return next((each for each in (program, os.path.realpath(program)) if confinement.shows(each)), None)


def python_search() -> list[str] | None:
    """Return the command of the search in Python, which takes ripgrep's arguments; None: no interpreter is known."""
    if not sys.executable:
        return None
    return own_program("from pinnace_agent.search.program import main; sys.exit(main(sys.argv[1:]))")


async def run_search(
    arguments: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    take: Callable[[bytes], bool],
    children: ChildProcesses | None = None,
) -> SearchEnd:
    """Run a search program and pass on its output. It is reaped when this returns or raises.

    Cancelling kills it.

    Args:
        arguments: The program's path and its arguments.
        cwd: The folder to run in.
        env: Its environment; what configures ripgrep is left out.
        take: Called with the output, piece by piece; once it returns true, the program is killed.
        children: The registry that starts it and can kill it; None: that of the agent.

    Raises:
        OSError: It can't be started.
        ValueError: An argument contains a NUL character.
    """
    async with work_turns():
        return await _run(arguments, cwd, env, take, children or own_children())


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
        access="read-only",
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
    if is_done and child.failure is not None:
        raise OSError(f"{child.failure}: {complaints.decode('utf-8', 'replace').strip()}")
    return SearchEnd(status, _without_prefix(complaints.decode("utf-8", "replace")), was_stopped)


async def _keep_beginning(stream: trio.abc.ReceiveStream, kept: bytearray) -> None:
    while chunk := await stream.receive_some(CHUNK_BYTES):
        kept += chunk[: MAX_BYTES - len(kept)]


def _without_prefix(complaints: str) -> str:
    """Remove the name that newer releases of ripgrep put before their errors."""
    return "\n".join(line.removeprefix("rg: ") for line in complaints.split("\n")).strip()


def _search_path(env: Mapping[str, str]) -> str:
    return env.get("PATH", os.defpath)


def _packaged_rg() -> str | None:
    """Return the `rg` among the scripts of the installed package."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        shipped = files(_RG_PACKAGE) or ()
    except PackageNotFoundError:
        return None
    paths = (os.path.normpath(str(file.locate())) for file in shipped if file.name == "rg")
    return next((path for path in paths if os.access(path, os.X_OK)), None)
