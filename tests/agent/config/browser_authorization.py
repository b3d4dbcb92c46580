"""A local authorisation server for logins in a browser, and the browser.

Codes are good once, for the client, the redirect and the verifier (RFC 7636) that they were asked with. It speaks as
those of ChatGPT plans, of Radius and of OpenRouter do.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import gettempdir
from typing import Self
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import ProxyHandler, build_opener

from tests.agent.llm.test_llm_codex_like_the_original import token

MARK = "browserMarker0123456789"
KEY = f"sk-or-v1-{MARK}"
Body = Mapping[str, object]


def access(number: int) -> str:
    """Return an access token of ChatGPT, which names an account."""
    return token({"https://api.openai.com/auth": {"chatgpt_account_id": f"acc-{number}"}, "n": MARK})


class BrowserServer:
    """One user, who agrees to each login."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        self.pages: list[Mapping[str, str]] = []
        """The parameters of each page that was opened."""
        self.endpoint: object = None
        """In place of the page that discovery names."""
        self._codes: dict[str, Mapping[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def redirect(self, address: str) -> str:
        """Agree on the page at an address; return where the browser is sent."""
        assert address.startswith(self.url)
        asked = dict(parse_qsl(urlsplit(address).query, strict_parsing=True))
        self.pages.append(asked)
        code = f"code{len(self.pages)}-{MARK}"
        self._codes[code] = asked
        back = {"code": code, **({"state": asked["state"]} if "state" in asked else {})}
        return f"{asked.get('redirect_uri') or asked['callback_url']}?{urlencode(back)}"

    def _token(self, path: str, fields: Mapping[str, str]) -> tuple[int, Body]:
        asked = self._codes.pop(fields["code"], None)
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant", "error_description": "the code is not good"}
        if path.endswith("/auth/keys"):
            return 200, {"key": KEY}
        same = ("client_id", "redirect_uri")
        if fields["grant_type"] != "authorization_code" or any(asked[each] != fields[each] for each in same):
            return 400, {"error": "invalid_request"}
        number = len(self.pages)
        return 200, {"access_token": access(number), "refresh_token": f"refresh{number}-{MARK}", "expires_in": 3600}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append((self.path, {}))
                self._send(200, {"authorizationEndpoint": server.endpoint or f"{server.url}/page"})

            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"])).decode()
                is_json = self.headers["Content-Type"] == "application/json"
                fields: Mapping[str, str] = json.loads(text) if is_json else dict(parse_qsl(text))
                server.requests.append((self.path, fields))
                self._send(*server._token(self.path, fields))

            def _send(self, status: int, body: Body) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def visit(url: str) -> tuple[int, str]:
    """Open an address of this machine, as a browser does; return the status and the page."""
    try:
        with build_opener(ProxyHandler({})).open(url, timeout=30) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def registered_port() -> Iterator[None]:
    """Have the ports of the clients, of which this machine has one each, for one test at a time."""
    with (Path(gettempdir()) / "login-ports.lock").open("w") as file:
        flock(file, LOCK_EX)
        yield
