"""Finds out at the start whether a mechanism works, by running `true` inside the complete sandbox.

Nothing is concluded from versions or settings of the system alone: what counts is that the program ran. The texts say
what would help. Blocking.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from pinnace_agent.core.ports.confinement import Confinement, LaunchedProgram, ProgramStart
from pinnace_agent.files.protected import is_inside
from pinnace_agent.sandbox.launcher import Bubblewrap
from pinnace_agent.sandbox.seccomp import MACHINES
from pinnace_agent.shell.child_processes import ChildProcesses

_PROBE_S: Final = 10.0
_PROBE_STATUS: Final = 23
"""No program that fails before the probe exits with it."""
_PROBE: Final = ("/bin/sh", "-c", f"exit {_PROBE_STATUS}")
_REAP_S: Final = 1.0
_COMPLAINT_BYTES: Final = 4096
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_OLDEST: Final = (0, 5, 0)
"""The first one with `--perms`."""
_WITH_DISABLE_USERNS: Final = (0, 8, 0)

_REMEDIES: Final = (
    (
        "No permissions to create new namespace",
        "a kernel setting or the container's seccomp profile refuses user namespaces, as Docker's default profile "
        "does: allow them for this container, or rely on the container and start with --sandbox off",
    ),
    (
        "setting up uid map",
        "this user may not map users: root needs CAP_SETFCAP and CAP_SYS_ADMIN, and AppArmor may restrict user "
        "namespaces: run as an ordinary user, or add an AppArmor profile for bwrap",
    ),
    (
        "Can't mount proc",
        "/proc is partly covered, as in containers; the machine's own /proc is not used instead, since it shows the "
        "agent's environment: uncover it for this container, or rely on the container and start with --sandbox off",
    ),
    (
        "nesting depth or /proc/sys/user/max_",
        "this is inside another sandbox that forbids further ones, or the limit of namespaces is 0: raise "
        "/proc/sys/user/max_user_namespaces, or rely on the outer sandbox and start with --sandbox off",
    ),
    (
        "Unexpected capabilities",
        "bubblewrap does not run with capabilities of an ordinary user: start the agent without ambient capabilities",
    ),
    ("Unknown option", "bubblewrap is too old: install 0.5.0 or newer"),
    (
        "Permission denied",
        "a security module may restrict user namespaces, as AppArmor does on Ubuntu: add a profile for bwrap, or run "
        "where they are allowed",
    ),
)
_INSTALL: Final = "install the package bubblewrap, for example `apt install bubblewrap`"
NOT_FOUND: Final = f"bubblewrap (bwrap) was not found: {_INSTALL}"


class Unavailable(Exception):
    """The mechanism does not work here; the text says why and what would help."""


class ProbeResult(NamedTuple):
    """How `true` ended inside the sandbox."""

    failure: str | None
    """None: it ran."""


def find_bubblewrap(env: Mapping[str, str], writable: Sequence[str] = ()) -> Bubblewrap:
    """Return the bubblewrap of this machine.

    Args:
        env: The environment.
        writable: Folders that commands can write, in this mode or another: a program in them is not used, since a
            command of an earlier session may have made it. Resolved.

    Raises:
        Unavailable: There is none, or it is too old, or the machine is unknown.
    """
    if os.uname().sysname != "Linux":
        raise Unavailable("bubblewrap works on Linux alone: run the agent in a container, with --sandbox off")
    if os.uname().machine not in MACHINES:
        raise Unavailable(
            f"there is no filter of system calls for {os.uname().machine}, only for {', '.join(MACHINES)}"
        )
    # Absolute folders alone: a project must not bring its own.
    folders = [each for each in env.get("PATH", os.defpath).split(os.pathsep) if each.startswith("/")]
    found_there = None
    program = None
    for folder in folders:
        if (there := shutil.which("bwrap", path=folder)) is None:
            continue
        if not any(is_inside(os.path.realpath(there), each) for each in writable):
            program = there
            break
        found_there = found_there or there
    if program is None and found_there is not None:
        raise Unavailable(
            f"{found_there} is not used, since commands can write there, and there is no other: {_INSTALL}"
        )
    if program is None:
        raise Unavailable(NOT_FOUND)
    try:
        shown = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{program} does not run: {error}") from None
    found = _VERSION.search(shown)
    if found is None:
        raise Unavailable(f"{program} --version shows no version: {shown.strip()[:80]!r}")
    version = tuple(map(int, found.groups()))
    if version < _OLDEST:
        raise Unavailable(f"{program} is bubblewrap {found[0]}: install 0.5.0 or newer")
    return Bubblewrap(program, found[0], version >= _WITH_DISABLE_USERNS)


def probe(confinement: Confinement, env: Mapping[str, str], cwd: str) -> None:
    """Run `true` inside the sandbox.

    Raises:
        Unavailable: It did not run.
    """
    try:
        confined = confinement.confine(ProgramStart(_PROBE, env, cwd))
    except (OSError, ValueError) as error:
        raise Unavailable(error.strerror or str(error) if isinstance(error, OSError) else str(error)) from None
    try:
        process = confined.launch(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.PIPE)
        try:
            confined.release()
        finally:
            status, complaints = _end_of(process)
        if status is None:
            raise Unavailable(f"no sandbox was set up within {_PROBE_S:.0f} s")
        failure = confined.failure(status)
        if failure is not None or status != _PROBE_STATUS:
            raise Unavailable(remedy(complaints.decode("utf-8", "replace").strip(), status))
    except OSError as error:
        raise Unavailable(f"the sandbox does not run: {error}") from None
    finally:
        confined.close()


async def probe_as_child(children: ChildProcesses, confinement: Confinement, cwd: str) -> None:
    """Do so in a process that runs already: by its registry of children, which reaps all others.

    Raises:
        Unavailable: It did not run.
        OSError: It could not be started.
    """
    child = await children.start(
        _PROBE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=cwd, confinement=confinement
    )
    complaints = bytearray()
    is_done = False
    stderr = child.process.stderr
    assert stderr is not None
    try:
        with trio.move_on_after(_PROBE_S):
            while data := await stderr.receive_some(_COMPLAINT_BYTES):
                complaints += data[: _COMPLAINT_BYTES - len(complaints)]
            await child.exited()
            is_done = True
    finally:
        child.kill()
        status = await child.reap(_REAP_S)
        with trio.CancelScope(shield=True):  # closing a pipe waits for nothing
            await stderr.aclose()
    if not is_done:
        raise Unavailable(f"no sandbox was set up within {_PROBE_S:.0f} s")
    if child.failure is not None or status != _PROBE_STATUS:
        raise Unavailable(remedy(complaints.decode("utf-8", "replace").strip(), status or 0))


def _end_of(process: LaunchedProgram) -> tuple[int | None, bytes]:
    """Wait for the end of a probe, and kill it if it does not come; return its status, None then, and its stderr."""
    end = time.monotonic() + _PROBE_S
    status: int | None = None
    complaints = b""
    _, _, errors = process.ends
    assert errors is not None
    with os.fdopen(errors, "rb", buffering=0) as stream:
        while select.select([stream], [], [], max(0, end - time.monotonic()))[0] and (data := stream.read(65536)):
            complaints += data
    while (status := process.poll()) is None and time.monotonic() < end:
        time.sleep(0.001)  # it has closed its stderr, and exits
    if status is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        while process.poll() is None:
            time.sleep(0.001)
    return status, complaints


def remedy(complaint: str, status: int) -> str:
    """Return the complaint of a mechanism, its meaning, and a remedy."""
    shown = complaint[-500:] or f"the set-up has ended with {status} without a word"
    advice = next((text for sign, text in _REMEDIES if sign in complaint), None)
    if advice is None:
        return f"{shown}. Nothing was run: see the page on the sandbox, or start with --sandbox off"
    return f"{shown}: {advice}"
