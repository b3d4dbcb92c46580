"""Logs in to a provider with a code that the user enters in a browser, and refreshes such logins.

RFC 8628, and RFC 6749 section 6. `vendor_logins` says which servers are asked, and as which client. No text has a token
or a code but the one that the user is to enter. Not for start-up: it uses the HTTP client.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

import trio

from pinnace_agent.config.credentials.authorization_servers import (
    Answer,
    ServerUnreachable,
    ask_form,
    refusal,
    seconds,
)
from pinnace_agent.config.credentials.logins import Login, LoginFailed, is_safe_endpoint, is_token, new_login
from pinnace_agent.config.credentials.vendor_logins import Vendor
from pinnace_agent.files.relaxed_json import JsonObject

_INTERVAL_S: Final = 5.0  # RFC 8628: where the server names none, and what `slow_down` adds
_DEFAULT_CODE_S: Final = 900.0
_MOST_INTERVAL_S: Final = 60.0
_PENDING: Final = ("authorization_pending", "slow_down")
_URI: Final = "verification_uri"
_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"


class DeviceCode(NamedTuple):
    """What the user needs to log in."""

    user_code: str
    address: str
    """Where the code is entered."""
    expires_in_s: float


def slower(interval_s: float) -> float:
    """Return how long to wait after a failure that may pass: twice as long as before it, at most a minute."""
    return max(interval_s, min(interval_s * 2, _MOST_INTERVAL_S))


class DeviceLogin:
    """The logins of one provider: a `LoginMethod`."""

    def __init__(self, vendor: Vendor) -> None:
        """Ask the servers of this vendor."""
        self._vendor = vendor
        self._last_failure = ""

    async def log_in(self, show: Callable[[DeviceCode], None]) -> Login:
        """Let the user log in, and return the login. Waits until the code was entered; cancelling gives up.

        Args:
            show: Shows the user what to do. Called once.

        Raises:
            LoginFailed: The server refuses it, can't be reached, or the code has expired.
        """
        return self._login(await self._granted(show), "")

    async def _granted(self, show: Callable[[DeviceCode], None]) -> Mapping[str, object]:
        """Get a code, show it, and wait until the user has entered it; return what the server gives for it."""
        vendor = self._vendor
        fields = {"client_id": vendor.client_id, **({"scope": vendor.scope} if vendor.scope else {})}
        answer = await self._ask(vendor.device_path, fields)
        if answer.status != 200:
            raise refusal(vendor.name, "does not begin the login", answer)
        device_code = self._text(answer.body, "device_code")
        expires_s = seconds(answer.body.get("expires_in"), _DEFAULT_CODE_S)
        code = DeviceCode(self._text(answer.body, "user_code"), self._address(answer.body), expires_s)
        interval_s = seconds(answer.body.get("interval"), _INTERVAL_S)
        deadline = trio.current_time() + code.expires_in_s
        show(code)
        while True:
            await trio.sleep(interval_s)
            fields = {"grant_type": _DEVICE_GRANT, "client_id": vendor.client_id, "device_code": device_code}
            polled = await self._polled(deadline, partial(self._ask, vendor.token_path, fields))
            if polled is None:
                interval_s = slower(interval_s)
                continue
            if self._is_grant(polled):
                return polled.body
            match polled.body.get("error"):
                case "authorization_pending":
                    pass
                case "slow_down":
                    interval_s = seconds(polled.body.get("interval"), interval_s + _INTERVAL_S)
                case _:
                    raise refusal(vendor.name, "refuses the login", polled)

    async def _polled(self, deadline: float, ask: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """Ask whether the user has entered the code; None: a failure that may pass, after which it is asked again.

        Raises:
            LoginFailed: The code has expired, or the server can't be asked.
        """
        if trio.current_time() >= deadline:
            last = f"; {self._last_failure}" if self._last_failure else ""
            raise LoginFailed(f"{self._vendor.name}: the code has expired{last}")
        try:
            answer = await ask()
        except ServerUnreachable as why:
            self._last_failure = str(why)
            return None
        if answer.is_temporary and answer.body.get("error") not in _PENDING:
            self._last_failure = str(refusal(self._vendor.name, "has a temporary failure", answer))
            return None
        self._last_failure = ""
        return answer

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> Login:
        """Exchange the code that a browser has brought (RFC 6749, section 4.1.3, RFC 7636).

        Raises:
            LoginFailed: The server refuses it, or can't be reached.
        """
        fields = {
            "grant_type": "authorization_code",
            "client_id": self._vendor.client_id,
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": redirect_uri,
        }
        answer = await self._ask(self._vendor.token_path, fields)
        if answer.status != 200:
            raise refusal(self._vendor.name, "refuses the login", answer)
        return self._login(answer.body, "")

    def page_fields(self, redirect_uri: str, state: str, challenge: str) -> Mapping[str, str]:
        """Return the parameters of the page where a browser logs in, but for those of `Browser`."""
        return {
            "response_type": "code",
            "client_id": self._vendor.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }

    def _is_grant(self, answer: Answer) -> bool:
        """Return whether the user has entered the code."""
        return answer.status == 200

    async def refresh(self, credentials: JsonObject) -> object:
        """Return new credentials in place of expired ones.

        Raises:
            LoginFailed: The server refuses it, or can't be reached; the old ones may still be good.
        """
        vendor, refresh = self._vendor, str(credentials.get("refresh", ""))
        fields = {"grant_type": "refresh_token", "client_id": vendor.client_id, "refresh_token": refresh}
        answer = await self._ask(vendor.token_path, fields)
        if answer.status != 200:
            if answer.is_temporary:
                raise refusal(vendor.name, "has a temporary failure: no token refresh", answer)
            raise refusal(vendor.name, "refuses the refresh; log in again", answer)
        return self._login(answer.body, refresh).reveal()

    def api_key(self, credentials: JsonObject) -> str:
        """Return the key that requests carry."""
        return str(credentials["access"])

    def _login(self, body: Mapping[str, object], former_refresh: str) -> Login:
        """Read the tokens of an answer, as pi writes them."""
        expires_s = seconds(body.get("expires_in"), self._vendor.default_life_s)
        refresh = body.get("refresh_token", former_refresh or None)
        if not is_token(refresh):
            raise LoginFailed(f"{self._vendor.name} sent no usable refresh_token")
        try:
            return new_login(
                {
                    "type": "oauth",
                    "access": body.get("access_token"),
                    "refresh": refresh,
                    "expires": int((time.time() + expires_s - self._vendor.early_s) * 1000),
                }
            )
        except ValueError:
            raise LoginFailed(f"{self._vendor.name} sent no usable access_token") from None

    def _text(self, body: Mapping[str, object], name: str) -> str:
        value = body.get(name)
        if not isinstance(value, str) or not value or not value.isprintable():
            raise LoginFailed(f"{self._vendor.name} sent no usable {name}")
        return value

    def _address(self, body: Mapping[str, object]) -> str:
        """Return where the code is entered: an address of the web alone, since users open it."""
        address = self._text(body, "verification_uri_complete" if body.get("verification_uri_complete") else _URI)
        if not is_safe_endpoint(address):
            raise LoginFailed(f"{self._vendor.name} sent a verification_uri that is no https address")
        return address

    async def _ask(self, path: str, fields: Mapping[str, str]) -> Answer:
        return await ask_form(self._vendor.name, self._url(path), fields)

    def _url(self, path: str) -> str:
        return f"{self._vendor.url.rstrip('/')}{path}"
