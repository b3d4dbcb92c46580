"""Keys of AWS for users who have signed in: logins to the console, and roles that need a code, beside AWS's package."""

import base64
import json
import os
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import trio
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

pytest.importorskip("botocore.session")  # before the tests beside it, which are left out without it

from tests.agent.llm.test_llm_bedrock_identity import (
    ARN,
    BASE_PROFILE,
    KEYS,
    REGION,
    as_json,
    asked,
    aws,
    botocore_session,
    config,
    failure,
    found,
    in_zulu,
    point_to,
    service,
    write,
)

from pinnace_agent.llm.bedrock.identity import keys
from pinnace_agent.llm.bedrock.identity.aws_files import read_aws_files
from pinnace_agent.llm.bedrock.identity.keys import forget_keys, roles_to_sign_in
from pinnace_agent.llm.bedrock.identity.sources import NoKeys
from pinnace_agent.llm.bedrock.signature import SigningKeys
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply

__all__ = ["aws", "config"]

# Logins to the console

SESSION = "arn:aws:iam::123456789012:user/me"
LOGIN = f"[default]\nlogin_session = {SESSION}\n"
KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
).decode()
REFRESHED = {"accessKeyId": "AKIDNEW", "secretAccessKey": "new-secret-0123456789", "sessionToken": "new-token-0123456"}
ANSWER = {"accessToken": REFRESHED, "tokenType": "aws_sigv4", "expiresIn": 900, "refreshToken": "refresh-2-0123456789"}


def store_login(folder: Path, after_s: float, **more: object) -> Path:
    pairs = dict(zip(("accessKeyId", "secretAccessKey", "sessionToken"), KEYS, strict=True))
    content = {
        "accessToken": {**pairs, "accountId": "123456789012", "expiresAt": in_zulu(after_s)},
        "tokenType": "aws_sigv4",
        "clientId": "arn:aws:signin:::devtools/same-device",
        "refreshToken": "refresh-1-0123456789",
        "idToken": "identity-0123456789abcdef",
        "dpopKey": PEM,
    }
    path = folder / ".aws" / "login" / "cache" / f"{sha256(SESSION.encode()).hexdigest()}.json"
    path.parent.mkdir(parents=True)
    write(path, json.dumps({name: value for name, value in {**content, **more}.items() if value is not None}))
    return path


class _CurveKey:
    """What AWS's package takes from its compiled library, which is not installed here."""

    @staticmethod
    def new_key_from_der_data(data: bytes) -> "_CurveKey":
        assert data == base64.b64decode("".join(PEM.splitlines()[1:-1]))
        return _CurveKey()

    def get_public_coords(self) -> tuple[bytes, bytes]:
        point = KEY.public_key().public_numbers()
        return point.x.to_bytes(32), point.y.to_bytes(32)

    def sign(self, digest: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

        return KEY.sign(digest, ec.ECDSA(Prehashed(hashes.SHA256())))

    @staticmethod
    def decode_der_signature_to_padded_pair(signature: bytes, pad_to: int) -> bytes:
        return b"".join(each.to_bytes(pad_to) for each in decode_dss_signature(signature))


def proof(token: str) -> tuple[Any, Any]:
    """Return the head and the claims of a proof, whose signature is checked."""
    head, claims, signature = (base64.urlsafe_b64decode(each + "==") for each in token.split("."))
    numbers = [int.from_bytes(each) for each in (signature[:32], signature[32:])]
    signed = token.rpartition(".")[0].encode()
    KEY.public_key().verify(encode_dss_signature(*numbers), signed, ec.ECDSA(hashes.SHA256()))
    return json.loads(head), json.loads(claims)


async def test_keys_of_a_login_are_used_while_they_are_good(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None]
) -> None:
    """No server is asked; the folder may be another one."""
    config(LOGIN)
    store_login(tmp_path, 600)
    assert await found() == KEYS
    (tmp_path / ".aws" / "login" / "cache").rename(tmp_path / "elsewhere")
    forget_keys()
    monkeypatch.setenv("AWS_LOGIN_CACHE_DIRECTORY", "~/elsewhere")
    assert await found() == KEYS


async def test_a_login_is_refreshed_as_aws_s_package_refreshes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None]
) -> None:
    """The same request, with a proof that verifies, and the same file."""
    config(LOGIN)
    path = store_login(tmp_path, 60)
    before = path.read_text()

    def theirs() -> SigningKeys:
        credentials: Any = pytest.importorskip("botocore.credentials")
        monkeypatch.setattr(credentials, "EC", _CurveKey)
        frozen = botocore_session.Session().get_credentials().get_frozen_credentials()
        return SigningKeys(frozen.access_key, frozen.secret_key, frozen.token)

    with RawServer(lambda reply: as_json(reply, ANSWER)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SIGNIN", server.url)
        assert await found() == SigningKeys(*REFRESHED.values())
        ours, server.requests = server.requests, []
        stored = json.loads(path.read_text())
        path.write_text(before)
        assert await trio.to_thread.run_sync(theirs) == SigningKeys(*REFRESHED.values())
        by_them = json.loads(path.read_text())
    assert path.stat().st_mode & 0o077 == 0
    for each in (stored, by_them):
        assert each["accessToken"].pop("expiresAt") > in_zulu(600)
    assert stored == by_them
    assert (stored["refreshToken"], stored["accessToken"]["accountId"]) == ("refresh-2-0123456789", "123456789012")
    assert [(each.path, json.loads(each.body)) for each in ours] == [
        (each.path, json.loads(each.body)) for each in server.requests
    ]
    (head, claims), (their_head, their_claims) = (proof(each[0].headers["dpop"]) for each in (ours, server.requests))
    assert head == their_head
    assert {**claims, "iat": 0, "jti": ""} == {**their_claims, "iat": 0, "jti": ""}
    secrets = [REFRESHED["secretAccessKey"], "refresh-1-0123456789", "refresh-2-0123456789"]
    assert REDACTOR.text(" ".join(secrets)) == "[redacted] [redacted] [redacted]"


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-west-1", "eu-west-1.signin.aws.amazon.com"),
        ("cn-north-1", "cn-north-1.signin.amazonaws.cn"),
        ("us-gov-west-1", "us-gov-west-1.signin.amazonaws-us-gov.com"),
        ("eusc-de-east-1", "eusc-de-east-1.signin.amazonaws-eusc.eu"),
    ],
)
async def test_the_sign_in_service_is_that_of_aws_s_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None], region: str, host: str
) -> None:
    """The region of the login takes precedence."""
    unsigned: Any = pytest.importorskip("botocore").UNSIGNED
    plain: Any = pytest.importorskip("botocore.config").Config(signature_version=unsigned)
    client = botocore_session.Session().create_client("signin", region_name=region, config=plain)
    urls: list[str] = []

    def sent(request: Any, **_: object) -> None:
        urls.append(request.url)
        raise OSError

    client.meta.events.register("before-send.signin.CreateOAuth2Token", sent)
    with pytest.raises(OSError):
        client.create_o_auth2_token(tokenInput={"clientId": "x", "grantType": "refresh_token"})
    assert urls == [f"https://{host}/v1/token"]
    config(LOGIN)
    store_login(tmp_path, -60, signInRegion=region)
    with RawServer(lambda reply: reply.whole(b"", status="502 No")) as server:  # a proxy, which learns the name
        monkeypatch.setenv("HTTPS_PROXY", server.url)
        await failure()
    assert [each.path for each in server.requests] == [f"{host}:443"]


@pytest.mark.parametrize(
    ("more", "answer", "problem"),
    [
        ({"dpopKey": None}, None, ": the keys have expired, and can't be refreshed; sign in with `aws login`"),
        ({"dpopKey": "x"}, None, ": dpopKey of the stored login must be a key of the curve P-256 in PEM; sign in"),
        ({"signInRegion": "a/b"}, None, ": signInRegion must be a region such as us-east-1; sign in with `aws login`"),
        (
            {},
            ({"error": "TOKEN_EXPIRED", "message": "Over"}, "403 No"),
            ": the sign-in service answers with the status 403: TOKEN_EXPIRED: Over; sign in with `aws login`",
        ),
        (
            {},
            ({"error": "INSUFFICIENT_PERMISSIONS", "message": "No"}, "403 No"),
            "INSUFFICIENT_PERMISSIONS: No (the user may lack the permission signin:CreateOAuth2Token)",
        ),
        ({}, ({"accessToken": REFRESHED}, "200 OK"), "answers without accessToken, refreshToken and expiresIn"),
        ({"accessToken": "x"}, (ANSWER, "500 No"), "answers with service unavailable, the status 500"),
    ],
)
async def test_a_login_that_can_not_be_refreshed_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    config: Callable[[str], None],
    more: Mapping[str, object],
    answer: tuple[object, str] | None,
    problem: str,
) -> None:
    config(LOGIN)
    path = store_login(tmp_path, -60, **more)
    before = path.read_text()
    with RawServer(*([] if answer is None else [lambda reply: as_json(reply, *answer)])) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SIGNIN", server.url)
        assert problem in await failure()
    assert path.read_text() == before


async def test_a_refresh_without_its_library_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None]
) -> None:
    config(LOGIN)
    store_login(tmp_path, -60)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    assert "a refresh signs with the package cryptography, of the extra `bedrock`: " in await failure()


# Roles that need a code

SERIAL = "arn:aws:iam::123456789012:mfa/me"
ROLE = BASE_PROFILE + f"[default]\nrole_arn={ARN}\nsource_profile=base\nmfa_serial={SERIAL}\n"
ROLES = {
    "role": ROLE,
    "all settings": f"{ROLE}external_id=x 1\nduration_seconds=900\nrole_session_name=me\n",
}


def with_arn(reply: Reply) -> None:
    """Answer as STS does, whose answer names the user of the keys."""
    user = f"<AssumedRoleUser><Arn>{ARN}/me</Arn><AssumedRoleId>AROA:me</AssumedRoleId></AssumedRoleUser>"
    action = "AssumeRole"
    given = f"<AccessKeyId>{KEYS[0]}</AccessKeyId><SecretAccessKey>{KEYS[1]}</SecretAccessKey>"
    given += f"<SessionToken>{KEYS[2]}</SessionToken><Expiration>{in_zulu(3600)}</Expiration>"
    lead = f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
    text = f"{lead}<Credentials>{given}</Credentials>{user}</{action}Result></{action}Response>"
    reply.whole(text.encode(), content_type="text/xml")


async def sign_in(code: str) -> list[str | None]:
    """Sign in to the roles that need it; return their devices."""
    try:
        roles = await roles_to_sign_in(os.environ, read_aws_files(os.environ), REGION)
        for role in roles:
            await keys.sign_in(role, code, os.environ)
        return [role.mfa_serial for role in roles]
    finally:
        await close_clients()


def theirs(folder: Path, code: str | None) -> SigningKeys:
    """Return the keys that AWS's command line finds, which asks for a code if it has none."""

    def ask(prompt: str) -> str:
        assert code is not None, "a code was asked for"
        assert SERIAL in prompt
        return code

    utils: Any = pytest.importorskip("botocore.utils")
    session = botocore_session.Session()
    provider: Any = session.get_component("credential_provider").get_provider("assume-role")
    provider.cache, provider._prompter = utils.JSONFileCache(str(folder / ".aws" / "cli" / "cache")), ask
    frozen = session.get_credentials().get_frozen_credentials()
    return SigningKeys(frozen.access_key, frozen.secret_key, frozen.token)


@pytest.mark.parametrize("settings", ROLES)
async def test_a_role_with_a_code_is_shared_with_aws_s_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None], settings: str
) -> None:
    """The same request; the keys of either are those of both, and no code is asked for while they are good."""
    config(ROLES[settings])
    cache = tmp_path / ".aws" / "cli" / "cache"
    with RawServer(with_arn) as server:
        point_to(server, monkeypatch)
        assert "mfa_serial is set: enter the code of its device by `pinnace auth login amazon-bedrock`" in (
            await failure()
        )
        assert [] == server.requests
        assert [SERIAL] == await sign_in("123456")
        assert await found() == await trio.to_thread.run_sync(theirs, tmp_path, None) == KEYS
        assert [] == await sign_in("000000")
        (ours,), server.requests = server.requests, []
        (kept,) = cache.iterdir()
        assert kept.stat().st_mode & 0o077 == 0
        kept.unlink()
        forget_keys()
        assert await trio.to_thread.run_sync(theirs, tmp_path, "123456") == KEYS
        assert [each.name for each in cache.iterdir()] == [kept.name]
        assert await found() == KEYS
        (by_them,) = server.requests
    # Without a name of the session each client has its own.
    (*head, body, headers, who), (*their_head, their_body, their_headers, their_who) = asked(ours), asked(by_them)
    names = (body.pop("RoleSessionName"), their_body.pop("RoleSessionName"))
    assert names == ("me", "me") if settings == "all settings" else names[0] == "pinnace"
    assert (head, body, headers, who) == (their_head, their_body, their_headers, their_who)
    assert (body["SerialNumber"], body["TokenCode"]) == (SERIAL, "123456")


async def test_a_wrong_code_and_keys_that_have_expired_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None]
) -> None:
    config(ROLE)
    with RawServer(lambda reply: reply.whole(b"<Error><Code>AccessDenied</Code></Error>", status="403 No")) as server:
        point_to(server, monkeypatch)
        with pytest.raises(NoKeys, match="must be six digits; nothing was asked for"):
            await sign_in("12345")
        with pytest.raises(NoKeys, match="STS answers with the status 403: AccessDenied"):
            await sign_in("123456")
    assert 1 == len(server.requests)
    with RawServer(with_arn) as server:
        point_to(server, monkeypatch)
        await sign_in("123456")
    (kept,) = (tmp_path / ".aws" / "cli" / "cache").iterdir()
    content = json.loads(kept.read_text())
    content["Credentials"]["Expiration"] = in_zulu(-1)
    write(kept, json.dumps(content))
    assert "its keys have expired: enter the code of its device" in await failure()
    write(kept, "{")
    assert f"{kept}: " in await failure()


async def test_each_role_on_the_way_has_its_code(
    monkeypatch: pytest.MonkeyPatch, config: Callable[[str], None]
) -> None:
    """From the first one on, and none for roles that need none."""
    middle = f"[profile middle]\nrole_arn={ARN}-1\nsource_profile=base\nmfa_serial={SERIAL}-1\n"
    last = f"[profile last]\nrole_arn={ARN}-2\nsource_profile=middle\n"
    config(f"{BASE_PROFILE}{middle}{last}[default]\nrole_arn={ARN}-3\nsource_profile=last\nmfa_serial={SERIAL}-3\n")
    with RawServer(service) as server:
        point_to(server, monkeypatch)
        assert [f"{SERIAL}-1", f"{SERIAL}-3"] == await sign_in("123456")
    assert 3 == len(server.requests)
