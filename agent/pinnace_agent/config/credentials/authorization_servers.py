"""One question to an authorisation server, and its answer.

Decides where tokens may be sent, how long an answer may take and how much of it is read. No text has a token: of an
answer only the words that are made for people are shown. Not for start-up: it uses the HTTP client.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import trio

from pinnace_agent.config.credentials.logins import LoginFailed, is_safe_endpoint
from pinnace_agent.core.json_access import as_amount
from pinnace_agent.files.relaxed_json import is_object
from pinnace_agent.llm.transport.client import client_for
from pinnace_agent.llm.transport.proxies import ProxyUnusable

if TYPE_CHECKING:
    import httpx

REQUEST_LIMIT_S: Final = 20.0
"""For one answer. A refresh holds the lock of auth.json for as long."""
METADATA_LIMIT_S: Final = 3.0
"""For an answer of a machine's own cloud, which is near, or not there."""
MAX_BYTES: Final = 64 * 1024
"""Of one answer with tokens; the rest is not read."""
_LONGEST_S: Final = 1e9  # some thirty years: a server may send any number
_MAX_SHOWN_CHARS: Final = 300
_RESERVED_HOSTS: Final = frozenset({"169.254.169.254", "metadata.google.internal", "localhost", "127.0.0.1", "::1"})


class ServerUnreachable(LoginFailed):
    """A server has not answered: the same question may succeed later."""


class Answer(NamedTuple):
    """What a server has answered; the body is empty if it was no JSON object."""

    status: int
    body: Mapping[str, object]
    data: bytes = b""
    """The bytes of the body, as they came."""

    @property
    def is_temporary(self) -> bool:
        """Whether the same question may succeed later."""
        return self.status == 429 or self.status >= 500


async def ask_form(
    name: str, url: str, fields: Mapping[str, str], headers: Mapping[str, str] = MappingProxyType({})
) -> Answer:
    """Send a form, as RFC 6749 wants it.

    Args:
        name: Of the server, for users.
        url: Where tokens may be sent (`is_safe_endpoint`).
        fields: Of the form.
        headers: Of the request, on top of its own.

    Raises:
        LoginFailed: There is no answer, or nothing may be sent there.
    """
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return await _ask(name, "POST", url, {**kind, **headers}, urlencode(fields).encode())


async def ask_json(
    name: str, url: str, members: Mapping[str, object], headers: Mapping[str, str] = MappingProxyType({})
) -> Answer:
    """Send an object. Arguments, result and errors as of `ask_form`."""
    return await _ask(name, "POST", url, {"Content-Type": "application/json", **headers}, json.dumps(members).encode())


async def ask_for(name: str, url: str, headers: Mapping[str, str], max_bytes: int = MAX_BYTES) -> Answer:
    """Get an object. Result and errors as of `ask_form`.

    Args:
        name: Of the server, for users.
        url: Where tokens may be sent.
        headers: Of the request, with the token.
        max_bytes: Of the answer; the rest is not read.
    """
    return await _ask(name, "GET", url, headers, None, max_bytes)


async def ask_metadata(name: str, url: str, headers: Mapping[str, str]) -> Answer:
    """Get what a cloud gives its own machines, past any proxy. Result and errors as of `ask_form`.

    Args:
        name: Of the server, for users.
        url: Also one without TLS, at a name or an address that clouds reserve: it leads no further.
        headers: Of the request.
    """
    try:
        parts = urlsplit(url)
        is_reserved = parts.scheme == "http" and parts.hostname in _RESERVED_HOSTS
    except ValueError:
        is_reserved = False
    wait_s = METADATA_LIMIT_S if is_reserved else REQUEST_LIMIT_S
    return await _ask(name, "GET", url, headers, None, wait_s=wait_s, is_reserved=is_reserved)


def refusal(name: str, what: str, answer: Answer) -> LoginFailed:
    """Return the failure with the words of the server that are made for people.

    Args:
        name: Of the server.
        what: What it does: `refuses the login`.
        answer: Its answer.
    """
    words: list[object] = [answer.body.get("error"), answer.body.get("error_description") or answer.body.get("message")]
    if is_object(said := words[0]):  # of OpenAI
        words = [said.get("code") or said.get("type"), said.get("message")]
    text = ": ".join(str(each) for each in words if each)
    shown = "".join(each if each.isprintable() else " " for each in text)[:_MAX_SHOWN_CHARS]
    return LoginFailed(f"{name} {what} ({answer.status}{f', {shown}' if shown else ''})")


def seconds(value: object, default: float) -> float:
    """Read how long something takes or lasts; the default where that is no number, or not positive."""
    return min(as_amount(value) or default, _LONGEST_S)


async def _ask(  # all but the request itself are keywords
    name: str,
    method: str,
    url: str,
    headers: Mapping[str, str],
    content: bytes | None,
    max_bytes: int = MAX_BYTES,
    *,
    wait_s: float = REQUEST_LIMIT_S,
    is_reserved: bool = False,
) -> Answer:
    import httpx

    if not is_reserved and not is_safe_endpoint(url):
        raise LoginFailed(f"{name}: an authorisation server must be on an https address, not {url}")
    try:
        with trio.fail_after(wait_s):
            client = await client_for(url, is_direct=is_reserved)
            request = client.build_request(
                method, url, headers={"Accept": "application/json", **headers}, content=content
            )
            response = await client.send(request, stream=True)
            body = await _body(response, max_bytes)
    except trio.TooSlowError:
        raise ServerUnreachable(f"{name} has a temporary failure: no token in {wait_s:g} s (timeout)") from None
    except (httpx.HTTPError, OSError) as error:
        why = str(error) or type(error).__name__
        raise ServerUnreachable(f"{name} can't be reached (connection error): {why}") from None
    except UnicodeError:
        raise LoginFailed(f"{name} can't be reached: no host can have the name in {url}") from None
    except (httpx.InvalidURL, ProxyUnusable) as error:
        raise LoginFailed(f"{name} can't be reached: {error}") from None
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    return Answer(response.status_code, value if is_object(value) else {}, body)


async def _body(response: "httpx.Response", max_bytes: int) -> bytes:
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > max_bytes:
                break
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 0.1):
            await response.aclose()
    return bytes(body)
