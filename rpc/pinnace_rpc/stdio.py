"""The process' ends: stdin, stdout, signals and death.

Standard output belongs to the protocol: it is kept as a private descriptor, and descriptor 1 is pointed at stderr, so
that a stray print, or a child that inherits it, never writes into the protocol. POSIX only; the one file to vary for
another platform.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final, NoReturn

import trio

# One read. Large enough for long lines to be cheap, small enough that a burst of commands lets other tasks run.
READ_BYTES: Final = 64 * 1024

SHUTDOWN_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class StderrHandler(logging.Handler):
    """Writes log lines to stderr and never waits: stderr may be the same pipe as a stalled stdout."""

    dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, or count it as dropped."""
        line = f"pinnace: {record.levelname.lower()}: {self.format(record)}\n"
        try:
            os.write(2, line.encode("utf-8", "backslashreplace"))
        except OSError:
            self.dropped += 1


def configure_logging(*, verbose: bool) -> None:
    """Send the program's own log to stderr."""
    logger = logging.getLogger("pinnace")
    logger.handlers[:] = [StderrHandler()]
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    logger.propagate = False


def take_stdout() -> int:
    """Keep stdout as a private descriptor for the protocol, and point descriptor 1 at stderr."""
    sys.stdout.flush()
    private = os.dup(1)
    os.dup2(2, 1)
    return private


def writer_to(descriptor: int) -> Callable[[bytes], int]:
    """Return what writes to a descriptor that never blocks as much as it takes at once, and says how much that was.

    It raises OSError if that is nothing.
    """

    def write(data: bytes) -> int:
        return os.write(descriptor, data)

    return write


def open_stdin() -> trio.lowlevel.FdStream:
    """Take stdin over. Nothing else reads it: descriptor 0 becomes /dev/null."""
    private = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return trio.lowlevel.FdStream(private)


def exit_status(signal_number: int | None) -> int:
    """Return the exit code after a shutdown that `signal_number` began, or stdin's end (None). Rule R-SIG-01."""
    return 0 if signal_number is None else 128 + signal_number


def die_by(signal_number: int) -> NoReturn:
    """End the process by a signal's default action, so that a parent sees what ended it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal_number, signal.SIG_DFL)
    else:  # the interpreter lets no other thread do it
        import ctypes

        ctypes.CDLL(None).signal(signal_number, None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal_number])
    os.kill(os.getpid(), signal_number)
    os._exit(128 + signal_number)  # not reached unless the signal is held back by a debugger


def leave_now(signal_number: int) -> NoReturn:
    """End the process without any further record: a second signal came."""
    if signal_number == signal.SIGINT:
        die_by(signal_number)
    os._exit(exit_status(signal_number))
