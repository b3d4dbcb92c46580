"""A local authorisation server for logins in a browser, and the browser.

Codes are good once, for the client, the redirect and the verifier (RFC 7636) that they were asked with. It speaks as
those of ChatGPT plans, of Radius and of OpenRouter do.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import gettempdir
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import ProxyHandler, build_opener

from tests.agent.config.json_server import Asked, JsonServer
from tests.agent.llm.test_llm_codex_like_the_original import token

MARK = "browserMarker0123456789"
KEY = f"sk-or-v1-{MARK}"
Body = Mapping[str, object]


def access(number: int) -> str:
    """Return an access token of ChatGPT, which names an account."""
    return token({"https://api.openai.com/auth": {"chatgpt_account_id": f"acc-{number}"}, "n": MARK})


class BrowserServer(JsonServer):
    """One user, who agrees to each login."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        self.pages: list[Mapping[str, str]] = []
        """The parameters of each page that was opened."""
        self.endpoint: object = None
        """In place of the page that discovery names."""
        self._codes: dict[str, Mapping[str, str]] = {}

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

    def answer(self, asked: Asked) -> tuple[int, Body]:
        self.requests.append((asked.path, asked.fields))
        if asked.method == "GET":
            return 200, {"authorizationEndpoint": self.endpoint or f"{self.url}/page"}
        return self._token(asked.path, asked.fields)


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
