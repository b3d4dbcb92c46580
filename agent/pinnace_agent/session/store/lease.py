"""The lease of a session file: one process at a time may append to it.

A lock of the operating system on a sidecar, `<session>.jsonl.lease`, that names its holder for people. The lock ends
with the process however it ends, so a file that was left behind holds nothing off. Readers need no lease. A holder that
is about to end says so in the file, and is waited for; one whose flush of the session has failed leaves a mark for the
next one. Programs that don't use leases are not prevented from writing; `append_file` detects that. Rule R-SES-06.
"""

import errno
import fcntl
import json
import os
import socket
import stat
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, cast

import trio

from pinnace_agent.core.surroundings import PerAgent, system

_MODE: Final = 0o600
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
# Errors of file systems without locks; ENOLCK is a network file system whose lock service does not run.
_NO_LOCKS: Final = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL})
_POLL_S: Final = 0.05
PAUSE: Final = PerAgent(lambda: time.sleep)
"""How a thread waits for another process."""
# A holder writes its name right after it has the lock, but may not be scheduled in between.
_NAMING_S: Final = 0.5
_NAMING_POLL_S: Final = 0.005
# Each try without a result means that a holder released the lease in between; so many in a row are no chance.
_MAX_TRIES: Final = 1000
# Three short fields.
_MAX_CONTENT_BYTES: Final = 4096


class Holder(NamedTuple):
    """The process that has a lease, in its own words."""

    pid: int
    host: str
    started: str
    """When it took the lease: ISO 8601, UTC."""
    age_s: float
    is_ending: bool = False
    """Whether it has begun to end, which takes it a few seconds at most."""


class LeaseHeld(Exception):
    """Another process has the session."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        """Word it for people.

        Args:
            path: The session file.
            holder: None if it has not written its name, as on a full disk.
        """
        owner = "another process" if holder is None else _describe(holder)
        in_use = f"Session is in use: {path}: {owner} writes to it."
        self.text = f"{in_use} End that process, or start with --fork to continue in a copy."
        self.append_text = f"{in_use} Nothing was appended. End that process, or fork or clone the session."
        """For a process that has the session open, and wants to append."""
        super().__init__(self.text)
        self.holder = holder


# DEVIATION D-22: one writer a file.
class Lease:
    """The right to append to a session file, until `release` or the end of the process."""

    def __init__(self, path: Path, descriptor: int, *, is_enforced: bool) -> None:
        """Take over a descriptor that holds the lock, and sign. For `take`."""
        self.path = path
        """Of the sidecar."""
        self.is_enforced = is_enforced
        """False on a file system without locks: nothing keeps another process away."""
        self.is_content_lost = _fields(descriptor).get("contentLost") is True
        """Whether a flush of the session's content has failed, in this process or a former one, and it was not written
        anew since: what a process reads of it may be in the memory of the system alone."""
        self._descriptor: int | None = descriptor
        self._started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._is_ending = False
        self._signing = threading.Lock()
        self._sign()

    @classmethod
    def take(cls, path: Path, *, waits_for_name: bool = True) -> "Lease":
        """Take the lease of a session file, which need not exist; its folder must.

        Waits for nothing but the name of a new holder, and for that only if it may.

        Raises:
            LeaseHeld: Another process has it, or this one under another `Lease`.
            OSError: The sidecar can't be made or opened, or is no regular file.
        """
        waited_s = 0.0
        while True:
            try:
                return cls._try(path)
            except LeaseHeld as held:
                if held.holder is not None or not waits_for_name or waited_s >= _NAMING_S:
                    raise
            waited_s += _pause(_NAMING_POLL_S)

    @classmethod
    def _try(cls, path: Path) -> "Lease":
        sidecar = sidecar_of(path)
        for _ in range(_MAX_TRIES):
            descriptor = _open(sidecar)
            if descriptor is None:
                continue
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError(errno.EINVAL, "not a regular file", str(sidecar))
                is_enforced = _lock(descriptor, path)
                is_current = _is_at(sidecar, descriptor)
                if is_current and os.fstat(descriptor).st_nlink <= 1:
                    return cls(sidecar, descriptor, is_enforced=is_enforced)
                if is_current:
                    # It has another name as well (a hard link), where nothing may be written: only this one goes.
                    system().unlink(sidecar)
            except BaseException:
                system().close(descriptor)
                raise
            # Released between the opening and the lock, or removed here: another file counts by now.
            system().close(descriptor)
        raise LeaseHeld(path, None)

    def is_in_place(self) -> bool:
        """Whether the sidecar is still there. If it was deleted, another process can take a lease as well."""
        return self._descriptor is not None and _is_at(self.path, self._descriptor)

    def announce_end(self) -> None:
        """Announce to processes that want the session that this process will release it in a few seconds."""
        self._is_ending = True
        self._sign()

    def mark_content(self, *, is_lost: bool) -> None:
        """Leave word for the next holder whether a flush of the session's content has failed. In any thread.

        The mark need not reach the disk: a loss of power takes what was in memory alone as well.
        """
        if is_lost != self.is_content_lost:
            self.is_content_lost = is_lost
            self._sign()

    def release(self) -> None:
        """Let others write. Does nothing the second time.

        The sidecar is removed before the lock is released: a process that has waited for the lock finds that its file
        is no longer the one at the path. One with a mark stays.
        """
        with self._signing:
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if not self.is_content_lost and _is_at(self.path, descriptor):
            with suppress(OSError):  # a folder that has become read-only; without its lock the file means nothing
                system().unlink(self.path)
        system().close(descriptor)

    def _sign(self) -> None:
        """Write the name of this process, over what a former holder may have left."""
        fields: dict[str, object] = {"pid": os.getpid(), "host": socket.gethostname(), "started": self._started}
        if self._is_ending:
            fields["ending"] = True
        if self.is_content_lost:
            fields["contentLost"] = True
        content = json.dumps(fields).encode() + b"\n"
        with self._signing, suppress(OSError):  # a full disk: the lock is what counts
            if self._descriptor is not None and _is_at(self.path, self._descriptor):
                # In this order a reader always finds one whole first line.
                os.pwrite(self._descriptor, content, 0)
                os.ftruncate(self._descriptor, len(content))


def take_waiting(path: Path, timeout_s: float, *, waits_for_all: bool = True) -> Lease:
    """Take a lease, waiting in this thread for another holder to go.

    Args:
        path: The session file.
        timeout_s: How long to wait.
        waits_for_all: Whether also for a holder that has not begun to end.

    Raises:
        LeaseHeld: It has not gone in time.
        OSError: As in `Lease.take`.
    """
    waited_s = 0.0
    while True:
        try:
            return Lease.take(path)
        except LeaseHeld as held:
            if waited_s >= timeout_s or not (waits_for_all or _is_ending(held)):
                raise
        waited_s += _pause(_POLL_S)


async def take_lease(path: Path, timeout_s: float, *, waits_for_all: bool = True) -> Lease:
    """Do the same while other tasks run. If it is cancelled, no lease is taken.

    Raises:
        LeaseHeld: The other holder has not gone in time.
        OSError: As in `Lease.take`.
    """
    deadline = trio.current_time() + timeout_s
    while True:
        try:
            # Not abandoned when cancelled: a lease without an owner would stay. Cancelled only before it begins.
            return await trio.to_thread.run_sync(Lease.take, path)
        except LeaseHeld as held:
            if trio.current_time() >= deadline or not (waits_for_all or _is_ending(held)):
                raise
        await trio.sleep(_POLL_S)


def sidecar_of(path: Path) -> Path:
    """Return where the lease of a session file is."""
    return path.with_name(f"{path.name}.lease")


def _pause(duration_s: float) -> float:
    PAUSE.get()(duration_s)
    return duration_s


def _is_ending(held: LeaseHeld) -> bool:
    return held.holder is not None and held.holder.is_ending


def _open(sidecar: Path) -> int | None:
    """Open or make the sidecar; None if it went in between."""
    try:
        descriptor = system().open(sidecar, _FLAGS | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError:
        try:
            return system().open(sidecar, _FLAGS)
        except FileNotFoundError:
            return None
    with suppress(OSError):  # a file system without modes
        os.fchmod(descriptor, _MODE)  # the umask may have taken rights from us
    return descriptor


def _lock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LeaseHeld(path, read_holder(descriptor)) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def _fields(descriptor: int) -> dict[str, object]:
    """Return what is in an open sidecar; nothing: it is empty or odd."""
    try:
        content = os.pread(descriptor, _MAX_CONTENT_BYTES, 0)
        fields: object = json.loads(content.partition(b"\n")[0])
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, object]", fields) if isinstance(fields, dict) else {}


def read_holder(descriptor: int) -> Holder | None:
    """Return who has signed an open sidecar; None: no process that runs."""
    fields = _fields(descriptor)
    match fields:
        case {"pid": int(pid), "host": str(host), "started": str(started)}:
            pass
        case _:
            return None
    if host == socket.gethostname() and not _is_running(pid):
        return None  # left by a former holder: the present one has the lock and has not written yet
    try:
        age_s = (datetime.now(UTC) - datetime.fromisoformat(started)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    match fields:
        case {"ending": True}:
            is_ending = True
        case _:
            is_ending = False
    return Holder(pid, host, started, max(0.0, age_s), is_ending)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _describe(holder: Holder) -> str:
    host = "" if holder.host == socket.gethostname() else f" on {holder.host}"
    return f"process {holder.pid}{host}, for {_duration(holder.age_s)},"


def _duration(age_s: float) -> str:
    if age_s < 120:
        return f"{age_s:.0f} s"
    if age_s < 2 * 3600:
        return f"{age_s / 60:.0f} min"
    return f"{age_s / 3600:.0f} h"
