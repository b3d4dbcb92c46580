"""Ends a process whose event loop doesn't end by itself.

Code of an extension may block the event loop, or ignore its cancellation. A thread outside the loop ends the process
then: when the time for a shutdown is over, and at once when a second signal comes. It reads the numbers of signals from
the descriptor that the interpreter's own C code writes them to, so it gets them while the main thread is in C or Python
code that never returns. Has no access to what is saved and to the exit code: these belong to `leave`.
"""

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from pinnace_rpc.server.stdio import SHUTDOWN_SIGNALS

_log = logging.getLogger("pinnace.process")

# A loop that does not respond within this time is blocked: it is stopped, so that its data can be saved.
PARK_S: Final = 0.2
# Saving waits for the disk, which may have stopped: the process doesn't wait longer than this.
SAVE_S: Final = 1.0
# How often the loop is probed after stdin has ended.
PULSE_S: Final = 0.25
_WAKE: Final = b"\0"  # no signal's number


class LastResort:
    """A thread that ends the process when its time is over. Start it in the main thread, in the event loop."""

    def __init__(
        self,
        limit_s: float,
        save: Callable[[], None],
        leave: Callable[[int | None], None],
    ) -> None:
        """Watch nothing yet.

        Args:
            limit_s: How long a shutdown may take.
            save: Writes the data that only the process holds to the disk; may block.
            leave: Ends the process; is given the number of the last signal, None if there was none.
        """
        self._save = save
        self._root: trio.lowlevel.Task | None = None
        self._leave = leave
        self._deadline: float | None = None
        self._signal: int | None = None
        self._reading = self._writing = -1
        self._former = -1
        self._token: trio.lowlevel.TrioToken | None = None
        self._limit_s = limit_s
        self._is_parked = threading.Event()
        self._stdin = -1
        self._alive_at: float | None = None  # when the loop last responded; None: stdin has not ended

    def start(self, signal_number: int | None) -> None:
        """Watch signals from now on.

        Args:
            signal_number: The first one, if it has come.

        Raises:
            OSError: No descriptors are left.
            RuntimeError: No thread is left.
        """
        self._signal = signal_number
        self._token = trio.lowlevel.current_trio_token()
        self._root = trio.lowlevel.current_root_task()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        thread = threading.Thread(target=self._watch, name="pinnace-last-resort", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            os.close(self._reading)
            os.close(self._writing)
            raise
        if threading.current_thread() is threading.main_thread():
            self._former = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def stop_forwarding(self) -> None:
        """Give signals back to the event loop, which ends."""
        if self._former != -1:
            signal.set_wakeup_fd(self._former)
            self._former = -1

    def begin(self) -> None:
        """Begin the time that a shutdown may take, again if it has begun."""
        self._deadline = time.monotonic() + self._limit_s
        self._wake()

    def watch_stdin(self, descriptor: int) -> None:
        """End the process also if stdin ends while the loop is blocked and therefore can't detect it.

        Args:
            descriptor: Of a pipe, a socket or a terminal; the end of a file is not seen.
        """
        self._stdin = descriptor
        self._wake()

    def _wake(self) -> None:
        if self._writing != -1:
            with suppress(BlockingIOError):  # full: the thread wakes anyway
                os.write(self._writing, _WAKE)

    def report(self) -> None:
        """Log what keeps the process from ending: extensions at work, or the place where the main thread is."""
        from pinnace_agent.extensions.services.watchdog import owners_at_work

        owners = [] if self._root is None else owners_at_work(self._root)
        for path, event in owners:
            _log.error("%s is still running %s and can't be cancelled: the process ends without it", path, event)
        if not owners and (place := main_thread_place()):
            _log.error("the event loop is blocked at %s; the process ends anyway", place)

    def _watch(self) -> None:
        # The main thread is to get them, in the order of their numbers.
        signal.pthread_sigmask(signal.SIG_BLOCK, SHUTDOWN_SIGNALS)
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        while True:
            if self._stdin != -1 and self._alive_at is None:
                poll.register(self._stdin, 0)  # its end alone
            for descriptor, _ in poll.poll(self._timeout_ms()):
                if descriptor == self._reading:
                    self._take_signals(os.read(self._reading, 256))
                else:
                    poll.unregister(descriptor)
                    self._alive_at = time.monotonic()
            now = time.monotonic()
            if self._deadline is not None:
                if now >= self._deadline:
                    self._end(None)
            elif self._alive_at is not None:
                if now - self._alive_at >= self._limit_s:
                    self._end(None)
                self._ask_for_a_sign()

    def _timeout_ms(self) -> float | None:
        if self._deadline is not None:
            return max(0.0, self._deadline - time.monotonic()) * 1000
        return None if self._alive_at is None else PULSE_S * 1000

    def _take_signals(self, numbers: bytes) -> None:
        self._wake_loop(numbers)
        for number in numbers:
            if number in SHUTDOWN_SIGNALS:
                if self._signal is not None:
                    time.sleep(PARK_S)  # a loop that responds ends by itself
                    self._end(number)
                self._signal = number
                # The loop does the same when it gets to it.
                self._deadline = self._deadline or time.monotonic() + self._limit_s

    def _ask_for_a_sign(self) -> None:
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._give_a_sign, idempotent=True)

    def _give_a_sign(self) -> None:
        self._alive_at = time.monotonic()

    def _wake_loop(self, numbers: bytes) -> None:
        """Forward signals: the loop may be about to wait, and has to run their handlers."""
        former = self._former
        if former != -1 and numbers.strip(_WAKE):
            with suppress(OSError):
                os.write(former, _WAKE)

    def _end(self, number: int | None) -> None:
        is_held_up = not self._park()
        if is_held_up or number is None:
            self.report()
        number = self._signal if number is None else number
        saving = threading.Thread(target=self._save, daemon=True)
        saving.start()
        saving.join(SAVE_S)
        self._leave(number)

    def _park(self) -> bool:
        """Stop the loop for good, so that nothing changes any more; False: it doesn't respond."""
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._stand_still)
        return self._is_parked.wait(PARK_S)

    def _stand_still(self) -> None:
        self._is_parked.set()
        threading.Event().wait()


def main_thread_place() -> str:
    """Return the place in which the main thread is, as `file:line in function`; empty when it is unknown."""
    # The documented way to another thread's stack, in spite of its name.
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # pyright: ignore[reportPrivateUsage]
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
