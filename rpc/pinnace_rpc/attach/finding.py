"""Finds the host of an agent folder, and starts one where none runs.

The lock of the folder names the host and its socket. Nothing is sent before the folder of the socket and the user of
the process behind it were checked: the first message holds the client's environment, and with it keys. A host that is
started here outlives this process: it has a session, a folder and descriptors of its own, and of the environment only
what a host needs, so that no agent can find the keys of the client that came first. Standard library only.
"""

import os
import socket
import sys
import time

from pinnace_rpc.host.locations import (
    FolderMissing,
    LocationError,
    check_folder,
    check_peer,
    host_folder,
    log_path,
    make_folder,
    running_host,
)

TYPE_CHECKING = False  # typing has it too, and takes a while to load
if TYPE_CHECKING:
    from collections.abc import Mapping
    from subprocess import Popen

    from pinnace_rpc.host.locations import Holder

EXIT_FAILED = 1
EXIT_UNAVAILABLE = 69
AGENT_DIR_VARIABLE = "PI_CODING_AGENT_DIR"
_START_S = 15.0
"""How long a host may take until it can be connected to, on a machine that is busy."""
_POLL_S = 0.01
_STARTS = 3
"""A host that ends while it starts has met another one that was about to end, or can't start at all."""
_ERROR_BYTES = 4096
_HOST_VARIABLES = frozenset(
    "HOME LANG LANGUAGE LOGNAME PATH PI_CODING_AGENT_DIR SHELL TMPDIR TZ USER XDG_RUNTIME_DIR".split()
)
_HOST_PREFIXES = ("LC_", "PYTHON", "LD_", "DYLD_", "MALLOC_")
"""What only the start of an interpreter can apply: agents with the same values can be forked."""


class NoHost(Exception):
    """There is no host to connect to. The text is for the user."""

    def __init__(self, text: str, exit_code: int = EXIT_FAILED) -> None:
        """Keep both."""
        super().__init__(text)
        self.exit_code = exit_code


def agent_folder(environment: "Mapping[str, str]") -> str:
    """Return the folder of the user's settings, whose host is meant; as `pinnace_agent.files.paths.agent_dir`."""
    home = environment.get("HOME") or os.path.expanduser("~")
    chosen = environment.get(AGENT_DIR_VARIABLE)
    if not chosen:
        return os.path.join(home, ".pi", "agent")
    if chosen == "~" or chosen.startswith("~/"):
        chosen = home + chosen[1:]
    return os.path.abspath(chosen)


def connect(environment: "Mapping[str, str]", *, starts: bool) -> socket.socket:
    """Return a connection to the host of the environment's agent folder, whose user is this process' user.

    Args:
        environment: That of the client.
        starts: Whether to start a host if none runs.

    Raises:
        NoHost: There is none, or it can't be reached or started.
    """
    folder = agent_folder(environment)
    started: _Started | None = None
    starts_left = _STARTS
    deadline = time.monotonic() + _START_S
    try:
        while True:
            holder = running_host(folder)
            if holder is not None:
                if (connection := _connected(holder)) is not None:
                    if started is not None and not started.is_holder(holder):
                        started.end()
                    return connection
            elif not starts:
                raise NoHost(f"no host runs for {folder}: start it with `pinnace host`", EXIT_UNAVAILABLE)
            elif started is None or started.has_ended():
                if not starts_left:
                    raise NoHost(f"the host can't be started: {'' if started is None else started.error()}")
                starts_left -= 1
                started = _Started(folder, environment)
            if time.monotonic() > deadline:
                where = log_path(folder)
                raise NoHost(f"the host of {folder} can't be reached within {_START_S:.0f} seconds; its log is {where}")
            time.sleep(_POLL_S)
    except LocationError as error:
        raise NoHost(str(error)) from None


def _connected(holder: "Holder") -> "socket.socket | None":
    """Return a connection to a host; None: it does not listen yet, or no more."""
    if holder.machine != socket.gethostname():
        raise NoHost(
            f"the host of this agent folder runs on {holder.machine} (process {holder.pid}): attach there, or end it",
            EXIT_UNAVAILABLE,
        )
    try:
        check_folder(os.path.dirname(holder.socket))
    except FolderMissing:
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(holder.socket)
        check_peer(connection)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise NoHost(f"{holder.socket}: {error.strerror or error}") from None
    except LocationError:
        connection.close()
        raise
    return connection


class _Started:
    """A host that was started here."""

    def __init__(self, folder: str, environment: "Mapping[str, str]") -> None:
        """Start it, detached from this process and its terminal."""
        import subprocess  # takes longer to load than everything else here

        make_folder(host_folder(folder))
        self._log_path = log_path(folder)
        try:
            log = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NoHost(f"{self._log_path}: {error.strerror}") from None
        self._log_start = os.fstat(log).st_size
        try:
            self._process: Popen[bytes] = subprocess.Popen(
                [sys.executable, "-P", "-m", "pinnace_rpc", "host"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=host_environment(environment),
                start_new_session=True,
                umask=0o077,
            )
        except OSError as error:
            raise NoHost(f"the host can't be started: {error.strerror}") from None
        finally:
            os.close(log)

    def has_ended(self) -> bool:
        """Return whether it is no host: another one was faster, or it can't start."""
        return self._process.poll() is not None

    def is_holder(self, holder: "Holder") -> bool:
        """Return whether it is the host that holds the lock."""
        return holder.pid == self._process.pid

    def end(self) -> None:
        """End it while it starts, since another one was faster: it would be the next host if that one is stopped."""
        self._process.terminate()

    def error(self) -> str:
        """Return the end of what it has logged."""
        try:
            with open(self._log_path, "rb") as log:
                log.seek(self._log_start)
                text = log.read(_ERROR_BYTES).decode("utf-8", "replace").strip()
        except OSError:
            text = ""
        last = text.rpartition("\n")[2].removeprefix("pinnace: ")
        return last or f"exit code {self._process.returncode}; its log is {self._log_path}"


def host_environment(environment: "Mapping[str, str]") -> dict[str, str]:
    """Return what a host gets of a client's environment: what names places, and what its interpreter needs."""
    found = {
        name: value for name, value in environment.items() if name in _HOST_VARIABLES or name.startswith(_HOST_PREFIXES)
    }
    if AGENT_DIR_VARIABLE in environment:
        found[AGENT_DIR_VARIABLE] = agent_folder(environment)  # its own folder is another one
    return found
