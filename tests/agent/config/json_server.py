"""A server on the loopback that answers with JSON: what servers of logins share."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    """With its query."""
    fields: dict[str, Any]
    """Of a body of JSON, or of a form: each by its first value."""
    headers: Mapping[str, str]
    """By names in lower case."""


class JsonServer:
    """Used as a context; what it answers is said by classes below it."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, asked: Asked) -> tuple[int, object]:
        """Return the status and the body of the answer to a request; 0: the connection is closed without one."""
        raise NotImplementedError


def _handler(server: JsonServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            is_json = text != "" and headers.get("content-type") == "application/json"
            # Backwards, so that the first of several values is the one that stays.
            fields = json.loads(text) if is_json else dict(reversed(parse_qsl(text)))
            status, body = server.answer(Asked(method, self.path, fields, headers))
            data = json.dumps(body).encode()
            self.close_connection = not status
            if not status:
                return
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:  # the client was killed
                pass

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
