"""A server over HTTP that does what a test wants, without any library: a thread of the test for each connection."""

import gzip
import json
import ssl
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

TOOL: Final = {"name": "echo", "inputSchema": {"type": "object"}}
Message = Mapping[str, Any]


class WebServer:
    """What it has got, and what it does by method: a function that answers in place of the ordinary answer."""

    def __init__(self) -> None:
        """Answer as a good server does."""
        self.seen: list[tuple[str, Message, Mapping[str, str]]] = []
        """The method of HTTP or of the message, the message, the headers in small letters."""
        self.instead: dict[str, Callable[[Exchange], None]] = {}
        self.sessions = 0
        self.port = 0
        self.scheme = "http"
        self.ended = threading.Event()
        """Set at the end: what hangs until then is let go."""

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.scheme}://127.0.0.1:{self.port}/mcp"

    def count(self, method: str) -> int:
        """Return how often a method came."""
        return sum(each == method for each, _, _ in self.seen)


class Exchange(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    owner: WebServer

    def do_POST(self) -> None:
        """Take a message."""
        self.message: Message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._take(self.message.get("method", "response"))

    def do_GET(self) -> None:
        """Take the wish for a stream of the server's own messages, or for the rest of a broken one."""
        self.message = {}
        self._take("GET")

    def do_DELETE(self) -> None:
        """Take the end of a session."""
        self.message = {}
        self._take("DELETE")

    def _take(self, method: str) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.owner.seen.append((method, self.message, headers))
        self.owner.instead.get(method, Exchange.ordinary)(self)

    def ordinary(self) -> None:
        """Answer as a good server does."""
        match self.message.get("method"):
            case "initialize":
                self.owner.sessions += 1
                result: Message = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "web", "version": "1"},
                }
                self.result(result, {"Mcp-Session-Id": f"session-{self.owner.sessions}"})
            case "tools/list":
                self.result({"tools": [TOOL]})
            case "tools/call":
                self.result({"content": [{"type": "text", "text": "echoed"}]})
            case None:
                self.answer(405)
            case _:
                self.answer(202)

    def result(self, result: Message, headers: Mapping[str, str] | None = None) -> None:
        """Answer a request of the protocol."""
        self.answer(200, self.response(result), {"Content-Type": "application/json", **(headers or {})})

    def response(self, result: Message) -> bytes:
        """Return the message that answers."""
        return json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode()

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Answer with a status and a body."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def hang(self) -> None:
        """Answer nothing, until the server ends."""
        self.owner.ended.wait()
        self.close_connection = True

    def stream(self, *events: str) -> None:
        """Send events, and cut the connection."""
        self.send_response(200)
        for name, value in (("Content-Type", "text/event-stream"), ("Connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write("".join(events).encode())
        self.close_connection = True

    def bomb(self) -> None:
        """Answer with a few kilobytes that unpack to a hundred megabytes, which nobody has asked for."""
        body = gzip.compress(b" " * 100_000_000)
        self.answer(200, body, {"Content-Type": "application/json", "Content-Encoding": "gzip"})

    def flood(self) -> None:
        """Answer with 200 MB."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "200000000")
        self.end_headers()
        self.close_connection = True
        try:
            for _ in range(200):
                self.wfile.write(b" " * 1_000_000)
        except OSError:
            pass

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Take no notice of connections that the agent cuts."""


@contextmanager
def web_server(certificate: tuple[str, str] | None = None) -> Generator[WebServer]:
    """Serve until the end of the block.

    Args:
        certificate: The files of a certificate and its key; None: without TLS.
    """
    found = WebServer()
    server = _Threads(("127.0.0.1", 0), type("Handler", (Exchange,), {"owner": found}))
    found.port = server.server_address[1]
    if certificate is not None:
        found.scheme = "https"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.ended.set()
        server.shutdown()
        server.server_close()
