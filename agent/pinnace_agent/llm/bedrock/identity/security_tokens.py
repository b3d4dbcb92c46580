"""Keys of roles: AWS's Security Token Service (STS), asked with the keys of another source or with a web identity.

Decides the two requests and reads their answers, which are XML. A request with keys is signed; one with the token of
another authority is not, and carries it in its body.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode
from xml.sax.saxutils import unescape

from pinnace_agent.llm.bedrock.identity.asking import (
    Expiring,
    Question,
    Reply,
    ask,
    check_address,
    read_keys,
    refusal,
    secret_in,
)
from pinnace_agent.llm.bedrock.identity.sources import AssumedRole, WebIdentity
from pinnace_agent.llm.bedrock.signature import Scope, SigningKeys, Unsigned, signed_headers

_SERVICE: Final = "sts"
_VERSION: Final = "2011-06-15"
_SESSION_NAME: Final = "pinnace"
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
_KEY_MEMBERS: Final = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
_NEAR: Final = "this machine"


async def keys_of_role(source: AssumedRole, keys: SigningKeys, code: str | None = None) -> tuple[Expiring, str]:
    """Take on a role; return its keys, and the ARN of who has them.

    Args:
        source: The role.
        keys: Of its own source.
        code: Of its device; None: it needs none.

    Raises:
        Unusable: STS does not allow it, or does not answer.
    """
    fields = {"RoleArn": source.arn, "RoleSessionName": source.session_name or _SESSION_NAME}
    if source.external_id is not None:
        fields["ExternalId"] = source.external_id
    if source.duration_s is not None:
        fields["DurationSeconds"] = str(source.duration_s)
    if source.mfa_serial is not None and code is not None:
        fields |= {"SerialNumber": source.mfa_serial, "TokenCode": code}
    body = _form("AssumeRole", fields)
    url = f"{source.url}/"
    headers = signed_headers(
        Unsigned("POST", url, _FORM, body), keys, Scope(source.region, _SERVICE), datetime.now(UTC)
    )
    return await _ask(source.place, url, headers, body)


async def keys_of_web_identity(source: WebIdentity) -> Expiring:
    """Take on a role with the token of another authority. Errors as of `keys_of_role`, and of the token's file."""
    token = await secret_in(source.token_file, source.place)
    fields = {"RoleArn": source.arn, "RoleSessionName": source.session_name or _SESSION_NAME, "WebIdentityToken": token}
    return (await _ask(source.place, f"{source.url}/", _FORM, _form("AssumeRoleWithWebIdentity", fields)))[0]


def _form(action: str, fields: Mapping[str, str]) -> bytes:
    return urlencode({"Action": action, "Version": _VERSION, **fields}).encode()


async def _ask(place: str, url: str, headers: Mapping[str, str], body: bytes) -> tuple[Expiring, str]:
    check_address(url, "the address of STS (AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL or endpoint_url)", _NEAR)
    name = f"{place}: STS"
    reply = await ask(Question(name, url, headers, "POST", body))
    if reply.status != 200:
        raise refusal(name, reply, ": ".join(filter(None, (_element(reply, "Code"), _element(reply, "Message")))))
    keys = read_keys({each: _element(reply, each) for each in _KEY_MEMBERS}, name, "SessionToken")
    return keys, _element(reply, "Arn")


def _element(reply: Reply, name: str) -> str:
    """Return the text of the first element of a name, which has no elements inside; empty if there is none."""
    found = re.search(rf"<{name}>([^<]*)</{name}>", reply.body.decode("utf-8", "replace"))
    return unescape(found[1], {"&quot;": '"', "&apos;": "'"}).strip() if found else ""
