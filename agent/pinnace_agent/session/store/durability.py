"""Flushes of one file to the disk: in one worker thread, shared by the callers that wait for them.

A caller waits for a flush that began after its bytes were written, and flushes never overlap. A caller may be
cancelled: the thread finishes, and the file stays open for it. Rule R-SES-05.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.core.surroundings import system
from pinnace_agent.files.folders import flush_folder

# A file system that can't flush at all: better is not to be had there, and every save would fail.
_NO_FLUSH: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class Descriptor:
    """An open file that is closed when its last user is done with it, in whichever thread that is."""

    def __init__(self, number: int) -> None:
        """Take over a descriptor, as its first user."""
        self.number: Final = number
        self._system = system()
        self._users = 1
        self._lock = threading.Lock()

    def hold(self) -> None:
        """Become a further user. Only a present user may call it for another."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Be done with it."""
        with self._lock:
            self._users -= 1
            is_last = self._users == 0
        if is_last:
            with suppress(OSError):  # NFS reports a failed write here; callers that need to know have flushed before
                self._system.close(self.number)


class Flush:
    """A flush of the file and of its folders, and the writes that it makes safe."""

    def __init__(self, target: int, end: int, folders: list[Path]) -> None:
        """Take the state of the file when it starts.

        Args:
            target: The number of the last write in it.
            end: The file's size.
            folders: To be flushed as well.
        """
        self.target: Final = target
        self.end = end
        self.folders: Final = folders
        self.done: Final = trio.Event()
        # Until it is done, so that only success looks like success.
        self.error: OSError | None = OSError(errno.EIO, os.strerror(errno.EIO))
        self.is_content_lost = False


class Durability:
    """Counts writes, and knows up to which of them the disk has everything."""

    def __init__(self, flush: Callable[[int], None], *, note_lost: Callable[[], None], is_content_lost: bool) -> None:
        """Begin with nothing written.

        Args:
            flush: Brings a descriptor's content to the disk: `fdatasync`.
            note_lost: Called in the thread in which a flush of the content has failed, before anything else.
            is_content_lost: Whether one of a former process has failed.
        """
        self.written = 0
        self.durable = 0
        self.durable_end = 0
        """Bytes of the file that are on the disk."""
        self.error: OSError | None = None
        """Why the last flush failed; None once one has succeeded."""
        self.is_content_lost = is_content_lost
        """A flush of the content has failed. The kernel reports that once and drops what it could not write, so a
        later flush of the same file proves nothing."""
        self.running: Flush | None = None
        self._flush = flush
        self._note_lost = note_lost
        self._folders: list[Path] = []

    def wrote(self) -> None:
        """Count a write, or another change that must reach the disk."""
        self.written += 1

    def shortened(self, end: int) -> None:
        """Count that the file has fewer bytes now, so that those which come there are not taken for flushed."""
        self.wrote()
        self.durable_end = min(self.durable_end, end)
        if self.running is not None:
            self.running.end = min(self.running.end, end)

    def add_folders(self, folders: Iterable[Path]) -> None:
        """Flush these too the next time: names were made in them."""
        self._folders.extend(folders)
        self.written += 1

    def start(self, descriptor: Descriptor, end: int) -> Flush:
        """Start a flush of all that was written until now. There must be none running."""
        assert self.running is None
        folders, self._folders = self._folders, []
        new = self.running = Flush(self.written, end, folders)
        token = trio.lowlevel.current_trio_token()
        descriptor.hold()

        context = copy_context()  # a thread has none of its own

        def work() -> None:
            try:
                context.run(self._bring_to_disk, descriptor.number, new)
            finally:
                descriptor.release()

        def deliver(_outcome: object) -> None:
            with suppress(trio.RunFinishedError):  # the process ends: no caller waits
                token.run_sync_soon(self._finish, new)

        try:
            trio.lowlevel.start_thread_soon(work, deliver, "session flush")
        except RuntimeError:  # no further thread: a passing shortage, and the next caller tries again
            descriptor.release()
            new.error = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self._finish(new)
        return new

    def _bring_to_disk(self, number: int, flushed: Flush) -> None:
        try:
            self._flush(number)
        except OSError as error:
            if error.errno not in _NO_FLUSH:
                flushed.is_content_lost = True
                flushed.error = error
                self._note_lost()
                return
        try:
            for folder in flushed.folders:
                flush_folder(folder)
        except OSError as error:
            flushed.error = error
            return
        flushed.error = None

    def _finish(self, flushed: Flush) -> None:
        self.running = None
        if flushed.error is None:
            self.durable = max(self.durable, flushed.target)
            self.durable_end = max(self.durable_end, flushed.end)
            self.error = None
        else:
            self._folders = flushed.folders + self._folders
            self.error = flushed.error
            self.is_content_lost = self.is_content_lost or flushed.is_content_lost
        flushed.done.set()

    def content_restored(self, folders: Iterable[Path]) -> None:
        """Everything has been written anew, to another file; its name, in `folders`, is still to be flushed."""
        self.is_content_lost = False
        self.add_folders(folders)
