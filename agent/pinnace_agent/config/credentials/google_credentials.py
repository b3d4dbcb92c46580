"""Google's application default credentials: the files that they are in, and the tokens that requests carry.

`llm.google.location` finds the file. Two kinds are used: `authorized_user` (a refresh token, RFC 6749 section
6) and `service_account` (an assertion that its key signs, RFC 7523). The metadata server of a machine in the cloud is
not asked, as the original takes its provider for usable where there is a file.

A token is kept for the life of the process until it expires. One that soon will is used while a new one is requested,
so that no request waits for it. The file is read for each new token, since it may have changed. No text has a secret.

The signature needs `cryptography`, which has compiled parts: it is the extra `vertex`, loaded for service accounts
alone. The packages without compiled parts that sign with RSA are no longer maintained, or warn that their timing
reveals the key.
"""

import base64
import json
import time
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.config.credentials.authorization_servers import Answer, ask_form, refusal, seconds
from pinnace_agent.config.credentials.logins import LoginFailed, is_safe_endpoint, is_token
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, read_object
from pinnace_agent.redaction.redactor import REDACTOR

EARLY_S: Final = 240.0
"""How long before its end a token is replaced."""

_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_ASSERTION_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# The longest that Google takes, and what it answers.
_LIFE_S: Final = 3600.0
# Between the check and the arrival of the request.
_MARGIN_S: Final = 10.0
_SECRET_FIELDS: Final = ("refresh_token", "client_secret", "private_key")
_NAME: Final = "Google"


class GoogleTokens:
    """The tokens of one file, for one process. All requests share a request for a new one."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self._path = path
        self._token = ""
        self._until_s = 0.0
        self._requested: trio.Event | None = None
        self._failure = ""

    async def token(self) -> str:
        """Return a token that is good now. Cancelling lets a request for a new one go on.

        Raises:
            LoginFailed: There is none; the text gives the reason, without a secret.
        """
        left_s = self._until_s - time.monotonic()
        if left_s < EARLY_S and self._requested is None:
            self._requested = trio.Event()
            trio.lowlevel.spawn_system_task(self._renew, self._requested, name="token of Google")
        if left_s > _MARGIN_S or self._requested is None:
            await trio.lowlevel.checkpoint()
            return self._token
        await self._requested.wait()
        if self._failure:
            raise LoginFailed(self._failure)
        return self._token

    async def _renew(self, done: trio.Event) -> None:
        """Request a token. Raises nothing but `trio.Cancelled`, at the end of the process."""
        try:
            begun_s = time.monotonic()
            answer = await _request(await trio.to_thread.run_sync(_read, self._path))
            self._token, self._failure = _token_of(answer), ""
            self._until_s = begun_s + seconds(answer.body.get("expires_in"), _LIFE_S)
        except LoginFailed as error:
            self._failure = str(error)
        except Exception as error:  # the boundary: nothing may end the event loop
            self._failure = f"no token: {type(error).__name__}"
        finally:
            self._requested = None
            done.set()


def _read(path: Path) -> JsonObject:
    try:
        content = read_object(path, is_relaxed=False)
    except ConfigurationFileError as error:
        raise LoginFailed(f"{path}: {error}") from None
    if content is None:
        raise LoginFailed(f"{path} is not there any more")
    REDACTOR.learn(*(value for name in _SECRET_FIELDS if isinstance(value := content.get(name), str)))
    return {**content, "path": str(path)}


async def _request(content: JsonObject) -> Answer:
    """Ask for a token.

    Raises:
        LoginFailed: A field is missing or wrong, or there is no answer.
    """
    place = str(content["path"])
    url = content.get("token_uri", _TOKEN_URL)
    if not isinstance(url, str) or not is_safe_endpoint(url):
        raise LoginFailed(f"{place}: token_uri must be an https address")
    match content.get("type"):
        case "authorized_user":
            names = ("client_id", "client_secret", "refresh_token")
            fields = {name: _text(content, name) for name in names}
            return await ask_form(_NAME, url, {"grant_type": "refresh_token", **fields})
        case "service_account":
            assertion = await trio.to_thread.run_sync(_assertion, content, url)
            return await ask_form(_NAME, url, {"grant_type": _ASSERTION_GRANT, "assertion": assertion})
        case kind:
            said = f"not {kind[:100]!r}" if isinstance(kind, str) else "and it has none"
            raise LoginFailed(f'{place}: type must be "authorized_user" or "service_account", {said}')


def _token_of(answer: Answer) -> str:
    if answer.status != 200:
        what = "has a temporary failure: no token refresh" if answer.is_temporary else "refuses the credentials"
        raise refusal(_NAME, what, answer)
    token = answer.body.get("access_token")
    if not isinstance(token, str) or not is_token(token):
        raise LoginFailed(f"{_NAME} sent no usable access_token")
    REDACTOR.learn(token)
    return token


def _text(content: JsonObject, name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str) or not value:
        raise LoginFailed(f"{content['path']}: {name} must be a text")
    return value


def _assertion(content: JsonObject, url: str) -> str:
    """Return what a service account says of itself, signed with its key (RFC 7515, RS256). Blocking."""
    now_s = int(time.time())
    key_id = content.get("private_key_id")
    head = {"alg": "RS256", "typ": "JWT", **({"kid": key_id} if isinstance(key_id, str) else {})}
    email = _text(content, "client_email")
    claims = {"iss": email, "sub": email, "scope": _SCOPE, "aud": url, "iat": now_s, "exp": now_s + int(_LIFE_S)}
    signed = b".".join(_encoded(json.dumps(each, separators=(",", ":")).encode()) for each in (head, claims))
    return b".".join((signed, _encoded(_signature(content, signed)))).decode()


def _signature(content: JsonObject, data: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        from pinnace_agent.core.installing import how_to_install

        text = "a service account of Google signs with the package cryptography, of the extra `vertex`"
        raise LoginFailed(f"{text}: {how_to_install('vertex')}") from None
    try:
        key = load_pem_private_key(_text(content, "private_key").encode(), password=None)
    except (ValueError, TypeError):  # their texts may quote the key
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise LoginFailed(f"{content['path']}: private_key must be an RSA key in PEM") from None
    return key.sign(data, PKCS1v15(), hashes.SHA256())


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
