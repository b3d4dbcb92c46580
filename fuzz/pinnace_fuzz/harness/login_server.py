"""A local authorisation server for logins with a code (RFC 8628), whose user does what a scenario says.

Whatever the paths are that an agent uses: a request with the word `device` in its path begins a login, every other one
asks for its tokens. Nothing that it gives out is a secret.
"""

import json
import socket
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Literal, Self

LoginServerKind = Literal["waiting", "granted", "refused", "unreachable"]
"""What the user does: nothing, agrees, declines; or there is no server."""

USER_CODE: Final = "CODE-1234"
_LOOPBACK: Final = "127.0.0.1"


class LoginServer:
    """Serves from construction to `close`; use it as a context manager."""

    def __init__(self, kind: LoginServerKind) -> None:
        """Begin to serve; an unreachable one keeps its port, and refuses connections."""
        self._server: ThreadingHTTPServer | None = None
        self._unused: socket.socket | None = None
        if kind == "unreachable":
            self._unused = socket.socket()
            self._unused.bind((_LOOPBACK, 0))
            port: int = self._unused.getsockname()[1]
        else:
            self._server = ThreadingHTTPServer((_LOOPBACK, 0), _handler(kind))
            self._server.daemon_threads = True
            port = self._server.server_address[1]
            threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.url = f"http://{_LOOPBACK}:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        if self._unused is not None:
            self._unused.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _handler(kind: LoginServerKind) -> type[BaseHTTPRequestHandler]:
    pending = {"error": "access_denied" if kind == "refused" else "authorization_pending"}
    tokens = {"access_token": "conform-access", "refresh_token": "conform-refresh", "expires_in": 3600}

    class Handler(BaseHTTPRequestHandler):
        """Answers one connection."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            host = self.headers["Host"]
            begun = {"verification_uri": f"http://{host}/enter", "expires_in": 600, "interval": 1}
            if "device" in self.path:
                self._answer(200, {"device_code": "conform-device", "user_code": USER_CODE, **begun})
            elif kind == "granted":
                self._answer(200, tokens)
            else:
                self._answer(400, pending)

        def _answer(self, status: int, body: Mapping[str, object]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
