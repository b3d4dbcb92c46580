"""Logs in to a provider with a code that the user enters in a browser, and refreshes such logins.

RFC 8628, and RFC 6749 section 6. `vendor_logins` says which servers are asked, and as which client. No text has a token
or a code but the one that the user is to enter. Not for start-up: it uses the HTTP client.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode

import trio

from pinnace_agent.config.credentials.logins import Login, LoginFailed, is_safe_endpoint, is_token, new_login
from pinnace_agent.config.credentials.vendor_logins import Vendor, vendor_of
from pinnace_agent.core.json_access import as_amount
from pinnace_agent.files.relaxed_json import JsonObject, is_object
from pinnace_agent.llm.transport.client import client_for
from pinnace_agent.llm.transport.proxies import ProxyUnusable

if TYPE_CHECKING:
    import httpx

REQUEST_LIMIT_S: Final = 20.0
"""For one answer of an authorisation server. A refresh holds the lock of auth.json for as long."""
MAX_BYTES: Final = 64 * 1024
"""Of one answer; the rest is not read."""
_INTERVAL_S: Final = 5.0  # RFC 8628: where the server names none, and what `slow_down` adds
_DEFAULT_CODE_S: Final = 900.0
_LONGEST_S: Final = 1e9  # some thirty years: a server may send any number
_URI: Final = "verification_uri"
_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_MAX_SHOWN_CHARS: Final = 300


class DeviceCode(NamedTuple):
    """What the user needs to log in."""

    user_code: str
    address: str
    """Where the code is entered."""
    expires_in_s: float


class _Answer(NamedTuple):
    status: int
    body: Mapping[str, object]


class DeviceLogin:
    """The logins of one provider: a `LoginMethod`."""

    def __init__(self, vendor: Vendor) -> None:
        """Ask the servers of this vendor."""
        self._vendor = vendor

    async def log_in(self, show: Callable[[DeviceCode], None]) -> Login:
        """Let the user log in, and return the login. Waits until the code was entered; cancelling gives up.

        Args:
            show: Shows the user what to do. Called once.

        Raises:
            LoginFailed: The server refuses it, can't be reached, or the code has expired.
        """
        vendor = self._vendor
        fields = {"client_id": vendor.client_id, **({"scope": vendor.scope} if vendor.scope else {})}
        answer = await self._ask(vendor.device_path, fields)
        if answer.status != 200:
            raise self._refused("does not begin the login", answer)
        device_code = self._text(answer.body, "device_code")
        expires_s = _seconds(answer.body.get("expires_in"), _DEFAULT_CODE_S)
        code = DeviceCode(self._text(answer.body, "user_code"), self._address(answer.body), expires_s)
        interval_s = _seconds(answer.body.get("interval"), _INTERVAL_S)
        deadline = trio.current_time() + code.expires_in_s
        show(code)
        while True:
            await trio.sleep(interval_s)
            if trio.current_time() >= deadline:
                raise LoginFailed(f"{vendor.name}: the code has expired")
            fields = {"grant_type": _DEVICE_GRANT, "client_id": vendor.client_id, "device_code": device_code}
            answer = await self._ask(vendor.token_path, fields)
            if answer.status == 200:
                return self._login(answer.body, "")
            match answer.body.get("error"):
                case "authorization_pending":
                    pass
                case "slow_down":
                    interval_s = _seconds(answer.body.get("interval"), interval_s + _INTERVAL_S)
                case _:
                    raise self._refused("refuses the login", answer)

    async def refresh(self, credentials: JsonObject) -> object:
        """Return new credentials in place of expired ones.

        Raises:
            LoginFailed: The server refuses it, or can't be reached; the old ones may still be good.
        """
        vendor, refresh = self._vendor, str(credentials.get("refresh", ""))
        fields = {"grant_type": "refresh_token", "client_id": vendor.client_id, "refresh_token": refresh}
        answer = await self._ask(vendor.token_path, fields)
        if answer.status != 200:
            if answer.status == 429 or answer.status >= 500:
                raise self._refused("has a temporary failure: no token refresh", answer)
            raise self._refused("refuses the refresh; log in again", answer)
        return self._login(answer.body, refresh).reveal()

    def api_key(self, credentials: JsonObject) -> str:
        """Return the key that requests carry."""
        return str(credentials["access"])

    def _login(self, body: Mapping[str, object], former_refresh: str) -> Login:
        """Read the tokens of an answer, as pi writes them."""
        expires_s = _seconds(body.get("expires_in"), self._vendor.default_life_s)
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

    async def _ask(self, path: str, fields: Mapping[str, str]) -> _Answer:
        import httpx

        url, name = f"{self._vendor.url.rstrip('/')}{path}", self._vendor.name
        if not is_safe_endpoint(url):
            raise LoginFailed(f"{name}: an authorisation server must be on an https address, not {self._vendor.url}")
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        try:
            with trio.fail_after(REQUEST_LIMIT_S):
                client = await client_for(url)
                request = client.build_request("POST", url, headers=headers, content=urlencode(fields).encode())
                response = await client.send(request, stream=True)
                body = await _body(response)
        except trio.TooSlowError:
            raise LoginFailed(f"{name} has a temporary failure: no token in {REQUEST_LIMIT_S:g} s (timeout)") from None
        except (httpx.HTTPError, OSError) as error:
            why = str(error) or type(error).__name__
            raise LoginFailed(f"{name} can't be reached (connection error): {why}") from None
        except (httpx.InvalidURL, ProxyUnusable) as error:
            raise LoginFailed(f"{name} can't be reached: {error}") from None
        try:
            value: object = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        return _Answer(response.status_code, value if is_object(value) else {})

    def _refused(self, what: str, answer: _Answer) -> LoginFailed:
        """Return the failure with the words of the server that are made for people."""
        words = [str(answer.body[name]) for name in ("error", "error_description") if answer.body.get(name)]
        said = "".join(each if each.isprintable() else " " for each in ": ".join(words))[:_MAX_SHOWN_CHARS]
        return LoginFailed(f"{self._vendor.name} {what} ({answer.status}{f', {said}' if said else ''})")


def device_login_of(provider: str, folder: Path) -> DeviceLogin | None:
    """Return how a provider logs in. Arguments, result and errors as of `vendor_of`."""
    vendor = vendor_of(provider, folder)
    return None if vendor is None else DeviceLogin(vendor)


async def _body(response: "httpx.Response") -> bytes:
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_BYTES:
                break
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 0.1):
            await response.aclose()
    return bytes(body)


def _seconds(value: object, default: float) -> float:
    """Read how long something takes or lasts; the default where that is no number, or not positive."""
    return min(as_amount(value) or default, _LONGEST_S)
