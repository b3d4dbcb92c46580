"""Keys of IAM Identity Center (SSO), for a user who has signed in: `aws sso login` has stored a token.

Decides where the token is (`~/.aws/sso/cache`, in a file named by the digest of the session), and how one of a session
is refreshed. The portal exchanges the token for keys.
"""

import json
from collections.abc import Mapping
from hashlib import sha1
from typing import Final
from urllib.parse import urlencode

from pinnace_agent.core.json_access import as_amount, as_object, as_text
from pinnace_agent.files.paths import home_dir
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_agent.llm.bedrock.identity.asking import (
    Expiring,
    Question,
    ask,
    check_address,
    read_keys,
    refusal,
    written,
)
from pinnace_agent.llm.bedrock.identity.sources import SingleSignOn, Unusable
from pinnace_agent.llm.bedrock.identity.stored_tokens import StoredToken, end_after, seconds_left

_NEAR: Final = "this machine"
_SECRETS: Final = ("accessToken", "refreshToken", "clientSecret")
_SIGN_IN: Final = "sign in with `aws sso login`"


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
    until_ms = as_amount(given.get("expiration"))
    end = "" if until_ms is None else written(until_ms / 1000)
    read = {"AccessKeyId": given.get("accessKeyId"), "SecretAccessKey": given.get("secretAccessKey")}
    return read_keys({**read, "Token": given.get("sessionToken"), "Expiration": end}, name)


async def _token(source: SingleSignOn, env: Mapping[str, str]) -> str:
    digest = sha1(source.token_name.encode(), usedforsecurity=False).hexdigest()  # a name, as AWS's clients make it
    path = home_dir(env) / ".aws" / "sso" / "cache" / f"{digest}.json"

    async def refresh(stored: JsonObject) -> Mapping[str, object]:
        return await _ask_for_token(source, stored)

    token = StoredToken(source.place, path, _SIGN_IN, _left_s, _secrets)
    return as_text((await token.content(refresh if source.is_refreshable else None)).get("accessToken")) or ""


def _left_s(content: JsonObject) -> float:
    return seconds_left(content) if as_text(content.get("accessToken")) else 0.0


def _secrets(content: JsonObject) -> list[str | None]:
    return [as_text(content.get(each)) for each in _SECRETS]


async def _ask_for_token(source: SingleSignOn, stored: JsonObject) -> Mapping[str, object]:
    """Return the members that a refresh changes."""
    check_address(
        source.refresh_url, "the address of SSO (AWS_ENDPOINT_URL_SSO_OIDC, AWS_ENDPOINT_URL or endpoint_url)", _NEAR
    )
    name = f"{source.place}: the token service of SSO"
    members = {each: as_text(stored.get(each)) for each in ("clientId", "clientSecret", "refreshToken")}
    lacking = [each for each, value in members.items() if not value]
    if lacking or seconds_left(stored, "registrationExpiresAt") <= 0:
        raise Unusable(f"{source.place}: the token has expired, and can't be refreshed")
    body = json.dumps({**members, "grantType": "refresh_token"}).encode()
    headers = {"Content-Type": "application/json"}
    reply = await ask(Question(name, f"{source.refresh_url}/token", headers, "POST", body))
    answer = reply.members()
    token, life_s = as_text(answer.get("accessToken")), as_amount(answer.get("expiresIn"))
    if reply.status != 200:
        raise refusal(name, reply, as_text(answer.get("error_description")) or as_text(answer.get("error")) or "")
    if not token or not life_s:
        raise Unusable(f"{name} answers without accessToken and expiresIn")
    renewed = as_text(answer.get("refreshToken"))
    return {
        "accessToken": token,
        "expiresAt": end_after(life_s),
        **({"refreshToken": renewed} if renewed else {}),
    }
