"""The byte pump: stdin to the host and the host to stdout, until the host reports the end.

One thread and one `poll`. Each direction has a buffer that is bounded and waits for nothing but its own writer, so a
stalled reader stalls its direction only. Frames are those of `host/protocol`, which an attach does not load: it handles
four small messages, and most of what it costs is what it imports. Standard library only. Must not know records: what
does is a `View`, through which all bytes pass where there is one.

Exit codes, after everything that was received is written: the one in the host's last message; 1 if stdout is closed; 75
if the connection is lost; after a signal as in mode rpc.
"""

import json
import os
import select
import signal
import socket
import stat
import time

TYPE_CHECKING = False  # typing has it too, and takes a while to load
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn, Protocol

    class View(Protocol):
        """What stands between a client and an agent, and changes what both write."""

        is_ready: bool
        """Whether it takes what the client writes."""
        failure: str | None
        """Why it can't be had; None: it can."""
        to_host: bytearray
        to_client: bytearray
        """What is to be written; the pump takes it."""

        def begin(self) -> None:
            """The agent is attached."""

        def take_client(self, data: bytes) -> None:
            """Take what the client has written."""

        def take_host(self, data: bytes) -> None:
            """Take what the agent has written."""


EXIT_OK = 0
EXIT_FAILED = 1
EXIT_LOST = 75
MAX_FRAME_BYTES = 1024 * 1024
"""Of one payload, as in `host/protocol`."""
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

_READ_BYTES = 64 * 1024
_BUFFERED_BYTES = 256 * 1024
"""Of each direction; a read adds at most one chunk."""
_HEADER_BYTES = 5
_LEAVING_S = 6.0
"""How long the host may take to report the end after a signal: an agent may take 5 s to end."""
_STALLED_S = 1.0
"""After a signal, a reader of stdout that takes nothing for so long will not read the rest."""


class ConnectionLost(Exception):
    """The connection to the host ended without a last message, or the host wrote what it may not."""


class Outcome:
    """How an attach has ended."""

    def __init__(
        self,
        exit_code: int,
        error: "str | None" = None,
        signal_number: "int | None" = None,
        subagent: "Mapping[str, object] | None" = None,
    ) -> None:
        """Keep the exit code, what is written to stderr, the signal that began the end, and what can't be attached to.

        That is a sub-agent, of which its agent's client can have a view. Nothing of stdin was read then.
        """
        self.exit_code = exit_code
        self.error = error
        self.signal_number = signal_number
        self.subagent = subagent


def frame(kind: bytes, payload: bytes) -> bytes:
    """Return a frame of the host's protocol: its kind, its length, its payload."""
    return kind + len(payload).to_bytes(4, "big") + payload


def message(record: "Mapping[str, object]") -> bytes:
    """Return a control message in its frame. Bytes of paths that are no UTF-8 stay what they are.

    Raises:
        ValueError: It is longer than a frame.
    """
    payload = json.dumps(record, separators=(",", ":")).encode("ascii")
    if len(payload) > MAX_FRAME_BYTES:
        raise ValueError("the environment and the arguments are too long for the host")
    return frame(b"j", payload)


class Pump:
    """One attach, from its first message to its exit code."""

    def __init__(self, connection: socket.socket, first: bytes, intent: str, view: "View | None" = None) -> None:
        """Prepare.

        Args:
            connection: To the host. Becomes non-blocking.
            first: The first message, in its frame.
            intent: What the end of stdin and signals ask for: `detach` or `end`.
            view: Through which the bytes of both directions pass; None: they pass as they are.
        """
        connection.setblocking(False)
        self._view = view
        self._connection = connection
        self._intent = intent
        self._to_host = bytearray(first)
        self._to_stdout = bytearray()
        self._received = bytearray()
        self._data_left = 0
        """Of the data frame that is being received."""
        self._is_accepted = False
        self._is_reading = True
        """Whether stdin has not ended."""
        self._last_byte = b"\n"
        self._is_writing = True
        """Whether the host still reads."""
        self._is_connected = True
        self._has_stdout = True
        self._end: Outcome | None = None
        self._signal: int | None = None
        self._leave_at: float | None = None
        self._progress_at = 0.0

    def run(self) -> Outcome:
        """Pump until the end. Signals are handled meanwhile; a second one ends at once."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        former = {number: signal.signal(number, _ignore) for number in handled}
        former_wakeup = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        stdout = _Stdout()
        try:
            while not self._is_over():
                self._turn(wake_read, stdout)
        finally:
            signal.set_wakeup_fd(former_wakeup)
            for number, handler in former.items():
                signal.signal(number, handler)
            for descriptor in (wake_read, wake_write):
                os.close(descriptor)
            stdout.close()
        return self._outcome()

    def _is_over(self) -> bool:
        if self._leave_at is not None and time.monotonic() >= self._leave_at:
            return True
        return not self._is_connected and not (self._to_stdout and self._has_stdout)

    def _outcome(self) -> Outcome:
        ended = self._end
        if self._signal is not None:
            return Outcome(128 + self._signal, None, self._signal)
        if not self._has_stdout:
            return Outcome(EXIT_FAILED, "stdout is closed")
        if ended is None:
            return Outcome(EXIT_LOST, "the connection to the host is lost; attach again")
        return ended

    def _turn(self, wake_read: int, stdout: "_Stdout") -> None:
        """Wait for what can be done, and do it."""
        poll = select.poll()
        poll.register(wake_read, select.POLLIN)
        if self._reads_stdin():
            poll.register(0, select.POLLIN)
        if self._has_stdout:
            poll.register(stdout.descriptor, select.POLLOUT if self._to_stdout else 0)
        wanted = select.POLLIN if self._is_connected and len(self._to_stdout) < _BUFFERED_BYTES else 0
        if self._is_connected and self._is_writing and self._to_host:
            wanted |= select.POLLOUT
        if wanted:
            poll.register(self._connection.fileno(), wanted)
        ready = dict(poll.poll(self._timeout_ms()))
        if wake_read in ready:
            for number in os.read(wake_read, 64):
                self._take_signal(number)
        if events := ready.get(stdout.descriptor, 0):
            self._write_stdout(stdout, events)
        if events := ready.get(self._connection.fileno(), 0):
            if events & ~select.POLLIN and wanted & select.POLLOUT:
                self._send()
            if wanted & select.POLLIN:
                self._receive()
                if self._to_stdout and self._has_stdout and stdout.never_blocks:
                    self._write_stdout(stdout, select.POLLOUT)
        if 0 in ready and self._reads_stdin():
            self._read_stdin()
            if self._is_connected and self._is_writing:
                self._send()

    def _reads_stdin(self) -> bool:
        # What is not accepted reads nothing, so another attach can read it.
        if self._view is not None and not (self._view.is_ready and len(self._to_stdout) < _BUFFERED_BYTES):
            return False  # it may answer a command itself
        return self._is_accepted and self._is_reading and self._is_writing and len(self._to_host) < _BUFFERED_BYTES

    def _timeout_ms(self) -> "int | None":
        if self._leave_at is None:
            return None
        return max(0, int(1000 * (self._leave_at - time.monotonic())) + 1)

    def _take_signal(self, number: int) -> None:
        if self._signal is not None:
            self._leave_at = 0.0
            return
        self._signal = number
        self._leave()

    def _leave(self) -> None:
        """Ask the host for the end at once, and wait for it a bounded time."""
        self._is_reading = False
        if self._is_connected:
            self._ask_for_end(at_once=True)
        self._extend()

    def _extend(self) -> None:
        patience_s = _STALLED_S if self._to_stdout and self._has_stdout else _LEAVING_S
        self._leave_at = time.monotonic() + patience_s

    def _ask_for_end(self, *, at_once: bool) -> None:
        self._to_host += message({"type": self._intent, "atOnce": at_once})

    def _read_stdin(self) -> None:
        try:
            data = os.read(0, _READ_BYTES)
        except OSError:
            data = b""  # a terminal that is gone
        if data:
            self._last_byte = data[-1:]
            self._pass_on(data)
            return
        self._is_reading = False
        if self._last_byte != b"\n":
            self._pass_on(b"\n")
        self._ask_for_end(at_once=False)

    def _pass_on(self, data: bytes) -> None:
        """Write to the host what the client has written."""
        if self._view is None:
            self._to_host += frame(b"d", data)
        else:
            self._view.take_client(data)
            self._take_viewed(self._view)

    def _take_viewed(self, view: "View") -> None:
        """Take what a view has for either side."""
        for start in range(0, len(view.to_host), MAX_FRAME_BYTES):
            self._to_host += frame(b"d", bytes(view.to_host[start : start + MAX_FRAME_BYTES]))
        view.to_host.clear()
        if self._has_stdout:
            self._to_stdout += view.to_client
        view.to_client.clear()
        if view.failure is not None and self._end is None:
            self._end = Outcome(EXIT_FAILED, view.failure)
            self._is_connected = False

    def _send(self) -> None:
        try:
            sent = self._connection.send(self._to_host[:_READ_BYTES])
        except BlockingIOError:
            return
        except OSError:
            # The host may have written why before it closed: read on.
            self._is_writing = False
            self._to_host.clear()
            return
        del self._to_host[:sent]

    def _receive(self) -> None:
        try:
            data = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._is_connected = False
            return
        self._received += data
        try:
            self._take_frames()
        except ConnectionLost as error:
            self._is_connected = False
            self._end = self._end or Outcome(EXIT_LOST, str(error))

    def _take_frames(self) -> None:
        received = self._received
        while received:
            if self._data_left:
                piece = received[: self._data_left]
                del received[: len(piece)]
                self._data_left -= len(piece)
                if self._view is not None:
                    self._view.take_host(bytes(piece))
                    self._take_viewed(self._view)
                elif self._has_stdout:
                    self._to_stdout += piece
                continue
            if len(received) < _HEADER_BYTES:
                return
            kind, length = chr(received[0]), int.from_bytes(received[1:_HEADER_BYTES], "big")
            if length > MAX_FRAME_BYTES or kind not in ("d", "j"):
                raise ConnectionLost("the host wrote what is no frame; it may be of another release")
            if kind == "d":
                del received[:_HEADER_BYTES]
                self._data_left = length
            elif len(received) < _HEADER_BYTES + length:
                return
            else:
                payload = bytes(received[_HEADER_BYTES : _HEADER_BYTES + length])
                del received[: _HEADER_BYTES + length]
                self._take_message(payload)

    def _take_message(self, payload: bytes) -> None:
        try:
            record = json.loads(payload)
            kind = record["type"]
            if kind == "accepted":
                self._is_accepted = True
                if self._view is not None:
                    self._view.begin()
                    self._take_viewed(self._view)
            elif kind in ("refused", "ended"):
                error = record["error"]
                text, subagent = None if error is None else str(error), record.get("subagent")
                self._end = Outcome(int(record["exitCode"]), text, None, subagent)
                self._is_connected = False
        except (ValueError, KeyError, TypeError):
            raise ConnectionLost("the host wrote what is no message; it may be of another release") from None

    def _write_stdout(self, stdout: "_Stdout", events: int) -> None:
        written = stdout.write(self._to_stdout) if self._to_stdout and events & select.POLLOUT else 0
        if written is None or events & (select.POLLERR | select.POLLNVAL):
            self._has_stdout = False
            self._to_stdout.clear()
            if self._leave_at is None:
                self._leave()
        elif written:
            del self._to_stdout[:written]
            if self._leave_at:
                self._extend()


class _Stdout:
    """Standard output, written without waiting.

    Its blocking mode is shared with other processes, so it is not changed: a pipe is opened anew, a socket is asked for
    each write. Where neither works, a write is so short that it fits once `poll` has reported room.
    """

    def __init__(self) -> None:
        mode = os.fstat(1).st_mode
        self.descriptor = 1
        self.never_blocks = True
        """Whether a write may be tried before `poll` has reported room."""
        self._socket: socket.socket | None = None
        self._piece_bytes = select.PIPE_BUF
        if stat.S_ISSOCK(mode):
            self._socket = socket.socket(fileno=os.dup(1))
            self._piece_bytes = _READ_BYTES
        elif stat.S_ISREG(mode):
            self._piece_bytes = _READ_BYTES
        elif stat.S_ISFIFO(mode):
            try:
                self.descriptor = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                self._piece_bytes = _READ_BYTES
            except OSError:
                self.never_blocks = False  # no /proc, or the pipe belongs to another user
        else:
            self.never_blocks = False

    def write(self, data: bytearray) -> "int | None":
        """Write the beginning of some bytes and return how many; None: the reader is gone."""
        piece = bytes(data[: self._piece_bytes])
        try:
            if self._socket is not None:
                return self._socket.send(piece, socket.MSG_DONTWAIT)
            return os.write(self.descriptor, piece)
        except BlockingIOError:
            return 0
        except OSError:
            return None

    def close(self) -> None:
        """Close what was opened."""
        if self._socket is not None:
            self._socket.close()
        if self.descriptor != 1:
            os.close(self.descriptor)


def _ignore(_number: int, _frame: object) -> None:
    """Handle a signal: its number is read from the descriptor that it wakes."""


def die_by(number: int) -> "NoReturn":
    """End the process by a signal's default action, so that a parent sees what ended it."""
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)
