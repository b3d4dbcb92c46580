"""Keys of a login to AWS's console (`login_session`), for a user who has signed in: `aws login` has stored them.

Decides where they are (`~/.aws/login/cache`, or `AWS_LOGIN_CACHE_DIRECTORY`, in a file named by the digest of the
session), and how they are refreshed: the sign-in service is asked with a proof of the key that was made at the login
(DPoP, RFC 9449; ES256), which needs `cryptography`, the extra `bedrock`. Source: botocore 1.44, `LoginProvider`.
"""

import json
import re
import time
import uuid
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.core.json_access import as_amount, as_object, as_text
from pinnace_agent.core.signed_claims import CryptographyMissing, base64url, load_private_key, signed_claims
from pinnace_agent.files.paths import expand_home
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_agent.llm.bedrock.identity.asking import Expiring, Question, ask, check_address, read_keys, refusal
from pinnace_agent.llm.bedrock.identity.sources import ConsoleLogin, Unusable
from pinnace_agent.llm.bedrock.identity.stored_tokens import StoredToken, end_after, seconds_left

_FOLDER_VARIABLE: Final = "AWS_LOGIN_CACHE_DIRECTORY"
_FOLDER: Final = "~/.aws/login/cache"
_KEY_MEMBERS: Final = ("accessKeyId", "secretAccessKey", "sessionToken")
_REGION: Final = re.compile(r"[a-z0-9-]+")
# By the beginning of the region; the first that fits counts.
_HOSTS: Final = (
    ("cn-", "signin.amazonaws.cn"),
    ("us-gov-", "signin.amazonaws-us-gov.com"),
    ("eusc-", "signin.amazonaws-eusc.eu"),
    ("", "signin.aws.amazon.com"),
)
_COORDINATE_BYTES: Final = 32


async def keys_of_login(source: ConsoleLogin, env: Mapping[str, str]) -> Expiring:
    """Return the keys that are stored, refreshed in their last five minutes.

    Raises:
        Unusable: There are none that are good, or no server answers.
    """
    folder = env.get(_FOLDER_VARIABLE) or _FOLDER
    path = Path(expand_home(folder, env)) / f"{sha256(source.session.encode()).hexdigest()}.json"

    async def refresh(stored: JsonObject) -> Mapping[str, object]:
        return await _ask_for_keys(source, stored)

    profile = "" if source.profile is None else f" --profile {source.profile}"
    stored = StoredToken(source.place, path, f"sign in with `aws login{profile}`", _left_s, _secrets)
    keys = _keys(await stored.content(refresh))
    given = {"AccessKeyId": keys.get("accessKeyId"), "SecretAccessKey": keys.get("secretAccessKey")}
    given |= {"Token": keys.get("sessionToken"), "Expiration": keys.get("expiresAt")}
    return read_keys(given, f"{source.place}: {path}")


def _keys(content: Mapping[str, object]) -> Mapping[str, object]:
    return as_object(content.get("accessToken")) or {}


def _left_s(content: JsonObject) -> float:
    return seconds_left(_keys(content))


def _secrets(content: JsonObject) -> list[str | None]:
    keys = _keys(content)
    found = [keys.get("secretAccessKey"), keys.get("sessionToken"), *map(content.get, ("refreshToken", "idToken"))]
    return [as_text(each) for each in [*found, content.get("dpopKey")]]


async def _ask_for_keys(source: ConsoleLogin, stored: JsonObject) -> Mapping[str, object]:
    """Return the members that a refresh changes."""
    client, token, key = (as_text(stored.get(each)) for each in ("clientId", "refreshToken", "dpopKey"))
    if not client or not token or not key:
        raise Unusable(f"{source.place}: the keys have expired, and can't be refreshed")
    region = as_text(stored.get("signInRegion")) or source.region
    if not _REGION.fullmatch(region):  # it becomes a part of the address
        raise Unusable(f"{source.place}: signInRegion must be a region such as us-east-1")
    host = next(host for beginning, host in _HOSTS if region.startswith(beginning))
    url = f"{source.url or f'https://{region}.{host}'}/v1/token"
    check_address(
        url, "the address of sign-in (AWS_ENDPOINT_URL_SIGNIN, AWS_ENDPOINT_URL or endpoint_url)", "this machine"
    )
    proof = await trio.to_thread.run_sync(_proof, key, url, source.place)
    name = f"{source.place}: the sign-in service"
    body = json.dumps({"clientId": client, "refreshToken": token, "grantType": "refresh_token"}).encode()
    headers = {"Content-Type": "application/json", "DPoP": proof}
    reply = await ask(Question(name, url, headers, "POST", body))
    answer = reply.members()
    if reply.status != 200:
        code, words = as_text(answer.get("error")) or "", as_text(answer.get("message")) or ""
        if code == "INSUFFICIENT_PERMISSIONS":
            words = f"{words} (the user may lack the permission signin:CreateOAuth2Token)".strip()
        raise refusal(name, reply, ": ".join(filter(None, (code, words))))
    keys, renewed, life_s = _keys(answer), as_text(answer.get("refreshToken")), as_amount(answer.get("expiresIn"))
    given = {each: as_text(keys.get(each)) for each in _KEY_MEMBERS}
    if not all(given.values()) or not renewed or not life_s:
        raise Unusable(f"{name} answers without accessToken, refreshToken and expiresIn")
    return {"accessToken": {**_keys(stored), **given, "expiresAt": end_after(life_s)}, "refreshToken": renewed}


def _proof(pem: str, url: str, place: str) -> str:
    """Return the proof that a request comes from who has made the login. Blocking.

    Args:
        pem: The private key, of the curve P-256.
        url: Of the request.
        place: Where the key comes from, for users.

    Raises:
        Unusable: The key can't sign, or `cryptography` is missing.
    """
    try:
        key = load_private_key(pem, "bedrock")
    except CryptographyMissing as missing:
        text = "the keys have expired, and a refresh signs with the package cryptography, of the extra `bedrock`"
        raise Unusable(f"{place}: {text}: {missing}") from None
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Unusable(f"{place}: dpopKey of the stored login must be a key of the curve P-256 in PEM")
    point = key.public_key().public_numbers()
    public = {"kty": "EC", "x": _number(point.x), "y": _number(point.y), "crv": "P-256"}
    head = {"typ": "dpop+jwt", "alg": "ES256", "jwk": public}
    claims = {"htm": "POST", "htu": url, "iat": int(time.time()), "jti": str(uuid.uuid4())}

    def sign(data: bytes) -> bytes:
        numbers = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
        return b"".join(each.to_bytes(_COORDINATE_BYTES) for each in numbers)

    return signed_claims(head, claims, sign)


def _number(value: int) -> str:
    return base64url(value.to_bytes(_COORDINATE_BYTES))
