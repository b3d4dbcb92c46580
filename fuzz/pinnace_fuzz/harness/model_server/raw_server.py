"""A loopback server that answers with any bytes of a test, well formed or not.

Real sockets, one thread for each connection; everything ends with the server. Reads requests properly and writes
no content of its own. Independent of requests and answers.
"""

import contextlib
import select
import socket
import ssl
import struct
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Self, TypeAlias

LOOPBACK = "127.0.0.1"
# Far above the time of any answer here: a test that hangs should fail at its place.
WAIT_TIMEOUT_S = 30.0


class Received(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    connection: int
    """Which connection it came on, from 0."""


class ConnectionEnded(Exception):
    """The client or the answer has ended the connection."""


class Reply:
    """Writes the answer to one request."""

    def __init__(self, connected: socket.socket, request: Received) -> None:
        self.request = request
        self._socket = connected

    def send(self, data: bytes) -> None:
        """Write bytes as they are.

        Raises:
            ConnectionEnded: The client has gone.
        """
        try:
            self._socket.sendall(data)
        except OSError:
            raise ConnectionEnded from None

    def head(self, *headers: str, status: str = "200 OK", content_type: str = "text/event-stream") -> None:
        """Write the head of an answer whose body comes in chunks."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", "Transfer-Encoding: chunked", *headers]
        self.send("\r\n".join([*lines, "", ""]).encode())

    def chunks(self, *pieces: bytes) -> None:
        """Write each piece as a chunk, and each in a packet of its own where the system lets us."""
        for piece in pieces:
            if piece:
                self.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    def end(self) -> None:
        """End a body that comes in chunks."""
        self.send(b"0\r\n\r\n")

    def whole(
        self, body: bytes, *headers: str, status: str = "200 OK", content_type: str = "text/event-stream"
    ) -> None:
        """Write a whole answer."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
        self.send("\r\n".join([*lines, "", ""]).encode() + body)

    def close(self) -> None:
        """Close the connection: the client reads what was sent, then the end."""
        raise ConnectionEnded

    def reset(self) -> None:
        """Abort the connection: the client gets a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionEnded

    def tunnel(self, port: int, first: bytes = b"") -> None:
        """Carry bytes both ways between the client and a port of this machine, until either side ends.

        Args:
            port: Of the loopback address.
            first: What is said to it before what the client says.
        """
        with socket.create_connection((LOOPBACK, port), WAIT_TIMEOUT_S) as other, contextlib.suppress(OSError):
            other.sendall(first)
            ways = {self._socket: other, other: self._socket}
            while True:
                ready, _, _ = select.select(list(ways), [], [], WAIT_TIMEOUT_S)
                for each in ready:
                    data = each.recv(65_536)
                    if not data:
                        raise ConnectionEnded
                    ways[each].sendall(data)

    def wait_gone(self) -> None:
        """Wait until the client closes the connection."""
        with contextlib.suppress(OSError):
            while self._socket.recv(4096):
                pass
        raise ConnectionEnded


Answer: TypeAlias = Callable[[Reply], None]


class RawServer:
    """Serves from construction to `close`; use it as a context manager."""

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None, unread: Answer | None = None) -> None:
        """Begin to serve.

        Args:
            answers: One for each request in order; the last one for all that follow.
            tls: How to speak TLS.
            unread: Answers each connection at once, before anything of a request is read.
        """
        self._answers: Sequence[Answer] = answers
        self._tls = tls
        self._unread = unread
        self._lock = threading.Lock()
        self._is_closing = False
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.requests: list[Received] = []
        self.connections = 0
        self.faults: list[str] = []
        """What went wrong here: tracebacks of answers."""
        self._listener = socket.create_server((LOOPBACK, 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://{LOOPBACK}:{self.port}"
        self._begin(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        assert not self.faults, "\n".join(self.faults)

    def close(self) -> None:
        """End every connection and thread."""
        with self._lock:
            self._is_closing = True
            left = list(self._sockets)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends an accept that waits
        self._listener.close()
        for each in left:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(WAIT_TIMEOUT_S)

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="raw-server", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                number = self.connections
                self.connections += 1
                self._sockets.add(connected)
            self._begin(self._serve, connected, number)

    def _serve(self, connected: socket.socket, number: int) -> None:
        try:
            connected.settimeout(WAIT_TIMEOUT_S)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connected = self._tls.wrap_socket(connected, server_side=True)
            if self._unread is not None:
                self._unread(Reply(connected, Received("", "", {}, b"", number)))
            self._converse(connected, number)
        except (ConnectionEnded, OSError):  # also what TLS raises when a client refuses the certificate
            pass
        except Exception:
            self.faults.append(traceback.format_exc())
        finally:
            with self._lock:
                self._sockets.discard(connected)
            connected.close()

    def _converse(self, connected: socket.socket, number: int) -> None:
        with connected.makefile("rb") as reader:
            while line := reader.readline():
                method, path, _ = line.decode("latin-1").split(" ")
                headers: dict[str, str] = {}
                while header := reader.readline().strip():
                    name, _, value = header.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                body = reader.read(int(headers.get("content-length", "0")))
                request = Received(method, path, headers, body, number)
                with self._lock:
                    if self._is_closing:
                        return
                    answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
                    self.requests.append(request)
                answer(Reply(connected, request))
