"""One HTTP/1.1 connection of the fake LLM: requests in, heads and bytes out, and ways to end it.

Blocking, for a thread of its own. Notices a client that went away promptly, also while it waits for a gate or
the clock. Independent of scripts and formats.
"""

import contextlib
import math
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, Self

from pinnace_fuzz.harness.model_server.ledger import Ledger

# A request holds a conversation with images; far above any real one, so that a wrong length can't eat memory.
MAX_BODY_BYTES = 256 * 1024 * 1024
# One line of a head; the same as http.client's.
MAX_LINE_BYTES = 65_536
MAX_HEADERS = 200


class ClientGone(Exception):
    """The client closed or reset the connection."""


class Stopping(Exception):
    """The server is being closed."""


class BadRequest(Exception):
    """The client does not speak HTTP/1.1."""


class HttpRequest(NamedTuple):
    """One request, read completely."""

    method: str
    path: str
    headers: Mapping[str, str]
    data: bytes


class HttpConnection:
    """A connected socket; use it as a context manager. `cut_off` may be called from any thread."""

    def __init__(self, connected: socket.socket, ledger: Ledger) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._reader = connected.makefile("rb")
        self._ledger = ledger
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._poller = select.poll()
        self._poller.register(connected, select.POLLIN)
        self._poller.register(self._wake, select.POLLIN)

    def __enter__(self) -> Self:
        self._ledger.lend_waker(self._waker)
        return self

    def __exit__(self, *_: object) -> None:
        self._ledger.return_waker(self._waker)
        self._wake.close()
        self._waker.close()
        self.close()

    def close(self) -> None:
        """Close in order: the client reads what was sent, then the end."""
        self._reader.close()
        self._socket.close()

    def reset(self) -> None:
        """Abort the connection: the client gets a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def cut_off(self) -> None:
        """Make the blocking call of the connection's thread fail now."""
        with contextlib.suppress(OSError):  # closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def read_request(self) -> HttpRequest | None:
        """Read one request; None when the client closes between requests.

        Raises:
            BadRequest: What came is not a request, or too large.
            ClientGone: The connection ends within a request.
        """
        try:
            line = self._reader.readline(MAX_LINE_BYTES)
        except OSError:
            return None  # closed with an answer unread, between requests all the same
        if not line:
            return None
        try:
            method, path, _ = line.decode("latin-1").split(" ")
        except ValueError:
            raise BadRequest("bad request line") from None
        try:
            headers = self._read_headers()
            if headers.get("expect", "").lower() == "100-continue":
                self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            return HttpRequest(method, path, headers, self._read_body(headers))
        except OSError:
            raise ClientGone from None

    def _read_line(self) -> bytes:
        line = self._reader.readline(MAX_LINE_BYTES)
        if not line:
            raise ClientGone
        return line.rstrip(b"\r\n")

    def _read_headers(self) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        while line := self._read_line():
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or len(headers) == MAX_HEADERS:
                raise BadRequest("bad header")
            headers[name.strip().lower()] = value.strip()
        return headers

    def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self._read_exactly(_length(headers.get("content-length", "0"), 10))
        pieces: list[bytes] = []
        total = 0
        while size := _length(self._read_line().partition(b";")[0].decode("latin-1"), 16):
            total += size
            if total > MAX_BODY_BYTES:
                raise BadRequest("body too large")
            pieces.append(self._read_exactly(size))
            self._read_line()
        while self._read_line():
            pass  # trailers
        return b"".join(pieces)

    def _read_exactly(self, size: int) -> bytes:
        data = self._reader.read(size)
        if len(data) < size:
            raise ClientGone
        return data

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Write a status line and headers."""
        try:
            reason = HTTPStatus(status).phrase
        except ValueError:
            reason = "Unknown"
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def send(self, data: bytes) -> None:
        """Write bytes; blocks while the client does not read.

        Raises:
            ClientGone: The client went away; one that just did may be noticed only by the next call.
        """
        try:
            self._socket.sendall(data)
        except OSError:
            raise ClientGone from None

    def pause(self, is_over: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Wait until `is_over`, which only a change in the ledger can make true, or for a time.

        Raises:
            ClientGone: The client goes away meanwhile.
            Stopping: The server is closed meanwhile.
        """
        deadline_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not is_over():
            if self._ledger.is_stopping:
                raise Stopping
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return
            for descriptor, _ in self._poller.poll(None if left_s == math.inf else math.ceil(left_s * 1000)):
                if descriptor == self._wake.fileno():
                    self._wake.recv(4096)
                elif self._has_ended():
                    raise ClientGone
                else:  # a next request has come early: only a reset can still be noticed
                    self._poller.modify(self._socket, 0)

    def _has_ended(self) -> bool:
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def _length(text: str, base: int) -> int:
    try:
        length = int(text, base)
    except ValueError:
        raise BadRequest("bad length") from None
    if not 0 <= length <= MAX_BODY_BYTES:
        raise BadRequest("body too large")
    return length
