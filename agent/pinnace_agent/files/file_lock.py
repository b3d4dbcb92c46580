"""The lock on a configuration file that pi takes too: a folder `<file>.lock` beside it, for as long as it is changed.

The process that makes the folder has the lock and keeps its time fresh; a lock that was not touched for ten seconds was
left behind by a dead process, and is taken over. A holder that was stopped for so long detects that before it writes.
Blocking: waits in the calling thread.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

# pi's figure: both programs must agree on it, or one takes away what the other still holds.
STALE_S: Final = 10.0
# Half of it, so that one late refresh does no harm.
REFRESH_S: Final = STALE_S / 2
# A lock that was left behind is free after `STALE_S`; a process that holds one for longer than this hangs.
WAIT_S: Final = 15.0
# Changes take milliseconds, so this is a few tries at the most.
_POLL_S: Final = 0.02
_MODE: Final = 0o700


class LockHeld(Exception):
    """Another process has the lock and does not give it back. The text is for the user."""

    def __init__(self, path: Path, wait_s: float) -> None:
        super().__init__(
            f"{path}: another program has been changing this file for {wait_s:g} s. "
            "If there is none, remove the folder that is named."
        )


class FileLock:
    """A lock that is held. Made by `file_lock`, or with what `FileLock.descriptor` is in another process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Take over a descriptor of the lock's folder: as long as it is open, no other folder has its number."""
        self._path = path
        self.descriptor = descriptor
        """Of the folder: a process that gets it can hold the lock when this one does not any more."""
        self._released = threading.Event()
        self._refresher = threading.Thread(target=self._refresh, name="file-lock", daemon=True)
        self._refresher.start()

    def is_held(self) -> bool:
        """Return whether it is still ours, and make it as good as new."""
        try:
            is_ours = os.path.samestat(os.fstat(self.descriptor), os.stat(self._path))
            os.utime(self.descriptor)
        except OSError:
            return False
        return is_ours

    def release(self) -> None:
        """Give it back, unless another process has taken it over."""
        self._stop()
        if self.is_held():
            with suppress(OSError):
                os.rmdir(self._path)
        os.close(self.descriptor)

    def leave(self) -> None:
        """Leave it to a process that has its descriptor."""
        self._stop()
        os.close(self.descriptor)

    def _stop(self) -> None:
        self._released.set()
        self._refresher.join()

    def _refresh(self) -> None:
        while not self._released.wait(REFRESH_S):
            self.is_held()


def wait_on() -> None:
    """Let nothing but time end the waiting for a lock."""


@contextmanager
def file_lock(
    path: Path, wait_s: float = WAIT_S, check: Callable[[], None] = wait_on
) -> Generator[FileLock, None, None]:
    """Hold the lock of a file, which need not exist; its folder must. Arguments as of `take_lock`.

    Raises:
        LockHeld: It was not to be had in time.
        OSError: The folder of the file can't be written.
    """
    lock = take_lock(path, wait_s, check=check)
    try:
        yield lock
    finally:
        lock.release()


def take_lock(
    path: Path, wait_s: float = WAIT_S, stale_s: float = STALE_S, check: Callable[[], None] = wait_on
) -> FileLock:
    """Take the lock of a file, which `release` gives back. Raises as `file_lock` does.

    Args:
        path: The file.
        wait_s: How long to wait for another process; 0: not at all.
        stale_s: After how many seconds without a sign of life a lock was left behind, as its other users see it.
        check: Called again and again while another process is waited for; what it raises ends the waiting.
    """
    return _take(lock_of(path), wait_s, stale_s, check)


def lock_of(path: Path) -> Path:
    """Return the folder that is the lock of a file."""
    return path.with_name(f"{path.name}.lock")


def _take(path: Path, wait_s: float, stale_s: float, check: Callable[[], None]) -> FileLock:
    deadline = time.monotonic() + wait_s
    seen: tuple[int, int] | None = None
    seen_since = 0.0
    while True:
        with suppress(FileExistsError):
            os.mkdir(path, _MODE)
            return FileLock(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        now = time.monotonic()
        with suppress(FileNotFoundError):
            state = os.stat(path)
            stamp = (state.st_ino, state.st_mtime_ns)
            if stamp != seen:
                seen, seen_since = stamp, now
            # By the clock, or by our own patience: the clock of a file server may run ahead of ours.
            is_stale = time.time() - state.st_mtime > stale_s or now - seen_since > stale_s
            if is_stale and _remove_stale(path, stamp):
                continue
        if now >= deadline:
            raise LockHeld(path, wait_s)
        check()
        time.sleep(_POLL_S)


def _remove_stale(path: Path, stamp: tuple[int, int]) -> bool:
    """Remove what was left behind, if that is possible, and never the lock of another who did so a moment ago."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Held only by others at this point, for as long as it takes to remove a folder.
            fcntl.flock(folder, fcntl.LOCK_EX)
            state = os.stat(path)
            is_same = os.path.samestat(os.fstat(folder), state)
            if is_same and (state.st_ino, state.st_mtime_ns) == stamp:
                os.rmdir(path)
                return True
        finally:
            os.close(folder)
    return False
