"""Where a host is found, and whether it may be trusted: socket, its folder, the lock, the peer's user, the journals.

Both sides check: the folder of the socket must be the user's own, mode 0700 and no link; the peer must be a process of
the same user. The lock (`<agent folder>/host/host.lock`) is held by the one host of an agent folder, whose pid, machine
and socket it names; it ends with that process however it ends. The standard library alone, and of it what loads fast:
each attach loads this. Blocking.
"""

import errno
import fcntl
import json
import os
import socket
import stat
import struct
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # typing has it too, and takes a while to load
if TYPE_CHECKING:
    from collections.abc import Mapping

    from pinnace_agent.core.ports.system import System

SOCKET_NAME = "host.sock"
FOLDER_MODE = 0o700
FILE_MODE = 0o600
_MAX_SOCKET_BYTES = 107 if sys.platform == "linux" else 103
"""What `sun_path` holds, without its NUL."""
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LOCK_BYTES = 16 * 1024
# Of file systems that can't flush a folder.
_NO_FLUSH = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
# A reader that asks who holds the lock has it itself for a moment.
_TRIES = 10
_POLL_S = 0.02
# Linux: struct ucred has pid, uid, gid.
_PEER_OPTION: "int | None" = getattr(socket, "SO_PEERCRED", None)
_LINUX_CREDENTIALS = struct.Struct("=iII")
# macOS, <sys/un.h>: SOL_LOCAL, LOCAL_PEERCRED, and the first fields of struct xucred, version and uid.
_MAC_LEVEL = 0
_MAC_PEER = 1
_MAC_CREDENTIALS = struct.Struct("=II")
_MAC_CREDENTIALS_BYTES = 76


class LocationError(Exception):
    """A place can't be used or must not be trusted. The text names it and the reason."""


class FolderMissing(LocationError):
    """There is no such folder: not yet, or no more."""


class Holder:
    """The host that holds a lock, as it has written about itself."""

    def __init__(self, pid: int, machine: str, socket_path: str, release: str) -> None:
        """Keep it."""
        self.pid = pid
        self.machine = machine
        self.socket = socket_path
        self.release = release


class HostRuns(Exception):
    """Another host holds the lock of the agent folder."""

    def __init__(self, path: str, holder: Holder | None) -> None:
        """Word it for people; no holder: it has not written its name yet."""
        owner = (
            "another process"
            if holder is None
            else f"process {holder.pid} on {holder.machine} (socket {holder.socket}, release {holder.release})"
        )
        super().__init__(f"a host runs for this agent folder: {owner} holds {path}; end it with `pinnace host stop`")
        self.holder = holder


def default_socket(environment: "Mapping[str, str]") -> str:
    """Return the path of the socket where the user names none: in XDG_RUNTIME_DIR, else in the temporary files."""
    runtime = environment.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isabs(runtime):
        return os.path.join(runtime, "pinnace", SOCKET_NAME)
    if not (temporary := environment.get("TMPDIR")):
        from tempfile import gettempdir  # loads more than everything else here

        temporary = gettempdir()
    return os.path.join(os.path.abspath(temporary), f"pinnace-{os.getuid()}", SOCKET_NAME)


def check_socket_path(path: str) -> None:
    """Check that the system can have a socket of this name.

    Raises:
        LocationError: The path is too long, not absolute, or has a NUL.
    """
    length = len(os.fsencode(path))
    if length > _MAX_SOCKET_BYTES:
        raise LocationError(
            f"{path}: the path of a socket has at most {_MAX_SOCKET_BYTES} bytes, not {length}: choose a shorter one "
            "with --socket"
        )
    if not os.path.isabs(path) or "\0" in path:
        raise LocationError(f"{path!r}: the path of a socket must be absolute")


def check_folder(folder: str) -> None:
    """Check that a folder is the user's alone, by what itself says: a link is refused wherever it leads.

    Raises:
        FolderMissing: There is none.
        LocationError: It is not, or can't be examined.
    """
    try:
        state = os.lstat(folder)
    except FileNotFoundError as error:
        raise FolderMissing(f"{folder}: {error.strerror}") from None
    except OSError as error:
        raise LocationError(f"{folder}: {error.strerror}") from None
    if stat.S_ISLNK(state.st_mode):
        raise LocationError(f"{folder}: is a link; a folder of your own is needed there")
    if not stat.S_ISDIR(state.st_mode):
        raise LocationError(f"{folder}: is no folder")
    if state.st_uid != os.getuid():
        raise LocationError(f"{folder}: belongs to user {state.st_uid}, not to you ({os.getuid()})")
    if (mode := stat.S_IMODE(state.st_mode)) != FOLDER_MODE:
        raise LocationError(f"{folder}: other users may enter it, or you may not (mode {mode:03o}); `chmod 700` it")


def make_folder(folder: str, system: "System" = os) -> None:
    """Create a folder for the user alone, and those above it that are missing; one that exists is checked.

    Args:
        folder: Its path.
        system: Keeps it.

    Raises:
        LocationError: It can't be created, or is not the user's alone.
    """
    try:
        missing = [parent] if (parent := os.path.dirname(folder)) else []
        while missing and not os.path.isdir(missing[-1]) and (parent := os.path.dirname(missing[-1])) != missing[-1]:
            missing.append(parent)
        for each in reversed(missing):
            if not os.path.isdir(each):
                with suppress(FileExistsError):
                    system.mkdir(each, FOLDER_MODE)
        with suppress(FileExistsError):
            system.mkdir(folder, FOLDER_MODE)
            os.chmod(folder, FOLDER_MODE)  # whatever the umask left of it
    except OSError as error:
        raise LocationError(f"{error.filename or folder}: {error.strerror}") from None
    check_folder(folder)


def flush_names(folder: str, system: "System" = os) -> None:
    """Bring the names in a folder to the disk, and its own name, with those of the folders above it.

    A process that has made a folder may have been killed before its name was on the disk, so all those above count that
    are for the user alone, as `make_folder` makes them, and the first one that is not. Blocking.

    Raises:
        OSError: The disk does not take them.
    """
    while True:
        descriptor = system.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            system.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_FLUSH:
                raise
        finally:
            system.close(descriptor)
        try:
            check_folder(folder)
        except LocationError:
            return
        if (above := os.path.dirname(folder)) == folder or not os.access(above, os.R_OK):
            return
        folder = above


def peer_uid(connection: socket.socket) -> int:
    """Return the user of the process at the other end of a socket.

    Raises:
        LocationError: The system does not say.
    """
    try:
        if _PEER_OPTION is not None:
            credentials = connection.getsockopt(socket.SOL_SOCKET, _PEER_OPTION, _LINUX_CREDENTIALS.size)
            uid: int = _LINUX_CREDENTIALS.unpack(credentials)[1]
        else:
            credentials = connection.getsockopt(_MAC_LEVEL, _MAC_PEER, _MAC_CREDENTIALS_BYTES)
            uid = _MAC_CREDENTIALS.unpack_from(credentials)[1]
    except (OSError, struct.error) as error:
        raise LocationError(f"the system does not say which user has the other end of the socket: {error}") from None
    return uid


def peer_pid(connection: socket.socket) -> int:
    """Return the number of the process that has connected; 0: it is in a container that this one does not see. Linux.

    Raises:
        LocationError: The system does not say.
    """
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX_CREDENTIALS.size)
        pid: int = _LINUX_CREDENTIALS.unpack(credentials)[0]
    except (OSError, struct.error) as error:
        raise LocationError(f"the system does not say which process has the other end of the socket: {error}") from None
    return pid


def check_peer(connection: socket.socket) -> None:
    """Check that the process at the other end of a socket is of the same user.

    Raises:
        LocationError: It is not, or the system does not say.
    """
    if (uid := peer_uid(connection)) != os.getuid():
        raise LocationError(f"the other end of the socket belongs to user {uid}, not to you ({os.getuid()})")


def host_folder(agent_folder: str) -> str:
    """Return the folder of the host's own files in an agent folder: lock, log, journals."""
    return os.path.join(agent_folder, "host")


def lock_path(agent_folder: str) -> str:
    """Return the path of the lock of an agent folder's host."""
    return os.path.join(host_folder(agent_folder), "host.lock")


def log_path(agent_folder: str) -> str:
    """Return the path of the file to which a host logs that runs in no terminal."""
    return os.path.join(host_folder(agent_folder), "host.log")


def journals_folder(agent_folder: str) -> str:
    """Return the folder that holds one folder for each agent, by its name."""
    return os.path.join(host_folder(agent_folder), "agents")


class HostLock:
    """The right to be the host of an agent folder, until `release` or the end of the process."""

    def __init__(self, path: str, descriptor: int) -> None:
        """Take over a descriptor that holds the lock. For `take`."""
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, agent_folder: str, socket_path: str, release: str) -> "HostLock":
        """Take the lock and write into it who holds it.

        Raises:
            HostRuns: Another process has it.
            LocationError: The folder is not the user's alone, or the file can't be locked.
        """
        make_folder(host_folder(agent_folder))
        path = lock_path(agent_folder)
        try:
            descriptor = os.open(path, _LOCK_FLAGS, FILE_MODE)
        except OSError as error:
            raise LocationError(f"{path}: {error.strerror}") from None
        try:
            _lock(path, descriptor)
            holder = {"pid": os.getpid(), "machine": socket.gethostname(), "socket": socket_path, "release": release}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(holder).encode("ascii") + b"\n", 0)
            os.fchmod(descriptor, FILE_MODE)
        except OSError as error:
            os.close(descriptor)
            raise LocationError(f"{path}: {error.strerror}") from None
        except HostRuns:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def release(self) -> None:
        """Give the lock back; the file stays, since removing it would let two processes hold one each."""
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def running_host(agent_folder: str) -> Holder | None:
    """Return who is the host of an agent folder at this moment, or None. Waits a moment for one that has just begun.

    Raises:
        LocationError: The lock can't be examined, or is not the user's.
    """
    path = lock_path(agent_folder)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocationError(f"{path}: {error.strerror}") from None
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise LocationError(f"{path}: belongs to another user")
        for _ in range(_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                if (holder := _read_holder(descriptor)) is not None:
                    return holder
            else:
                return None
            time.sleep(_POLL_S)  # it has the lock, and not yet written who it is
        return None
    except OSError as error:
        raise LocationError(f"{path}: {error.strerror}") from None
    finally:
        os.close(descriptor)


def pause() -> None:
    """Wait for a moment, in a loop that asks whether a host has ended."""
    time.sleep(_POLL_S)


def _lock(path: str, descriptor: int) -> None:
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
        else:
            return
        time.sleep(_POLL_S)
    raise HostRuns(path, _read_holder(descriptor))


def _read_holder(descriptor: int) -> Holder | None:
    try:
        value: object = json.loads(os.pread(descriptor, _MAX_LOCK_BYTES, 0))
    except ValueError:
        return None
    match value:
        case {"pid": int(pid), "machine": str(machine), "socket": str(path), "release": str(release)}:
            return Holder(pid, machine, path, release)
        case _:
            return None
