"""Google's application default credentials: which file, which token, against a local authorisation server."""

import base64
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from tests.agent.config.authorization_server import MARK, AuthorizationServer

from pinnace_agent.config.credentials.credentials import Credentials, read_auth
from pinnace_agent.config.credentials.google_credentials import EARLY_S, GoogleTokens
from pinnace_agent.config.credentials.key_status import key_status
from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.config.credentials.resolver import CredentialResolver
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.redaction.redactor import REDACTOR

PLACE: Final = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global"}

# A key of a kind that is not known.
UNKNOWN = "-----BEGIN PRIVATE KEY-----\nMA4CAQAwBQYDKgMEBAIFAA==\n-----END PRIVATE KEY-----\n"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    with AuthorizationServer(has_leeway=True) as server:
        yield server


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


def user_of(server: AuthorizationServer) -> dict[str, Any]:
    """Return what `gcloud auth application-default login` writes; the server is named beside it."""
    return {
        "type": "authorized_user",
        "client_id": "client",
        "client_secret": f"secret-{MARK}",
        "refresh_token": server.issue()["refresh_token"],
        "token_uri": server.url + "/token",
    }


def account_of(server: AuthorizationServer, key: RSAPrivateKey) -> dict[str, Any]:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {
        "type": "service_account",
        "client_email": "robot@p.iam.gserviceaccount.com",
        "private_key_id": "k1",
        "private_key": pem.decode(),
        "token_uri": server.url + "/token",
    }


def written(folder: Path, content: object) -> Path:
    path = folder / "credentials.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def resolver(folder: Path, env: dict[str, str]) -> CredentialResolver:
    return CredentialResolver(read_catalog(folder / "models.json"), read_auth(folder / "auth.json"), env)


async def credentials(folder: Path, env: dict[str, str]) -> Credentials:
    try:
        return await resolver(folder, env).credentials_of("google-vertex", "")
    finally:
        await close_clients()


async def test_the_login_of_gcloud_becomes_a_bearer_token(tmp_path: Path, server: AuthorizationServer) -> None:
    path = written(tmp_path, user_of(server))
    got = await credentials(tmp_path, {**PLACE, "GOOGLE_APPLICATION_CREDENTIALS": str(path)})

    assert (got.api_key, got.headers, got.problem) == (None, {"Authorization": f"Bearer access2-{MARK}"}, None)
    ((place, fields),) = server.requests
    assert place == "/token"
    assert fields == {
        "grant_type": "refresh_token",
        "client_id": "client",
        "client_secret": f"secret-{MARK}",
        "refresh_token": f"refresh1-{MARK}",
    }
    assert MARK not in repr(got)
    assert MARK not in REDACTOR.text(f"access2-{MARK} secret-{MARK} refresh1-{MARK}")


async def test_a_service_account_signs_an_assertion(
    tmp_path: Path, server: AuthorizationServer, key: RSAPrivateKey
) -> None:
    server.failures = [(200, {"access_token": "ya29.robot", "expires_in": 3599})]
    path = written(tmp_path, account_of(server, key))
    got = await credentials(tmp_path, {**PLACE, "GOOGLE_APPLICATION_CREDENTIALS": str(path)})

    assert got.headers == {"Authorization": "Bearer ya29.robot"}
    ((_, fields),) = server.requests
    assert fields["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    signed, _, signature = fields["assertion"].rpartition(".")
    head, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in signed.split("."))
    key.public_key().verify(base64.urlsafe_b64decode(signature + "=="), signed.encode(), PKCS1v15(), hashes.SHA256())
    assert head == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    assert abs(claims["iat"] - time.time()) < 60
    assert claims["exp"] - claims["iat"] == 3600
    assert {name: claims[name] for name in ("iss", "aud", "scope")} == {
        "iss": "robot@p.iam.gserviceaccount.com",
        "aud": server.url + "/token",
        "scope": "https://www.googleapis.com/auth/cloud-platform",
    }


async def test_a_service_account_without_the_extra_names_it(
    tmp_path: Path, server: AuthorizationServer, key: RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    path = written(tmp_path, account_of(server, key))
    with pytest.raises(LoginFailed, match=r"the extra `vertex`: .+"):
        await GoogleTokens(path).token()

    assert [] == server.requests


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "gdch_service_account"}, "type must be .* not 'gdch_service_account'"),
        ({"type": None}, "type must be .* it has none"),
        ({"refresh_token": ""}, "refresh_token must be a text"),
        ({"client_id": 5}, "client_id must be a text"),
        ({"token_uri": "http://evil.example/token"}, "token_uri must be an https address"),
        ({"token_uri": ["x"]}, "token_uri must be an https address"),
        ({"type": "service_account", "client_email": "e", "private_key": "no key"}, "private_key must be an RSA key"),
        ({"type": "service_account", "client_email": "e", "private_key": UNKNOWN}, "private_key must be an RSA key"),
    ],
)
async def test_a_file_that_can_not_be_used_names_its_field_and_nothing_is_sent(
    change: dict[str, object], said: str, tmp_path: Path, server: AuthorizationServer
) -> None:
    path = written(tmp_path, {**user_of(server), **change})
    with pytest.raises(LoginFailed, match=said) as failed:
        await GoogleTokens(path).token()

    assert MARK not in str(failed.value)
    assert [] == server.requests


async def test_a_file_that_is_no_json_is_a_problem_of_the_request(tmp_path: Path) -> None:
    path = written(tmp_path, "{")
    got = await credentials(tmp_path, {**PLACE, "GOOGLE_APPLICATION_CREDENTIALS": str(path)})

    assert got.problem is not None
    assert str(path) in got.problem


async def test_a_refusal_is_shown_without_a_secret_and_asked_again_with_the_next_request(
    tmp_path: Path, server: AuthorizationServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.failures = [(400, {"error": "invalid_grant", "error_description": "Token has been revoked."})]
    tokens = GoogleTokens(written(tmp_path, user_of(server)))
    with pytest.raises(LoginFailed, match=r"Google refuses the credentials \(400, invalid_grant: Token has been rev"):
        await tokens.token()

    assert await tokens.token() == f"access2-{MARK}"
    assert not [record for record in caplog.records if MARK in record.getMessage() and "pinnace" in record.name]
    await close_clients()


async def test_requests_share_a_token_until_it_expires(tmp_path: Path, server: AuthorizationServer) -> None:
    tokens = GoogleTokens(written(tmp_path, user_of(server)))
    got: list[str] = []

    async def ask() -> None:
        got.append(await tokens.token())

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ask)
    await ask()
    await close_clients()

    assert (got, server.refreshes) == ([f"access2-{MARK}"] * 5, 1)


async def test_no_request_waits_while_a_token_is_renewed_early(tmp_path: Path, server: AuthorizationServer) -> None:
    server.life = EARLY_S / 2
    gate = trio.Event()
    tokens = GoogleTokens(written(tmp_path, user_of(server)))
    assert await tokens.token() == f"access2-{MARK}"

    entry = trio.lowlevel.current_trio_token()
    server.before_reply = lambda _grant: trio.from_thread.run(gate.wait, trio_token=entry)
    assert await tokens.token() == f"access2-{MARK}"  # while the next one is requested
    gate.set()
    server.before_reply = lambda _grant: None
    token = f"access2-{MARK}"
    while token == f"access2-{MARK}":
        token = await tokens.token()
    await close_clients()

    assert token == f"access3-{MARK}"


async def test_a_cancelled_request_lets_the_next_one_have_the_token(
    tmp_path: Path, server: AuthorizationServer
) -> None:
    tokens = GoogleTokens(written(tmp_path, user_of(server)))
    with trio.CancelScope() as scope:
        scope.cancel()
        await tokens.token()

    assert await tokens.token() == f"access2-{MARK}"
    assert server.refreshes == 1
    await close_clients()


@pytest.mark.parametrize("missing", [*PLACE, "file", None])
async def test_a_provider_is_usable_if_and_only_if_nothing_is_missing(
    missing: str | None, tmp_path: Path, server: AuthorizationServer
) -> None:
    home = tmp_path / "home"
    folder = home / ".config" / "gcloud"
    folder.mkdir(parents=True)
    env = {name: value for name, value in PLACE.items() if name != missing} | {"HOME": str(home)}
    if missing != "file":
        (folder / "application_default_credentials.json").write_text(json.dumps(user_of(server)))
    found = resolver(tmp_path, env)
    status = key_status("google-vertex", read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json"), env)

    assert found.opens_provider("google-vertex") == status.is_usable == (missing is None)
    assert status.source == (None if missing else "google")
    if missing is not None:
        problem = (await credentials(tmp_path, env)).problem or ""
        assert (missing if missing != "file" else "gcloud auth application-default login") in problem


async def test_a_key_and_the_variables_of_auth_json_come_first(tmp_path: Path, server: AuthorizationServer) -> None:
    path = written(tmp_path, user_of(server))
    entry = {"type": "api_key", "env": {**PLACE, "GOOGLE_APPLICATION_CREDENTIALS": str(path)}}
    (tmp_path / "auth.json").write_text(json.dumps({"google-vertex": entry}))
    of_env = await credentials(tmp_path, {"GOOGLE_CLOUD_API_KEY": "AIza-key"})
    of_file = await credentials(tmp_path, {})

    assert (of_env.api_key, dict(of_env.headers)) == ("AIza-key", {})
    assert of_file.headers == {"Authorization": f"Bearer access2-{MARK}"}
    assert of_file.variables == entry["env"]
