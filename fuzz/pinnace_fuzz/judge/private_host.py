"""A host of the run's own for the judge: its agents are reached by attaching, and are no children of what attaches.

Started with the program under judgement and ended with the run; its folder and socket are below the run's folder, so a
user's own host is never met. Cases have agent folders of their own, and a client finds the host by the lock in that
folder: each gets a hard link to the one lock.
"""

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pinnace_fuzz.process_tree import kill_each

_START_S: Final = 30.0
_POLL_S: Final = 0.01
_ASK_S: Final = 30.0
# Agents have 5 s to end, and their clients 2 s to read.
_END_S: Final = 20.0
# Agents that were begun and have ended are listed for a while.
_MAX_AGENTS: Final = 1000
_MAX_SOCKET_PATH: Final = 100
"""In bytes; systems allow 103 or more."""


class HostFailed(Exception):
    """The host does not start, or does not answer. The text has what it wrote."""


class PrivateHost:
    """A running host; made by `private_host`."""

    def __init__(self, program: Sequence[str], environment: Mapping[str, str]) -> None:
        """Take the program, and the environment that names the host's folder."""
        self._program = tuple(program)
        self._environment = environment
        self._lock = Path(environment["PI_CODING_AGENT_DIR"]) / "host" / "host.lock"

    def serve(self, agent_folder: Path) -> None:
        """Have clients with this agent folder find the host."""
        folder = agent_folder / "host"
        folder.mkdir(mode=0o700)
        os.link(self._lock, folder / self._lock.name)

    def processes(self, work: Path) -> list[int]:
        """Find the processes of the agents that work in a folder."""
        return [row["pid"] for row in self._agents(work) if isinstance(row["pid"], int)]

    def dismiss(self, work: Path) -> None:
        """Remove the agents that work in a folder: those that were killed are started again otherwise."""
        for row in self._agents(work):
            kill_each([row["pid"]] if isinstance(row["pid"], int) else [])
            self._ask("remove", row["name"])

    def _agents(self, work: Path) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self._ask("--json"))["agents"]
        return [row for row in rows if row["cwd"] == str(work)]

    def _ask(self, *words: str) -> str:
        asked = subprocess.run(
            (*self._program, "agents", *words),
            env=dict(self._environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=_ASK_S,
        )
        if asked.returncode and words[0] != "remove":  # it has ended meanwhile
            raise HostFailed(f"`agents {' '.join(words)}` ended with {asked.returncode}: {asked.stderr.strip()}")
        return asked.stdout


@contextmanager
def private_host(program: Sequence[str], environment: Mapping[str, str], folder: Path) -> Generator[PrivateHost]:
    """Run a host.

    Args:
        program: The command whose subcommands are `host`, `agents` and `attach`.
        environment: The host's; `PI_CODING_AGENT_DIR` is its agent folder.
        folder: Gets its socket and its log.

    Raises:
        HostFailed: It does not start.
    """
    with (
        _socket_folder(folder) as path,
        (folder / "host.log").open("wb") as log,
        # In this session, since orphans are of another one; in a group of its own, away from Ctrl-C.
        subprocess.Popen(
            (*program, "host", "--socket", str(path), "--max-agents", str(_MAX_AGENTS)),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
        ) as process,
    ):
        try:
            _await_socket(process, path, folder / "host.log")
            yield PrivateHost(program, environment)
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def _socket_folder(folder: Path) -> Generator[Path]:
    """Yield the path of a socket: below a folder, or in one of its own where that is too long for the system."""
    path = folder / "run" / "host.sock"
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        path.parent.mkdir(mode=0o700)
        yield path
    else:
        with tempfile.TemporaryDirectory(prefix="pinnace-", dir="/tmp") as short:
            yield Path(short) / "host.sock"


def _await_socket(process: "subprocess.Popen[bytes]", path: Path, log: Path) -> None:
    deadline_s = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline_s:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(path)) == 0:
                return
        time.sleep(_POLL_S)
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    raise HostFailed(f"the host did not start (exit code {process.poll()}): {text[-2000:]}")
