"""Google's credentials that are not a login or a key: machines, impersonation, identities of other authorities.

One local server plays Google's services and the other authority. Google's package runs over the same file, against the
same server, as a second opinion.
"""

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import trio

from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.credentials.google_credentials import GoogleTokens
from pinnace_agent.config.credentials.google_sources import token_of_file, token_of_machine
from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.config.credentials.resolver import CredentialResolver
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.llm.google import location
from pinnace_agent.llm.google.location import usable_source
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_fuzz.harness.model_server.raw_server import Answer, RawServer, Received, Reply

google_auth = pytest.importorskip("google.auth")

PLACE = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global"}
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
SUBJECT = "subject-token-0123456789"
ACCOUNT = "/v1/projects/-/serviceAccounts/robot@p.iam.gserviceaccount.com:generateAccessToken"
TOKENS = {"/token": "ya29.user-0123456789", "/exchange": "ya29.exchanged-0123456789", ACCOUNT: "ya29.robot-0123456789"}


def google(reply: Reply) -> None:
    """Answer as Google's services, and as the other authority."""
    path = urlsplit(reply.request.path).path
    if path == "/subject":
        value: object = {"inner": SUBJECT} if reply.request.headers.get("x-form") == "json" else SUBJECT
        body = value if isinstance(value, str) else json.dumps(value)
        reply.whole(body.encode(), content_type="text/plain")
    elif path == ACCOUNT:
        end = datetime.fromtimestamp(time.time() + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        answer(reply, {"accessToken": TOKENS[path], "expireTime": end})
    else:
        answer(reply, {"access_token": TOKENS.get(path, "ya29.machine-0123456789"), "expires_in": 3599})


def answer(reply: Reply, value: object, status: str = "200 OK") -> None:
    reply.whole(json.dumps(value).encode(), status=status, content_type="application/json")


def user_of(url: str) -> dict[str, Any]:
    return {
        "type": "authorized_user",
        "client_id": "client",
        "client_secret": "client-secret-0123456789",
        "refresh_token": "refresh-0123456789",
        "token_uri": f"{url}/token",
    }


def external(url: str, source: Mapping[str, object], **more: object) -> dict[str, Any]:
    return {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{url}/exchange",
        "credential_source": dict(source),
        **more,
    }


def impersonated(url: str, **more: object) -> dict[str, Any]:
    return {
        "type": "impersonated_service_account",
        "service_account_impersonation_url": f"{url}{ACCOUNT}",
        "source_credentials": user_of(url),
        **more,
    }


def from_file(folder: Path) -> dict[str, object]:
    (folder / "subject").write_text(SUBJECT)
    return {"file": str(folder / "subject")}


def from_json_file(folder: Path) -> dict[str, object]:
    (folder / "subject.json").write_text(json.dumps({"inner": SUBJECT}))
    form = {"type": "json", "subject_token_field_name": "inner"}
    return {"file": str(folder / "subject.json"), "format": form}


def from_url(url: str, kind: str) -> dict[str, object]:
    form: dict[str, object] = (
        {"type": "json", "subject_token_field_name": "inner"} if kind == "json" else {"type": "text"}
    )
    return {"url": f"{url}/subject?x=1", "headers": {"x-form": kind}, "format": form}


SOURCES: dict[str, Callable[[str, Path], dict[str, Any]]] = {
    "impersonated": lambda url, _: impersonated(url, delegates=["a"]),
    "file": lambda url, folder: external(url, from_file(folder)),
    "file of JSON": lambda url, folder: external(url, from_json_file(folder)),
    "address": lambda url, _: external(url, from_url(url, "text")),
    "address of JSON": lambda url, _: external(url, from_url(url, "json")),
    "with a client": lambda url, folder: external(url, from_file(folder), client_id="c", client_secret="s" * 20),
    "of a workforce": lambda url, folder: external(
        url,
        from_file(folder),
        audience="//iam.googleapis.com/locations/global/workforcePools/p/providers/q",
        workforce_pool_user_project="123",
    ),
    "impersonating": lambda url, folder: external(
        url,
        from_file(folder),
        service_account_impersonation_url=f"{url}{ACCOUNT}",
        service_account_impersonation={"token_lifetime_seconds": 1800},
    ),
}


def asked(request: Received, is_source: bool) -> object:
    """Return what a request says, whoever sends it; of one for a token that buys another one, without its scope."""
    headers = {name: request.headers[name] for name in ("authorization", "x-form") if name in request.headers}
    try:
        body: object = json.loads(request.body)
    except ValueError:
        body = dict(parse_qsl(request.body.decode()))
    if isinstance(body, dict):
        body = {name: value for name, value in body.items() if value is not None}
        if body.get("grant_type") == "refresh_token" or is_source:
            body.pop("scope", None)  # theirs narrows the token that is exchanged for that of another account
    return request.method, request.path, headers, body


def said_by(requests: list[Received]) -> list[object]:
    return [asked(each, is_source=each.path != ACCOUNT and requests[-1].path == ACCOUNT) for each in requests]


def written(folder: Path, content: object) -> Path:
    path = folder / "credentials.json"
    path.write_text(json.dumps(content))
    return path


async def token(path: Path) -> str:
    try:
        return await GoogleTokens(path).token()
    finally:
        await close_clients()


@pytest.mark.parametrize("source", SOURCES)
async def test_a_source_is_asked_as_google_s_package_asks_it(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")  # else it asks which one it is
    with RawServer(google) as server:
        path = written(tmp_path, SOURCES[source](server.url, tmp_path))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))

        def theirs() -> str:
            requests: Any = pytest.importorskip("google.auth.transport.requests")
            of_users: Any = pytest.importorskip("google.oauth2.credentials")
            iam: Any = pytest.importorskip("google.auth.iam")
            monkeypatch.setattr(
                iam, "_IAM_ENDPOINT", server.url + ACCOUNT.replace("robot@p.iam.gserviceaccount.com", "{}")
            )
            monkeypatch.setattr(of_users, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{server.url}/token")  # it takes no other
            credentials, _ = google_auth.default(scopes=[SCOPE])
            credentials.refresh(requests.Request())
            return str(credentials.token)

        own = await token(path)
        ours, server.requests = server.requests, []
        assert own == await trio.to_thread.run_sync(theirs)
    assert said_by(ours) == said_by(server.requests)
    assert own in TOKENS.values()
    secrets = f"{own} {SUBJECT if source != 'impersonated' else 'refresh-0123456789'}"
    assert REDACTOR.text(secrets) == "[redacted] [redacted]"


async def test_a_token_of_an_impersonation_is_kept_until_its_own_end(tmp_path: Path) -> None:
    with RawServer(google) as server:
        got = await token_of_file(written(tmp_path, impersonated(server.url)))
        await close_clients()
    assert 3500 < got.life_s <= 3600
    assert "ya29" not in repr(got)


async def test_the_metadata_server_of_a_machine_gives_out_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RawServer(google) as server:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # it is asked past any proxy
        env = {**PLACE, "HOME": str(tmp_path), "GCE_METADATA_HOST": f"127.0.0.1:{server.port}"}
        found = CredentialResolver(read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json"), env)
        assert found.opens_provider("google-vertex")
        got = await found.credentials_of("google-vertex", "")
        await close_clients()
    assert got.headers == {"Authorization": "Bearer ya29.machine-0123456789"}
    (request,) = server.requests
    assert urlsplit(request.path).path == "/computeMetadata/v1/instance/service-accounts/default/token"
    assert request.headers["metadata-flavor"] == "Google"


@pytest.mark.parametrize(
    ("product", "env", "is_used"),
    [
        ("Google Compute Engine\n", {}, True),
        ("Google Compute Engine\n", {"NO_GCE_CHECK": "true"}, False),
        ("Google Compute Engine\n", {"GOOGLE_APPLICATION_CREDENTIALS": "/no/such/file"}, False),
        ("Google Compute Engine\n", {"GOOGLE_CLOUD_PROJECT": ""}, False),
        ("Another\n", {}, False),
        ("Another\n", {"GCE_METADATA_HOST": "metadata.google.internal"}, True),
        (None, {}, False),
    ],
)
def test_a_machine_of_google_s_cloud_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, product: str | None, env: dict[str, str], is_used: bool
) -> None:
    name = tmp_path / "product_name"
    if product is not None:
        name.write_text(product)
    monkeypatch.setattr(location, "PRODUCT_NAME", str(name))
    found = usable_source({**PLACE, "HOME": str(tmp_path), **env})
    assert found == ("http://metadata.google.internal" if is_used else None)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://127.0.0.1:1", r"can't be reached \(connection error\).*; GCE_METADATA_HOST names another one"),
        ("http://elsewhere.example", "must be on an https address"),
    ],
)
async def test_a_metadata_server_that_can_not_be_asked_is_named(url: str, problem: str) -> None:
    with pytest.raises(LoginFailed, match=problem):
        await token_of_machine(url)
    await close_clients()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"audience": None}, "audience must be a text"),
        ({"subject_token_type": 1}, "subject_token_type must be a text"),
        ({"token_url": "http://evil.example/"}, "token_url must be an https address"),
        ({"service_account_impersonation_url": "x"}, "service_account_impersonation_url must be an https address"),
        ({"credential_source": "x"}, "credential_source must be an object"),
        ({"credential_source": {}}, "credential_source must have a file, a url, an executable or an environment_id"),
        ({"credential_source": {"executable": {}}}, "executable: a program runs only where GOOGLE_EXTERNAL_"),
        ({"credential_source": {"certificate": {}}}, "or an environment_id; certificate is not supported"),
        ({"credential_source": {"environment_id": "aws2"}}, 'environment_id must be "aws1"'),
        ({"credential_source": {"file": "/no/such"}}, "credential_source.file: /no/such can't be read"),
        ({"credential_source": {"url": "http://evil.example/"}}, "credential_source.url: .* https address"),
        ({"credential_source": {"file": "/dev/null"}}, "credential_source.file: /dev/null"),
        (
            {"credential_source": {"file": "{folder}/subject", "format": {"type": "json"}}},
            "credential_source.format: subject_token_field_name must be a text",
        ),
        (
            {
                "credential_source": {
                    "file": "{folder}/subject",
                    "format": {"type": "json", "subject_token_field_name": "no"},
                }
            },
            "credential_source: there is no token in its member 'no'",
        ),
    ],
)
async def test_an_identity_that_can_not_be_used_names_its_field(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    with RawServer(google) as server:
        content = {**external(server.url, from_file(tmp_path)), **change}
        text = json.dumps(content).replace("{folder}", str(tmp_path))
        with pytest.raises(LoginFailed, match=problem) as failed:
            await token(written(tmp_path, json.loads(text)))
    assert str(tmp_path / "credentials.json") in str(failed.value)
    assert SUBJECT not in str(failed.value)
    if "impersonation" not in problem:
        assert server.requests == []


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (
            lambda reply: answer(reply, {"error": {"code": 403, "message": "Not you"}}, "403 No"),
            r"Google refuses service_account_impersonation_url \(403, 403: Not you\)",
        ),
        (lambda reply: answer(reply, {}, "503 No"), r"temporary failure: no token \(503\)"),
        (lambda reply: answer(reply, {"accessToken": 5}), "Google sent no usable accessToken"),
    ],
)
async def test_an_impersonation_that_is_refused_is_named(tmp_path: Path, reply: Answer, problem: str) -> None:
    with RawServer(google, reply) as server, pytest.raises(LoginFailed, match=problem):
        await token(written(tmp_path, impersonated(server.url)))


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (None, "source_credentials must be an object"),
        ({"type": "impersonated_service_account"}, "source_credentials.type must be another one"),
        ({"type": "authorized_user"}, "credentials.json: source_credentials: client_id must be a text"),
    ],
)
async def test_the_source_of_an_impersonation_that_can_not_be_used_names_its_field(
    tmp_path: Path, source: object, problem: str
) -> None:
    with pytest.raises(LoginFailed, match=problem):
        await token(written(tmp_path, impersonated("https://x.example", source_credentials=source)))
