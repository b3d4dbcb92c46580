"""How Google's application default credentials become a token: one question, or two, for each kind of them.

A file holds a user's login (`authorized_user`: a refresh token, RFC 6749 section 6), a service account (an assertion
that its key signs), a service account that another identity may act as (`impersonated_service_account`), or an identity
of another authority (`external_account`: its token, from a file or an address, or as `google_foreign_identities` has
it, is exchanged, RFC 8693). A machine in
Google's cloud asks its metadata server. No text has a secret; a failure names the file and the field.
"""

import json
import time
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

import trio

from pinnace_agent.config.credentials.authorization_servers import (
    Answer,
    ask_form,
    ask_json,
    ask_metadata,
    refusal,
    seconds,
)
from pinnace_agent.config.credentials.logins import LoginFailed, is_safe_endpoint, is_token
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_list, is_object, read_object
from pinnace_agent.files.text_file import TextFileError, read_text_file
from pinnace_agent.llm.google.location import HOST_VARIABLE
from pinnace_agent.redaction.redactor import REDACTOR

_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"
_EXCHANGE_URL: Final = "https://sts.googleapis.com/v1/token"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_ASSERTION_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"
_IMPERSONATION: Final = "service_account_impersonation_url"
_METADATA_PATH: Final = "/computeMetadata/v1/instance/service-accounts/default/token"
_METADATA_HEADERS: Final = {"Metadata-Flavor": "Google"}
# What Google answers where it does not say how long a token is good.
_LIFE_S: Final = 3600.0
_SECRET_FIELDS: Final = ("refresh_token", "client_secret", "private_key")
_NAME: Final = "Google"


class GoogleToken(NamedTuple):
    """A token. Shown without it."""

    access: str
    life_s: float

    def __repr__(self) -> str:
        """Return nothing of what is inside."""
        return "GoogleToken(...)"


async def token_of_file(path: Path) -> GoogleToken:
    """Ask for a token with the credentials of a file.

    Raises:
        LoginFailed: A field is missing or wrong, or there is no answer.
    """
    return await _Credentials(await trio.to_thread.run_sync(_read, path), str(path)).token()


async def token_of_machine(server_url: str) -> GoogleToken:
    """Ask the metadata server of this machine, at its address. Errors as of `token_of_file`."""
    name = f"the metadata server of Google ({server_url.partition('://')[2]})"
    url = f"{server_url}{_METADATA_PATH}?{urlencode({'scopes': _SCOPE})}"
    try:
        answer = await ask_metadata(name, url, _METADATA_HEADERS)
    except LoginFailed as error:
        raise LoginFailed(f"{error}; {HOST_VARIABLE} names another one") from None
    return _oauth_token(answer, name, "gives out no token")


class _Credentials:
    """The credentials of a file, or of a part of it."""

    def __init__(self, content: JsonObject, place: str) -> None:
        """Have their secrets redacted.

        Args:
            content: The object.
            place: Where it is, for users.
        """
        self._content = content
        self._place = place
        REDACTOR.learn(*(value for name in _SECRET_FIELDS if isinstance(value := content.get(name), str)))

    async def token(self) -> GoogleToken:
        match self._content.get("type"):
            case "authorized_user":
                names = ("client_id", "client_secret", "refresh_token")
                fields = {name: self._text(name) for name in names}
                return await self._of_form({"grant_type": "refresh_token", **fields})
            case "service_account":
                assertion = await trio.to_thread.run_sync(self._assertion)
                return await self._of_form({"grant_type": _ASSERTION_GRANT, "assertion": assertion})
            case "impersonated_service_account":
                source = self._object("source_credentials")
                if source.get("type") == "impersonated_service_account":
                    raise LoginFailed(f"{self._place}: source_credentials.type must be another one")
                own = await _Credentials(source, f"{self._place}: source_credentials").token()
                return await self._impersonated(own)
            case "external_account":
                exchanged = await self._exchanged()
                return exchanged if self._content.get(_IMPERSONATION) is None else await self._impersonated(exchanged)
            case kind:
                known = '"authorized_user", "service_account", "impersonated_service_account" or "external_account"'
                said = f"not {kind[:100]!r}" if isinstance(kind, str) else "and it has none"
                raise LoginFailed(f"{self._place}: type must be {known}, {said}")

    async def _of_form(self, fields: Mapping[str, str]) -> GoogleToken:
        return _oauth_token(await ask_form(_NAME, self._url("token_uri", _TOKEN_URL), fields), _NAME)

    def _assertion(self) -> str:
        """Return what a service account says of itself. Blocking."""
        from pinnace_agent.config.credentials.google_assertion import signed_assertion

        key_id = self._content.get("private_key_id")
        return signed_assertion(
            self._text("client_email"),
            self._text("private_key"),
            key_id if isinstance(key_id, str) else None,
            self._url("token_uri", _TOKEN_URL),
            _SCOPE,
            self._place,
        )

    async def _impersonated(self, own: GoogleToken) -> GoogleToken:
        """Return the token of the service account that the owner of a token may act as."""
        url = self._url(_IMPERSONATION)
        options = self._content.get("service_account_impersonation")
        life_s = seconds(options.get("token_lifetime_seconds") if is_object(options) else None, _LIFE_S)
        delegates = self._content.get("delegates")
        chain = {"delegates": delegates} if is_list(delegates) else {}
        members = {**chain, "scope": [_SCOPE], "lifetime": f"{life_s:.0f}s"}
        answer = await ask_json(_NAME, url, members, {"Authorization": f"Bearer {own.access}"})
        if answer.status != 200:
            raise _refused(answer, _NAME, f"refuses {_IMPERSONATION}")
        token, end = answer.body.get("accessToken"), answer.body.get("expireTime")
        try:
            left_s = datetime.fromisoformat(end if isinstance(end, str) else "").timestamp() - time.time()
        except ValueError:
            left_s = 0.0
        return _known(token, seconds(left_s, _LIFE_S), "accessToken", _NAME)

    async def _exchanged(self) -> GoogleToken:
        """Exchange the token of another authority."""
        fields = {
            "grant_type": _EXCHANGE_GRANT,
            "audience": self._text("audience"),
            "scope": _SCOPE,
            "requested_token_type": _ACCESS_TOKEN,
            "subject_token_type": self._text("subject_token_type"),
        }
        url = self._url("token_url", _EXCHANGE_URL)
        headers: dict[str, str] = {}
        if self._content.get("client_id") is not None:
            pair = f"{self._text('client_id')}:{self._content.get('client_secret') or ''}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            REDACTOR.learn_values(headers)
        elif self._content.get("workforce_pool_user_project") is not None:
            options = {"userProject": self._text("workforce_pool_user_project")}
            fields["options"] = quote(json.dumps(options))
        subject_token = await self._subject_token()
        return _oauth_token(await ask_form(_NAME, url, {**fields, "subject_token": subject_token}, headers), _NAME)

    async def _subject_token(self) -> str:
        """Return the token of the other authority."""
        source = _Credentials(self._object("credential_source"), f"{self._place}: credential_source")
        if (own := await self._token_of_identity(source)) is not None:
            return own
        form = source._content.get("format")
        member = None
        if is_object(form) and form.get("type") == "json":
            member = _Credentials(form, f"{source._place}.format")._text("subject_token_field_name")
        text = await source._foreign_text()
        if member is not None:
            try:
                value: object = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            found = value.get(member) if is_object(value) else None
            text = found if isinstance(found, str) else ""
        if not is_token(text):
            where = f" in its member {member!r}" if member is not None else ""
            raise LoginFailed(f"{source._place}: there is no token{where}")
        REDACTOR.learn(text)
        return text

    async def _token_of_identity(self, source: "_Credentials") -> str | None:
        """Return the token of a program or of AWS; None: the source is a file or an address."""
        from pinnace_agent.config.credentials import google_foreign_identities as foreign

        audience = self._text("audience")
        if "environment_id" in source._content:
            return await foreign.token_of_aws(source._content, source._place, audience)
        if "executable" not in source._content:
            return None
        url = str(self._content.get(_IMPERSONATION) or "")
        account = url.rpartition("/")[2].removesuffix(":generateAccessToken") or None
        token = await foreign.token_of_program(
            source._object("executable"),
            f"{source._place}.executable",
            audience,
            self._text("subject_token_type"),
            account,
        )
        if not is_token(token):
            raise LoginFailed(f"{source._place}.executable: its token must be printable ASCII characters")
        REDACTOR.learn(token)
        return token

    async def _foreign_text(self) -> str:
        """Return what the file or the address of a source holds."""
        if self._content.get("file") is not None:
            path = self._text("file")
            try:
                text = await trio.to_thread.run_sync(read_text_file, path, abandon_on_cancel=True)
            except TextFileError as error:
                raise LoginFailed(f"{self._place}.file: {path} {error.text}") from None
            return text.strip()
        if self._content.get("url") is not None:
            named = self._content.get("headers")
            headers = (
                {name: value for name, value in named.items() if isinstance(value, str)} if is_object(named) else {}
            )
            REDACTOR.learn_values(headers)
            name = f"{self._place}.url"
            answer = await ask_metadata(name, self._text("url"), headers)
            if answer.status != 200:
                raise _refused(answer, name, "gives out no token")
            return answer.data.decode("utf-8", "replace").strip()
        other = "; certificate is not supported" if "certificate" in self._content else ""
        raise LoginFailed(f"{self._place} must have a file, a url, an executable or an environment_id{other}")

    def _text(self, name: str) -> str:
        value = self._content.get(name)
        if not isinstance(value, str) or not value:
            raise LoginFailed(f"{self._place}: {name} must be a text")
        return value

    def _object(self, name: str) -> JsonObject:
        value = self._content.get(name)
        if not is_object(value):
            raise LoginFailed(f"{self._place}: {name} must be an object")
        return value

    def _url(self, name: str, usual: str | None = None) -> str:
        url = self._content.get(name, usual)
        if not isinstance(url, str) or not is_safe_endpoint(url):
            raise LoginFailed(f"{self._place}: {name} must be an https address")
        return url


def _read(path: Path) -> JsonObject:
    try:
        content = read_object(path, is_relaxed=False)
    except ConfigurationFileError as error:
        raise LoginFailed(f"{path}: {error}") from None
    if content is None:
        raise LoginFailed(f"{path} is not there any more")
    return content


def _oauth_token(answer: Answer, name: str, what: str = "refuses the credentials") -> GoogleToken:
    if answer.status != 200:
        raise _refused(answer, name, what)
    life_s = seconds(answer.body.get("expires_in"), _LIFE_S)
    return _known(answer.body.get("access_token"), life_s, "access_token", name)


def _refused(answer: Answer, name: str, what: str) -> LoginFailed:
    return refusal(name, "has a temporary failure: no token" if answer.is_temporary else what, answer)


def _known(token: object, life_s: float, member: str, name: str) -> GoogleToken:
    if not isinstance(token, str) or not is_token(token):
        raise LoginFailed(f"{name} sent no usable {member}")
    REDACTOR.learn(token)
    return GoogleToken(token, life_s)
