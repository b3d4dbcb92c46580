"""Keys of IAM Identity Center (SSO), for a user who has signed in: `aws sso login` has stored a token.

Decides where the token is (`~/.aws/sso/cache`, in a file named by the digest of the session), when it is refreshed,
and what is stored then. A token of a session is refreshed in its last five minutes, and the new one is stored in the
same file, where AWS's own clients find it: under a lock that other processes of this program take too, and to the end
once it was asked for, since a refresh token may be good once. The portal exchanges the token for keys.
"""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha1
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import trio

from pinnace_agent.core.finishing import finish_within
from pinnace_agent.core.json_access import as_amount, as_object, as_text
from pinnace_agent.files.file_lock import WAIT_S as LOCK_WAIT_S
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.json_file import FileForm, LockedFile, edit_object, pretty
from pinnace_agent.files.paths import home_dir
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, read_object
from pinnace_agent.llm.bedrock.identity.asking import (
    WAIT_S,
    Expiring,
    Question,
    ask,
    check_address,
    moment,
    read_keys,
    refusal,
    seconds_of,
)
from pinnace_agent.llm.bedrock.identity.sources import SingleSignOn, Unusable
from pinnace_agent.redaction.redactor import REDACTOR

_EARLY_S: Final = 300.0
_REFRESH_LIMIT_S: Final = WAIT_S + LOCK_WAIT_S
"""Another process may be asking a slow server for the same token."""
_NEAR: Final = "this machine"
_FORM: Final = FileForm(pretty, is_private=True)
_SECRETS: Final = ("accessToken", "refreshToken", "clientSecret")


async def keys_of_sign_on(source: SingleSignOn, env: Mapping[str, str]) -> Expiring:
    """Exchange the stored token for keys.

    Raises:
        Unusable: There is no token that is good, the role is not the user's, or no server answers.
    """
    check_address(source.url, "the address of SSO (AWS_ENDPOINT_URL_SSO, AWS_ENDPOINT_URL or endpoint_url)", _NEAR)
    name = f"{source.place}: the portal of SSO"
    query = urlencode({"role_name": source.role_name, "account_id": source.account_id})
    headers = {"x-amz-sso_bearer_token": await _token(source, env)}
    reply = await ask(Question(name, f"{source.url}/federation/credentials?{query}", headers))
    if reply.status == 401:
        raise Unusable(f"{name} does not accept the token: {_SIGN_IN}")
    members = reply.members()
    if reply.status != 200:
        raise refusal(name, reply, as_text(members.get("message")) or "")
    given = as_object(members.get("roleCredentials")) or {}
    until_s = seconds_of(given.get("expiration"))
    end = "" if until_s is None else datetime.fromtimestamp(until_s, UTC).isoformat()
    read = {"AccessKeyId": given.get("accessKeyId"), "SecretAccessKey": given.get("secretAccessKey")}
    return read_keys({**read, "Token": given.get("sessionToken"), "Expiration": end}, name)


_SIGN_IN: Final = "sign in with `aws sso login`"


async def _token(source: SingleSignOn, env: Mapping[str, str]) -> str:
    digest = sha1(source.token_name.encode(), usedforsecurity=False).hexdigest()  # a name, as AWS's clients make it
    path = home_dir(env) / ".aws" / "sso" / "cache" / f"{digest}.json"
    content = await trio.to_thread.run_sync(_read, source, path, abandon_on_cancel=True)
    left_s = _left_s(content)
    if left_s < _EARLY_S and source.is_refreshable and as_text(content.get("refreshToken")):
        content = await _refreshed(source, path, content)
        left_s = _left_s(content)
    token = as_text(content.get("accessToken"))
    if token is None or left_s <= 0:
        raise Unusable(f"{source.place}: the token in {path} has expired: {_SIGN_IN}")
    return token


def _read(source: SingleSignOn, path: Path) -> JsonObject:
    """Read a token. Blocking."""
    try:
        content = read_object(path, is_relaxed=False)
    except ConfigurationFileError as error:
        raise Unusable(f"{source.place}: {path}: {error}") from None
    if content is None:
        raise Unusable(f"{source.place}: there is no token in {path}: {_SIGN_IN}")
    return _known(content)


def _known(content: JsonObject) -> JsonObject:
    REDACTOR.learn(*(as_text(content.get(each)) for each in _SECRETS))
    return content


def _left_s(content: Mapping[str, object], member: str = "expiresAt") -> float:
    """Return for how long something is good; nothing if it does not say so."""
    try:
        return moment(as_text(content.get(member)) or "") - time.time()
    except ValueError:
        return 0.0


async def _refreshed(source: SingleSignOn, path: Path, content: JsonObject) -> JsonObject:
    """Return the token after a refresh; the one that is stored if that fails while it is good."""
    refreshed: list[JsonObject] = []
    failures: list[str] = []

    async def work() -> None:
        try:
            refreshed.append(await _refresh(source, path))
        except Unusable as why:
            failures.append(str(why))
        except (LockHeld, OSError, ConfigurationFileError) as error:
            failures.append(f"{source.place}: {path}: {error}")

    await finish_within(_REFRESH_LIMIT_S, work)
    if not refreshed and _left_s(content) <= 0:
        raise Unusable(f"{failures[0] if failures else f'{source.place}: no token came in time (timeout)'}; {_SIGN_IN}")
    return refreshed[0] if refreshed else content


async def _refresh(source: SingleSignOn, path: Path) -> JsonObject:
    lock = await trio.to_thread.run_sync(LockedFile, path)
    try:
        stored = _known(await trio.to_thread.run_sync(lock.read))
        if _left_s(stored) >= _EARLY_S:  # another process was faster
            return stored
        new = _known({**stored, **await _ask_for_token(source, stored)})
        await trio.to_thread.run_sync(_store, lock, path, new)
        return new
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(lock.release)


def _store(lock: LockedFile, path: Path, new: JsonObject) -> None:
    """Store what a refresh has brought, also if the lock was lost meanwhile. Blocking."""

    def change(old: JsonObject) -> JsonObject:
        return {**old, **new}

    if lock.edit(change, _FORM) is None:
        edit_object(path, change, _FORM)


async def _ask_for_token(source: SingleSignOn, stored: JsonObject) -> JsonObject:
    """Return the members that a refresh changes."""
    check_address(
        source.refresh_url, "the address of SSO (AWS_ENDPOINT_URL_SSO_OIDC, AWS_ENDPOINT_URL or endpoint_url)", _NEAR
    )
    name = f"{source.place}: the token service of SSO"
    members = {each: as_text(stored.get(each)) for each in ("clientId", "clientSecret", "refreshToken")}
    lacking = [each for each, value in members.items() if value is None]
    if lacking or _left_s(stored, "registrationExpiresAt") <= 0:
        raise Unusable(f"{source.place}: the token has expired, and can't be refreshed")
    body = json.dumps({**members, "grantType": "refresh_token"}).encode()
    headers = {"Content-Type": "application/json"}
    reply = await ask(Question(name, f"{source.refresh_url}/token", headers, "POST", body))
    answer = reply.members()
    token, life_s = as_text(answer.get("accessToken")), as_amount(answer.get("expiresIn"))
    if reply.status != 200:
        raise refusal(name, reply, as_text(answer.get("error_description")) or as_text(answer.get("error")) or "")
    if token is None or not life_s:
        raise Unusable(f"{name} answers without accessToken and expiresIn")
    end = datetime.fromtimestamp(time.time() + life_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    renewed = as_text(answer.get("refreshToken"))
    return {"accessToken": token, "expiresAt": end, **({"refreshToken": renewed} if renewed else {})}
