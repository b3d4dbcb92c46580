"""A local authorisation server: codes that users enter, and refresh tokens that are good once.

A refresh token that is used a second time revokes its family, as RFC 9700 wants it. With `has_leeway` the last one may
be used again until its successor was: what servers do for clients that were lost before they had stored the successor.
"""

import threading
from collections.abc import Callable

from tests.agent.config.json_server import Asked, JsonServer

MARK = "token-marker"
USER_CODE = "ABCD-1234"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
Body = dict[str, object]


class AuthorizationServer(JsonServer):
    """One client, one user."""

    def __init__(self, *, has_leeway: bool = False, pending: tuple[str, ...] = ()) -> None:
        """Answer the first polls of a login with the errors `pending`."""
        super().__init__()
        self.has_leeway = has_leeway
        self.pending = list(pending)
        self.refreshes = 0
        """How many tokens were given for refresh tokens."""
        self.life: object = 7200
        """What it says of how long a token is good."""
        self.interval_s = 0.01
        """How long a client waits before each question for the tokens of a code."""
        self.code_life_s = 600.0
        self.cut = 0
        """How many of the next requests for tokens get no answer."""
        self.is_revoked = False
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.failures: list[tuple[int, Body]] = []
        """Answers to the next requests for tokens, in place of tokens."""
        self.before_reply: Callable[[str], None] = lambda _grant: None
        """Called when a grant was decided, before its answer is sent."""
        self.before_grant: Callable[[str], None] = lambda _grant: None
        self._lock = threading.Lock()
        self._number = 0
        self._current = ""
        self._former = ""

    def issue(self) -> Body:
        """Return tokens, the first of a family or the next."""
        self._number += 1
        self._former, self._current = self._current, f"refresh{self._number}-{MARK}"
        return {"access_token": f"access{self._number}-{MARK}", "refresh_token": self._current, "expires_in": self.life}

    def login(self) -> Body:
        """Return a login that has expired, as it is in auth.json."""
        tokens = self.issue()
        return {
            "type": "oauth",
            "access": tokens["access_token"],
            "refresh": tokens["refresh_token"],
            "expires": 1_600_000_000_000,
        }

    def answer(self, asked: Asked) -> tuple[int, Body]:
        fields = asked.fields
        self.requests.append((asked.path, fields))
        if "device" in asked.path:
            return 200, {
                "device_code": f"device-{MARK}",
                "user_code": USER_CODE,
                "verification_uri": f"{self.url}/enter",
                "expires_in": self.code_life_s,
                "interval": self.interval_s,
            }
        if self.cut:
            self.cut -= 1
            return 0, {}
        grant = fields["grant_type"]
        self.before_grant(grant)
        with self._lock:
            status, body = self._grant(grant, fields)
        self.before_reply(grant)
        return status, body

    def _grant(self, grant: str, fields: dict[str, str]) -> tuple[int, Body]:
        if self.failures:
            return self.failures.pop(0)
        if grant == DEVICE_GRANT:
            pending = self.pending  # a test may take it away at any moment
            if pending:
                return 400, {"error": pending.pop(0), "interval": 0.02}
            return 200, self.issue()
        token = fields["refresh_token"]
        if self.is_revoked or (token != self._current and not (self.has_leeway and token == self._former)):
            self.is_revoked = True
            return 400, {"error": "invalid_grant", "error_description": "the token was used before"}
        self.refreshes += 1
        if token == self._former:  # its successor was lost
            self._current = token
        return 200, self.issue()
