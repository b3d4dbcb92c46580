"""One question to a server that gives out keys, and its answer.

Decides where such a question may go: over TLS, or to this machine and to the addresses that clouds reserve for it,
which lead no further. An answer is bounded in time and size. No text has a part of an address, which is configured, or
of a header, which may be secret. Not for start-up: it uses the HTTP client.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import trio

from pinnace_agent.core.json_access import as_object, as_text
from pinnace_agent.files.text_file import TextFileError, read_text_file
from pinnace_agent.llm.bedrock.identity.sources import Unusable
from pinnace_agent.llm.bedrock.signature import SigningKeys
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_spec.wire.json_text import WireError, decode_line

WAIT_S: Final = 5.0
MAX_REPLY_BYTES: Final = 64 * 1024
_NEAR_HOSTS: Final = frozenset(
    {"169.254.170.2", "169.254.170.23", "169.254.169.254", "fd00:ec2::23", "fd00:ec2::254", "localhost", "::1"}
)
_LOOPBACK: Final = "127."
_MAX_SHOWN_CHARS: Final = 300
_LAST_S: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


class Question(NamedTuple):
    """A request for keys, or for what leads to them."""

    name: str
    """Who is asked, for users: `the endpoint of VARIABLE`."""
    url: str
    headers: Mapping[str, str] = {}
    method: str = "GET"
    body: bytes | None = None
    wait_s: float = WAIT_S
    is_direct: bool = False
    """Whether it goes past a proxy."""


class Reply(NamedTuple):
    """What a server has answered."""

    status: int
    body: bytes

    def members(self) -> Mapping[str, object]:
        """Return the object in it; empty if there is none."""
        try:
            return as_object(decode_line(self.body)) or {}
        except WireError:
            return {}


class Expiring(NamedTuple):
    """Keys, and until when they are good."""

    keys: SigningKeys
    until_s: float
    """Seconds since the epoch; infinite: they have no end."""


def check_address(url: str, name: str, near: str = "the address of ECS or EKS") -> None:
    """Raise if keys must not come from an address.

    Args:
        url: The address.
        name: Where it is set, for users.
        near: Which reserved addresses may be meant, for users.

    Raises:
        Unusable: They must not.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise Unusable(f"{name} is no address") from None
    is_near = host in _NEAR_HOSTS or host.startswith(_LOOPBACK)
    if not host or parts.scheme not in {"http", "https"} or (parts.scheme == "http" and not is_near):
        raise Unusable(f"{name} must begin with https://, or name this machine or {near}")


async def ask(question: Question) -> Reply:
    """Return an answer of any status. Cancelling ends the request.

    Raises:
        Unusable: There is none.
    """
    import httpx

    from pinnace_agent.llm.transport.client import client_for
    from pinnace_agent.llm.transport.proxies import ProxyUnusable

    headers = {"Accept": "application/json", **question.headers}
    body = bytearray()
    try:
        with trio.fail_after(question.wait_s):
            client = await client_for(question.url, is_direct=question.is_direct)
            async with client.stream(question.method, question.url, headers=headers, content=question.body) as response:
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > MAX_REPLY_BYTES:
                        break
    except trio.TooSlowError:
        raise Unusable(f"{question.name} does not answer in {question.wait_s:g} s (timeout)") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, ProxyUnusable) as error:
        raise Unusable(f"{question.name} does not answer ({type(error).__name__})") from None
    return Reply(response.status_code, bytes(body))


def refusal(name: str, reply: Reply, words: str = "") -> Unusable:
    """Return the failure of an answer that is a refusal.

    Args:
        name: Who answered.
        reply: What.
        words: Of the answer, for people.
    """
    shown = "".join(each if each.isprintable() else " " for each in words)[:_MAX_SHOWN_CHARS].strip()
    is_temporary = reply.status == 429 or reply.status >= 500
    status = f"{'service unavailable, ' if is_temporary else ''}the status {reply.status}"
    return Unusable(f"{name} answers with {status}{f': {shown}' if shown else ''}")


def read_keys(members: Mapping[str, object], name: str, token: str = "Token", *, may_last: bool = False) -> Expiring:
    """Read keys as AWS writes them: `AccessKeyId`, `SecretAccessKey` and `Expiration`. They are redacted from then on.

    Args:
        members: Of an answer.
        name: Who answered.
        token: The member that holds the session token.
        may_last: Whether they need no end.

    Raises:
        Unusable: Something is missing.
    """
    key_id, secret = as_text(members.get("AccessKeyId")), as_text(members.get("SecretAccessKey"))
    end = as_text(members.get("Expiration"))
    try:
        until_s = float("inf") if end is None and may_last else moment(end or "")
    except (ValueError, OverflowError):
        raise Unusable(f"{name} answers without keys that say when they expire") from None
    if not key_id or not secret:
        raise Unusable(f"{name} answers without AccessKeyId and SecretAccessKey")
    keys = SigningKeys(key_id, secret, as_text(members.get(token)) or None)
    learn(keys)
    return Expiring(keys, until_s)


def moment(text: str) -> float:
    """Read a time as AWS writes it, of UTC if it names no zone, in seconds since the epoch.

    Raises:
        ValueError: It is none.
    """
    read = datetime.fromisoformat(text.removesuffix("UTC"))  # older versions of AWS's command line wrote it so
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def written(moment_s: float) -> str:
    """Return a time as AWS's clients write it; one behind the last year of a calendar is the end of that year."""
    return datetime.fromtimestamp(min(moment_s, _LAST_S), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def secret_in(path: str, name: str) -> str:
    """Return the token in a file, which is redacted from then on. It is read each time, since it is replaced.

    Raises:
        Unusable: There is none.
    """
    try:
        token = await trio.to_thread.run_sync(read_text_file, path, abandon_on_cancel=True)
    except TextFileError as error:
        raise Unusable(f"{name}: {path} {error.text}") from None
    if len(token.split()) > 1:
        raise Unusable(f"{name}: {path} must hold a token, without blanks and line breaks inside")
    REDACTOR.learn(token.strip())
    return token.strip()


def learn(keys: SigningKeys) -> None:
    """Have keys redacted."""
    REDACTOR.learn(keys.secret_access_key, keys.session_token)
