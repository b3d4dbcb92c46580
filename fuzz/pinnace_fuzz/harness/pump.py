"""Reads one pipe of a subprocess in a thread of its own, and can stop reading it, at once and exactly.

Independent of lines. After `pause` returns no further byte leaves the pipe; after `close` the writer at the
other end finds its reader gone.
"""

import fcntl
import os
import select
import struct
import termios
import threading
import time
from collections.abc import Callable

# More than a pipe holds by default, so that one call empties it.
READ_BYTES = 1024 * 1024


class Pump:
    """Owns the descriptor from construction on; the thread ends at the end of the pipe or by `close`."""

    def __init__(self, descriptor: int, take: Callable[[bytes, float], None], name: str) -> None:
        """Start reading.

        Args:
            descriptor: The read end.
            take: Called in the thread with each read's bytes and its monotonic time; with no bytes at the
                end, which is also what `close` leads to.
            name: Of the thread.
        """
        self._descriptor = descriptor
        self._take = take
        self._lock = threading.Lock()
        self._is_paused = False
        self._is_closed = False
        self._is_taking = False  # what was read is not handed on yet
        self._wake, self._waker = os.pipe()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Leave everything from now on in the pipe."""
        with self._lock:
            self._is_paused = True

    def resume(self) -> None:
        """Read again."""
        with self._lock:
            self._is_paused = False
            self._nudge()

    def close(self) -> None:
        """Close the read end; may be called more than once."""
        with self._lock:
            self._is_closed = True
            self._nudge()
        self._thread.join()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the pipe; return whether it came. It can't come while paused."""
        if self._is_paused:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def wait_taken(self, timeout_s: float) -> bool:
        """Wait until everything that is in the pipe by now is read and passed on; return whether it is."""
        deadline_s = time.monotonic() + timeout_s
        while not self._has_taken_all():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.001)  # a pipe does not report when it has been emptied
        return True

    def _has_taken_all(self) -> bool:
        with self._lock:
            if self._waker < 0:  # at its end
                return True
            (unread,) = struct.unpack("i", fcntl.ioctl(self._descriptor, termios.FIONREAD, bytes(4)))
            return not unread and not self._is_taking

    def _nudge(self) -> None:
        if self._waker >= 0:
            os.write(self._waker, b"!")

    def _run(self) -> None:
        try:
            while data := self._read():
                self._take(data, time.monotonic())
                self._is_taking = False
        finally:
            with self._lock:
                for descriptor in (self._descriptor, self._wake, self._waker):
                    os.close(descriptor)
                self._waker = -1
            self._take(b"", time.monotonic())

    def _read(self) -> bytes:
        while True:
            watched = [self._wake] if self._is_paused else [self._wake, self._descriptor]
            ready = _readable(watched)
            # The lock prevents a pause between the check of the flag and the read, which does not block.
            with self._lock:
                if self._is_closed:
                    return b""
                if self._wake in ready:
                    os.read(self._wake, 4096)
                if self._descriptor in ready and not self._is_paused:
                    self._is_taking = True
                    return os.read(self._descriptor, READ_BYTES)


def _readable(descriptors: list[int]) -> list[int]:
    # poll, since select refuses descriptors from 1024 on.
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poller.poll()]
