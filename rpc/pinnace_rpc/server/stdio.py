"""stdin, stdout, signals, and the beginning and the end of a process that serves.

Standard output belongs to the protocol: it is kept as a private descriptor, and descriptor 1 is pointed at stderr, so
that a stray print, or a child that inherits it, never writes into the protocol. POSIX only; the only file to change for
another platform.
"""

import fcntl
import gc
import logging
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_rpc.options.options import LOG_VARIABLE, Options

if TYPE_CHECKING:
    from collections.abc import Mapping

# One read. Large enough for long lines to be cheap, small enough that a burst of commands lets other tasks run.
READ_BYTES: Final = 64 * 1024
# Writes of at least this size get a wider pipe.
LARGE_BYTES: Final = 1024 * 1024
# The most that Linux grants by default.
WIDE_PIPE_BYTES: Final = 1024 * 1024

# At the end, a reader that takes nothing for so long will not read the rest. Clients kill one second after a signal.
STALLED_S: Final = 2.0
STALLED_AFTER_SIGNAL_S: Final = 0.5
LOOK_S: Final = 0.1  # short: this process may not have been scheduled during a long one

SHUTDOWN_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class StderrHandler(logging.Handler):
    """Writes log lines to stderr and never waits: stderr may be the same pipe as a stalled stdout."""

    dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, or count it as dropped."""
        try:
            write_stderr(f"pinnace: {record.levelname.lower()}: {self.format(record)}\n")
        except OSError:
            self.dropped += 1


def write_stderr(text: str) -> None:
    """Write a text without keys to stderr, past the stream of the interpreter, which another thread may have locked.

    Raises:
        OSError: It can't be written.
    """
    os.write(2, REDACTOR.text(text).encode("utf-8", "backslashreplace"))


def configure_logging(options: Options) -> "Callable[[Mapping[str, object]], None] | None":
    """Send the program's own log to stderr, and to a file if one is named; return what logs records of the protocol.

    Raises:
        UsageRefused: The file can't be written.
    """
    logger = logging.getLogger("pinnace")
    logger.propagate = False
    path = options.log_file or os.environ.get(LOG_VARIABLE) or None
    if path is not None or options.verbose:
        from pinnace_rpc.server.log_file import begin_log

        return begin_log(options, os.environ, path, StderrHandler())
    logger.handlers[:] = [StderrHandler()]
    logger.setLevel(logging.WARNING)
    return None


_borrowed: Final[list[int]] = []
"""Descriptors that were blocking and whose mode another process shares."""


def end_start() -> None:
    """Say that all is loaded: it is not searched for garbage, which is collected from now on.

    The command line starts without collecting; each mode that runs for long calls this before it serves.
    """
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def _own(descriptor: int, access: int) -> int:
    """Return a descriptor for the same pipe or terminal, opened anew: its blocking mode is not shared.

    The event loop makes descriptors non-blocking, which is a state of the open file: a terminal that a shell continues
    to use would stay non-blocking if this process were killed. A descriptor that can't be reopened, such as a socket,
    is shared.
    """
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
        # Without waiting, and without making a terminal the controlling one.
        flags = access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with suppress(OSError):  # no /proc, or it belongs to another user
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    shared = os.dup(descriptor)
    if os.get_blocking(shared):
        _borrowed.append(shared)
    return shared


def give_back() -> None:
    """Make shared descriptors blocking again: the process ends without closing what it uses."""
    for descriptor in _borrowed:
        with suppress(OSError):
            os.set_blocking(descriptor, True)


def wrong_direction() -> str | None:
    """Return the error of a stdin or stdout that was opened for the other direction only."""
    if fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        return "stdin can't be read: it is open for writing only"
    if fcntl.fcntl(1, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        return "stdout can't be written: it is open for reading only"
    return None


def take_stdout() -> int:
    """Keep stdout as a private descriptor for the protocol, and point descriptor 1 at stderr."""
    sys.stdout.flush()
    private = _own(1, os.O_WRONLY)
    os.dup2(2, 1)
    return private


class WidePipe:
    """A pipe that is wide while something large is written to it.

    Each time that its reader takes something costs both sides a change of process. The reader shares the pipe, so its
    width is restored. Descriptors that are not pipes, or may not be widened, stay as they are.
    """

    def __init__(self, descriptor: int) -> None:
        """Widen it."""
        self._descriptor = descriptor
        self._width: int | None = None  # the former width, if it was changed
        with suppress(OSError, AttributeError):  # not a pipe; too many wide ones; not Linux
            width = fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)
            if width < WIDE_PIPE_BYTES:
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)
                self._width = width

    def narrow(self) -> bool:
        """Restore its width; False if its reader has not yet read enough of its content."""
        if self._width is not None:
            try:
                fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, self._width)
            except OSError:
                return False
        return True


class Stdout(trio.abc.AsyncResource):
    """The output of a process. Owns its descriptor. A pipe is wide while a large piece is written (`WidePipe`)."""

    def __init__(self, descriptor: int) -> None:
        """Take a descriptor over."""
        self._stream = trio.lowlevel.FdStream(descriptor)
        self._wide: WidePipe | None = None
        self._written_bytes = 0

    async def send_all(self, data: bytes) -> None:
        """Write everything; raises `trio.BrokenResourceError` if the reader has closed."""
        if len(data) >= LARGE_BYTES:
            self._wide = self._wide or WidePipe(self._stream.fileno())
        else:
            self._narrow()
        await trio.lowlevel.checkpoint()
        left = memoryview(data)
        while left:
            try:
                left = left[self._write(left) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._stream.fileno())
            except OSError as error:
                raise trio.BrokenResourceError(f"stdout can't be written: {error.strerror}") from error

    def write_now(self, data: bytes) -> int:
        """Write without waiting, and return the number of bytes written; raises OSError if it is 0."""
        if self._wide is not None:
            self._narrow()
        return self._write(data)

    def _write(self, data: bytes | memoryview) -> int:
        written = os.write(self._stream.fileno(), data)
        self._written_bytes += written
        return written

    async def wait_read(
        self, is_signalled: Callable[[], bool], finished: trio.Event, on_progress: Callable[[], object] = bool
    ) -> None:
        """As `Output.wait_read` in `streams`."""
        taken, stalled_s = -1, 0.0
        while not finished.is_set() and stalled_s < (STALLED_AFTER_SIGNAL_S if is_signalled() else STALLED_S):
            stalled_s += LOOK_S
            if taken != (taken := self._taken_bytes()):
                stalled_s = 0.0
                on_progress()
            with trio.move_on_after(LOOK_S):
                await finished.wait()

    def _taken_bytes(self) -> int:
        """Return a number that changes with each read of the reader.

        The system reports room when much was read, of a socket three quarters; so what it holds counts.
        """
        held, descriptor = b"", self._stream.fileno()
        with suppress(OSError, ImportError):  # a file, which holds nothing
            import termios

            is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
            held = fcntl.ioctl(descriptor, termios.FIONREAD if is_pipe else termios.TIOCOUTQ, bytes(4))
        return self._written_bytes - int.from_bytes(held, sys.byteorder)

    async def aclose(self) -> None:
        """Close it."""
        self._narrow()
        await self._stream.aclose()

    def _narrow(self) -> None:
        if self._wide is not None and self._wide.narrow():
            self._wide = None


def open_stdin() -> trio.lowlevel.FdStream:
    """Take stdin over. Nothing else reads it: descriptor 0 becomes /dev/null."""
    private = _own(0, os.O_RDONLY)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return trio.lowlevel.FdStream(private)


def exit_status(signal_number: int | None) -> int:
    """Return the exit code after a shutdown that `signal_number` began, or stdin's end (None). Rule R-SIG-01."""
    return 0 if signal_number is None else 128 + signal_number


def die_by(signal_number: int) -> NoReturn:
    """End the process by a signal's default action, so that a parent detects the signal."""
    give_back()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal_number, signal.SIG_DFL)
    else:  # the interpreter lets no other thread do it
        import ctypes

        ctypes.CDLL(None).signal(signal_number, None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal_number])
    os.kill(os.getpid(), signal_number)
    os._exit(128 + signal_number)  # reached only if a debugger holds the signal back


def leave_now(signal_number: int) -> NoReturn:
    """End the process without any further record, after a second signal."""
    if signal_number == signal.SIGINT:
        die_by(signal_number)
    give_back()
    os._exit(exit_status(signal_number))
