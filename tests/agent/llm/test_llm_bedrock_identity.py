"""Whose requests to AWS are: the choice of the source, and what each source is asked, with AWS's own package beside it.

One local server plays every service that gives out keys. AWS's package runs in the same environment, over the same
files, against the same server.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha1
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinnace_agent.files.json_file import FileForm, LockedFile, pretty
from pinnace_agent.llm.bedrock.identity.aws_files import read_aws_files
from pinnace_agent.llm.bedrock.identity.keys import find_keys, forget_keys
from pinnace_agent.llm.bedrock.identity.sources import (
    AssumedRole,
    ConsoleLogin,
    Container,
    Machine,
    NoKeys,
    Program,
    SingleSignOn,
    Source,
    StaticKeys,
    WebIdentity,
    choose_source,
)
from pinnace_agent.llm.bedrock.signature import Scope, SigningKeys, Unsigned, signed_headers
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_fuzz.harness.model_server.raw_server import Answer, RawServer, Received, Reply

botocore_session = pytest.importorskip("botocore.session")

REGION = "eu-west-1"
KEYS = SigningKeys("AKIDGIVEN", "given-secret-0123456789abcd", "given-token-0123456789abcdef")
BASE = SigningKeys("AKIDBASE", "base-secret-0123456789abcdef")
PROGRAM = "printf %s '" + json.dumps({"Version": 1, "AccessKeyId": "AKIDPROGRAM", "SecretAccessKey": "p" * 20}) + "'"
ARN = "arn:aws:iam::123456789012:role/coder"
SSO_TOKEN = "sso-access-0123456789abcdef"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the environment say nothing of AWS, and no keys be kept."""
    for name in [*filter(lambda each: each.startswith("AWS_"), os.environ)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    (tmp_path / ".aws" / "sso" / "cache").mkdir(parents=True)
    forget_keys()


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], None]:
    """Write `~/.aws/config`."""
    return lambda text: write(tmp_path / ".aws" / "config", text)


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def in_zulu(after_s: float) -> str:
    return datetime.fromtimestamp(time.time() + after_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# The choice


def ini(sections: Mapping[str, Mapping[str, str]]) -> str:
    return "".join(
        f"[{title}]\n" + "".join(f"{key} = {value}\n" for key, value in each.items())
        for title, each in sections.items()
    )


def chosen(env: Mapping[str, str]) -> list[str]:
    """Return what each source on the way is, and whose the keys are that are written down."""
    try:
        source: Source | None = choose_source(env, read_aws_files(env), REGION)[0]
    except NoKeys:
        return ["none"]
    found: list[str] = []
    while source is not None:
        match source:
            case StaticKeys():
                found.append(source.keys.access_key_id)
            case AssumedRole() | WebIdentity():
                found.append(f"{type(source).__name__} {source.arn} {source.session_name}")
            case SingleSignOn():
                found.append(f"{type(source).__name__} {source.account_id} {source.role_name}")
            case ConsoleLogin():  # the package says no more of one that is not there
                return ["none"]
            case Program() | Container() | Machine():
                found.append(type(source).__name__)
        source = source.source if isinstance(source, AssumedRole) else None
    return found


METHODS = {"custom-process": "Program", "container-role": "Container", "iam-role": "Machine"}


def chosen_by_aws() -> list[str]:
    """Return the same as AWS's package chooses."""
    exceptions: Any = pytest.importorskip("botocore.exceptions")
    try:
        credentials: Any = botocore_session.Session().get_credentials()
    except exceptions.ProfileNotFound:  # its sessions don't begin then; here keys of the environment come before
        is_whole = "AWS_ACCESS_KEY_ID" in os.environ and "AWS_SECRET_ACCESS_KEY" in os.environ
        return [os.environ["AWS_ACCESS_KEY_ID"]] if is_whole else ["none"]
    except exceptions.BotoCoreError:
        return ["none"]
    found: list[str] = []
    while credentials is not None:
        if credentials.method in METHODS:
            found.append(METHODS[credentials.method])
            break
        if not hasattr(credentials, "_refresh_using"):
            found.append(credentials.access_key)
            break
        fetcher = credentials._refresh_using.__self__
        if credentials.method == "sso":
            found.append(f"SingleSignOn {fetcher._account_id} {fetcher._role_name}")
            break
        kind = {"assume-role": "AssumedRole", "assume-role-with-web-identity": "WebIdentity"}[credentials.method]
        name = None if fetcher._using_default_session_name else fetcher._role_session_name
        found.append(f"{kind} {fetcher._role_arn} {name}")
        credentials = getattr(fetcher, "_source_credentials", None)
    return found or ["none"]


STATIC = {"aws_access_key_id": "AKIDFILE", "aws_secret_access_key": "f" * 20}
ROLE = {"role_arn": ARN}
SSO = {"sso_account_id": "123456789012", "sso_role_name": "coder"}
SSO_PLACE = {"sso_start_url": "https://start.example", "sso_region": "us-west-2"}
FRAGMENTS: list[dict[str, str]] = [
    STATIC,
    {"aws_access_key_id": "AKIDHALF"},
    ROLE,
    ROLE | {"source_profile": "base"},
    ROLE | {"source_profile": "other", "role_session_name": "me"},
    ROLE | {"source_profile": "missing"},
    ROLE | {"credential_source": "Environment"},
    ROLE | {"credential_source": "EcsContainer"},
    ROLE | {"credential_source": "environment"},
    {"source_profile": "base", "credential_source": "Environment"},
    {"web_identity_token_file": "/token"},
    {"web_identity_token_file": "/token", "role_arn": ARN},
    SSO,
    SSO | SSO_PLACE,
    SSO | {"sso_session": "main"},
    SSO | {"sso_session": "missing"},
    {"sso_session": "main"},
    {"credential_process": PROGRAM},
    {"login_session": "me"},
    {"mfa_serial": "a device"},
    {"region": "eu-west-3"},
]
PROFILES = st.lists(st.sampled_from(FRAGMENTS), max_size=3).map(
    lambda each: dict(pair for part in each for pair in part.items())
)
ENVIRONMENTS = st.lists(
    st.sampled_from(
        [
            {"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "e" * 20},
            {"AWS_ACCESS_KEY_ID": "AKIDENV"},
            {"AWS_SECRET_ACCESS_KEY": "e" * 20},
            {"AWS_PROFILE": "base"},
            {"AWS_PROFILE": "other"},
            {"AWS_PROFILE": "missing"},
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": f"{ARN}-env"},
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"},
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{server}/container"},
        ]
    ),
    max_size=2,
).map(lambda each: dict(pair for part in each for pair in part.items()))
FILES = st.fixed_dictionaries(
    {
        "config": st.dictionaries(st.sampled_from(["default", "profile base", "profile other"]), PROFILES),
        "credentials": st.dictionaries(st.sampled_from(["default", "base", "other"]), PROFILES),
    }
)


def both_choices(
    folder: Path, env: Mapping[str, str], files: Mapping[str, Mapping[str, Mapping[str, str]]]
) -> tuple[list[str], list[str]]:
    with pytest.MonkeyPatch.context() as patch, RawServer(service) as server:
        for name, value in env.items():
            patch.setenv(name, value.format(server=server.url))
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        write(folder / ".aws" / "config", ini({**files.get("config", {}), "sso-session main": SSO_PLACE}))
        write(folder / ".aws" / "credentials", ini(files.get("credentials", {})))
        return chosen(os.environ), chosen_by_aws()


@given(ENVIRONMENTS, FILES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_source_is_the_one_that_aws_s_package_chooses(
    tmp_path: Path, env: dict[str, str], files: dict[str, dict[str, dict[str, str]]]
) -> None:
    ours, theirs = both_choices(tmp_path, env, files)
    assert ours == theirs


WEB = {"web_identity_token_file": "/token"}
PROCESS = {"credential_process": PROGRAM}


@pytest.mark.parametrize(
    ("config", "credentials", "expected"),
    [
        (ROLE | {"source_profile": "base"} | STATIC, {}, [f"AssumedRole {ARN} None", "AKIDBASE"]),
        (ROLE | {"source_profile": "default"} | STATIC, {}, [f"AssumedRole {ARN} None", "AKIDFILE"]),
        (ROLE | WEB | SSO | SSO_PLACE | STATIC, {}, [f"WebIdentity {ARN} None"]),
        (SSO | {"sso_session": "main"} | STATIC | PROCESS, STATIC, ["SingleSignOn 123456789012 coder"]),
        (PROCESS, STATIC, ["AKIDFILE"]),
        (PROCESS | STATIC, {}, ["Program"]),
        ({"login_session": "me"} | PROCESS, {}, ["none"]),
        ({"login_session": "me"} | PROCESS, STATIC, ["AKIDFILE"]),
        (WEB | STATIC, {}, ["none"]),
    ],
)
def test_the_source_of_a_profile_is_the_one_that_aws_s_package_chooses(
    tmp_path: Path, config: Mapping[str, str], credentials: Mapping[str, str], expected: list[str]
) -> None:
    base = {"profile base": {"aws_access_key_id": BASE[0], "aws_secret_access_key": BASE[1]}}
    files = {"config": {"default": config, **base}, "credentials": {"default": credentials} if credentials else {}}
    assert both_choices(tmp_path, {}, files) == (expected, expected)


def test_a_profile_default_that_is_nowhere_is_passed_over(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "AWS_PROFILE": "default"}
    assert chosen(env) == ["Machine"]
    assert chosen({**env, "AWS_PROFILE": "mine"}) == ["none"]


# What each source is asked


def given_keys(after_s: float = 3600) -> dict[str, str]:
    return {
        "AccessKeyId": KEYS.access_key_id,
        "SecretAccessKey": KEYS.secret_access_key,
        "Expiration": in_zulu(after_s),
    }


def sts_answer(action: str, after_s: float = 3600) -> bytes:
    members = {**given_keys(after_s), "SessionToken": str(KEYS.session_token)}
    inner = "".join(f"<{name}>{value}</{name}>\n" for name, value in members.items())
    lead = f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
    return f"{lead}<Credentials>{inner}</Credentials></{action}Result></{action}Response>".encode()


def service(reply: Reply, after_s: float = 3600) -> None:
    """Answer as every service that gives out keys."""
    path = urlsplit(reply.request.path).path
    token = {"Token": KEYS.session_token}
    if path == "/":
        action = dict(parse_qsl(reply.request.body.decode()))["Action"]
        reply.whole(sts_answer(action, after_s), content_type="text/xml")
    elif path == "/federation/credentials":
        end_ms = int((time.time() + after_s) * 1000)
        pairs = {"accessKeyId": KEYS[0], "secretAccessKey": KEYS[1], "sessionToken": KEYS[2], "expiration": end_ms}
        as_json(reply, {"roleCredentials": pairs})
    elif path == "/token":
        as_json(reply, {"accessToken": "sso-new-0123456789abcdef", "expiresIn": 28800, "refreshToken": "refresh-2"})
    elif path == "/container":
        as_json(reply, {**given_keys(after_s), **token})
    elif path == "/latest/api/token":
        reply.whole(b"imds-token-0123456789", content_type="text/plain")
    elif path.endswith("/security-credentials/"):
        reply.whole(b"coder", content_type="text/plain")
    else:
        extra = {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": in_zulu(0)}
        as_json(reply, {**given_keys(after_s), **token, **extra})


def as_json(reply: Reply, value: object, status: str = "200 OK") -> None:
    reply.whole(json.dumps(value).encode(), status=status, content_type="application/json")


def expiring(after_s: float) -> Answer:
    return lambda reply: service(reply, after_s)


def point_to(server: RawServer, patch: pytest.MonkeyPatch) -> None:
    for name in ("STS", "SSO", "SSO_OIDC"):
        patch.setenv(f"AWS_ENDPOINT_URL_{name}", server.url)
    patch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)


async def found(env: Mapping[str, str] = os.environ) -> SigningKeys:
    try:
        return await find_keys(env, read_aws_files(env), REGION)
    finally:
        await close_clients()


async def failure() -> str:
    with pytest.raises(NoKeys) as raised:
        await found()
    return str(raised.value)


def store_sso_token(folder: Path, name: str, after_s: float = 3600, **more: str) -> Path:
    path = folder / ".aws" / "sso" / "cache" / f"{sha1(name.encode()).hexdigest()}.json"
    write(path, json.dumps({"accessToken": SSO_TOKEN, "expiresAt": in_zulu(after_s), "startUrl": "x", **more}))
    return path


BASE_PROFILE = f"[profile base]\naws_access_key_id={BASE[0]}\naws_secret_access_key={BASE[1]}\n"
SOURCES = {
    "role": BASE_PROFILE
    + f"[default]\nrole_arn={ARN}\nsource_profile=base\nexternal_id=x 1\nduration_seconds=900\nrole_session_name=me\n",
    "role of a role": BASE_PROFILE
    + f"[profile middle]\nrole_arn={ARN}-1\nsource_profile=base\nrole_session_name=me\n"
    + f"[default]\nrole_arn={ARN}-2\nsource_profile=middle\nrole_session_name=me\n",
    "role of a machine": f"[default]\nrole_arn={ARN}\ncredential_source=Ec2InstanceMetadata\nrole_session_name=me\n",
    "web identity": f"[default]\nrole_arn={ARN}\nweb_identity_token_file=token\nrole_session_name=me\n",
    "session": "[sso-session main]\nsso_start_url=https://start.example\nsso_region=eu-west-2\n"
    "[default]\nsso_session=main\nsso_account_id=123456789012\nsso_role_name=coder\n",
    "start url": "[default]\nsso_start_url=https://old.example\nsso_region=eu-west-2\n"
    "sso_account_id=123456789012\nsso_role_name=coder\n",
    "machine": "",
}
# What depends on the client, or on the moment.
OWN_HEADERS = ("x-aws-ec2-metadata-token", "x-aws-ec2-metadata-token-ttl-seconds", "x-amz-sso_bearer_token")


def asked(request: Received) -> tuple[Any, ...]:
    """Return what a request says, whoever sends it."""
    parts = urlsplit(request.path)
    body = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
    headers = {name: request.headers[name] for name in OWN_HEADERS if name in request.headers}
    who = request.headers.get("authorization", "").partition("Credential=")[2].partition(", ")[0]
    kind = request.headers.get("content-type", "").partition(";")[0] if request.body else ""
    return kind, request.method, parts.path, sorted(parse_qsl(parts.query)), body, headers, who


@pytest.mark.parametrize("source", SOURCES)
async def test_a_source_is_asked_as_aws_s_package_asks_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None], source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "token", "identity-token-0123456789")
    store_sso_token(tmp_path, "main")
    store_sso_token(tmp_path, "https://old.example")
    config(SOURCES[source])

    def theirs() -> tuple[str, ...]:
        folder = tmp_path / ".aws" / "sso" / "cache"
        for module, name in (("credentials", "SSOProvider"), ("tokens", "SSOTokenProvider")):
            owner: Any = getattr(pytest.importorskip(f"botocore.{module}"), name)
            monkeypatch.setattr(owner, "_SSO_TOKEN_CACHE_DIR", str(folder))  # found when it is imported
        frozen = botocore_session.Session().get_credentials().get_frozen_credentials()
        return (frozen.access_key, frozen.secret_key, frozen.token)

    with RawServer(service) as server:
        point_to(server, monkeypatch)
        assert await found() == KEYS
        ours, server.requests = server.requests, []
        assert await trio.to_thread.run_sync(theirs) == KEYS
    assert [asked(each) for each in ours] == [asked(each) for each in server.requests]
    assert REDACTOR.text(f"{KEYS[1]} {KEYS[2]}") == "[redacted] [redacted]"


async def test_the_request_for_a_role_is_signed_with_the_keys_of_its_source(
    monkeypatch: pytest.MonkeyPatch, config: Callable[[str], None]
) -> None:
    config(SOURCES["role"])
    with RawServer(service) as server:
        point_to(server, monkeypatch)
        await found()
    (request,) = server.requests
    moment = datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    unsigned = Unsigned("POST", f"{server.url}/", {"content-type": request.headers["content-type"]}, request.body)
    assert (
        request.headers["authorization"]
        == signed_headers(unsigned, BASE, Scope(REGION, "sts"), moment)["Authorization"]
    )


async def test_a_web_identity_of_the_environment_is_used_before_a_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None]
) -> None:
    config(BASE_PROFILE.replace("profile base", "default"))
    write(tmp_path / "token", "identity-token-0123456789\n")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", ARN)
    with RawServer(service) as server:
        point_to(server, monkeypatch)
        assert await found() == KEYS
    (request,) = server.requests
    form = dict(parse_qsl(request.body.decode()))
    assert (form["WebIdentityToken"], form["RoleArn"]) == ("identity-token-0123456789", ARN)
    assert "authorization" not in request.headers
    assert REDACTOR.text("identity-token-0123456789") == "[redacted]"


async def test_a_program_prints_keys_without_a_shell(
    monkeypatch: pytest.MonkeyPatch, config: Callable[[str], None]
) -> None:
    members = {
        "Version": 1,
        "AccessKeyId": "AKIDP",
        "SecretAccessKey": "$HOME-0123456789abcd",
        "SessionToken": "t" * 20,
    }
    config("[default]\ncredential_process = printf %s '" + json.dumps(members, indent=None) + "'\n")
    monkeypatch.setenv("PATH", os.defpath)
    assert await found() == SigningKeys("AKIDP", "$HOME-0123456789abcd", "t" * 20)


# What is kept


@pytest.mark.parametrize(("after_s", "asked_for"), [(3600, 1), (200, 2)])
@pytest.mark.parametrize("source", ["role", "session", "machine"])
async def test_keys_are_kept_until_shortly_before_they_expire(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    config: Callable[[str], None],
    source: str,
    after_s: float,
    asked_for: int,
) -> None:
    config(SOURCES[source])
    store_sso_token(tmp_path, "main")
    with RawServer(expiring(after_s)) as server:
        point_to(server, monkeypatch)
        await found()
        once = len(server.requests)
        await found()
    assert len(server.requests) == once * asked_for


async def test_requests_at_the_same_time_share_one_renewal(
    monkeypatch: pytest.MonkeyPatch, config: Callable[[str], None]
) -> None:
    config(SOURCES["role"])
    with RawServer(service) as server:
        point_to(server, monkeypatch)
        files = read_aws_files(os.environ)
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(find_keys, os.environ, files, REGION)
        await close_clients()
    assert len(server.requests) == 1


@pytest.mark.parametrize("after_s", [1e12, 1e300])
async def test_keys_without_an_end_are_good(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None], after_s: float
) -> None:
    """A server may name any number: of the portal's keys, and of the token before them."""
    config(SOURCES["session"])
    path = store_sso_token(tmp_path, "main", 60, registrationExpiresAt=in_zulu(9999), **REFRESHABLE)

    def answer(reply: Reply) -> None:
        if reply.request.path == "/token":
            as_json(reply, {"accessToken": SSO_TOKEN, "expiresIn": after_s})
        else:
            service(reply, after_s)

    with RawServer(answer) as server:
        point_to(server, monkeypatch)
        assert await found() == KEYS
    assert json.loads(path.read_text())["expiresAt"] == "9999-12-31T00:00:00Z"


async def test_keys_that_are_good_are_used_where_a_renewal_fails(
    monkeypatch: pytest.MonkeyPatch, config: Callable[[str], None]
) -> None:
    config(SOURCES["role"])
    with RawServer(expiring(200), lambda reply: reply.whole(b"", status="503 No")) as server:
        point_to(server, monkeypatch)
        assert await found() == await found() == KEYS
    assert len(server.requests) == 2


async def test_a_changed_profile_is_another_source(
    monkeypatch: pytest.MonkeyPatch, config: Callable[[str], None]
) -> None:
    with RawServer(service) as server:
        point_to(server, monkeypatch)
        config(SOURCES["role"])
        await found()
        config(SOURCES["role"].replace(f"role_arn={ARN}", f"role_arn={ARN}-other"))
        await found()
    assert [dict(parse_qsl(each.body.decode()))["RoleArn"] for each in server.requests] == [ARN, f"{ARN}-other"]


# Single sign-on

REFRESHABLE = {
    "refreshToken": "refresh-token-0123456789",
    "clientId": "client",
    "clientSecret": "client-secret-0123456789",
    "region": "eu-west-2",
}


async def test_a_token_of_a_session_is_refreshed_and_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None]
) -> None:
    config(SOURCES["session"])
    path = store_sso_token(tmp_path, "main", 60, registrationExpiresAt=in_zulu(9999), **REFRESHABLE)
    with RawServer(service) as server:
        point_to(server, monkeypatch)
        assert await found() == KEYS
    refresh, portal = server.requests
    sent = {"clientId": "client", "clientSecret": REFRESHABLE["clientSecret"], "grantType": "refresh_token"}
    assert json.loads(refresh.body) == {**sent, "refreshToken": REFRESHABLE["refreshToken"]}
    assert portal.headers["x-amz-sso_bearer_token"] == "sso-new-0123456789abcdef"
    stored = json.loads(path.read_text())
    assert (stored["accessToken"], stored["refreshToken"]) == ("sso-new-0123456789abcdef", "refresh-2")
    assert (stored["clientId"], stored["startUrl"], path.stat().st_mode & 0o077) == ("client", "x", 0)
    assert REDACTOR.text(f"{REFRESHABLE['clientSecret']} sso-new-0123456789abcdef") == "[redacted] [redacted]"


async def test_a_token_that_another_process_refreshes_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None]
) -> None:
    config(SOURCES["session"])
    path = store_sso_token(tmp_path, "main", -60, registrationExpiresAt=in_zulu(9999), **REFRESHABLE)
    newer = {"accessToken": "sso-other-0123456789abcdef", "expiresAt": in_zulu(3600)}
    with RawServer(service) as server:
        point_to(server, monkeypatch)
        lock = await trio.to_thread.run_sync(LockedFile, path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found)
            await trio.testing.wait_all_tasks_blocked(0.05)
            lock.edit(lambda old: {**old, **newer}, FileForm(pretty))
            lock.release()
    assert [each.headers.get("x-amz-sso_bearer_token") for each in server.requests] == [newer["accessToken"]]


@pytest.mark.parametrize(("after_s", "is_good"), [(60, True), (-60, False)])
async def test_a_refresh_that_fails_leaves_the_token_that_is_stored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None], after_s: float, is_good: bool
) -> None:
    config(SOURCES["session"])
    path = store_sso_token(tmp_path, "main", after_s, registrationExpiresAt=in_zulu(9999), **REFRESHABLE)
    before = path.read_text()

    def answer(reply: Reply) -> None:
        if reply.request.path == "/token":
            as_json(reply, {"error": "invalid_grant", "error_description": "No more"}, "400 No")
        else:
            service(reply)

    with RawServer(answer) as server:
        point_to(server, monkeypatch)
        if is_good:
            assert await found() == KEYS
        else:
            assert "the token service of SSO answers with the status 400: No more; sign in with `aws sso login`" in (
                await failure()
            )
    assert path.read_text() == before


# Failures


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[default]\nrole_arn=x\n", "role_arn of the profile default in {files}: source_profile or credential_source"),
        ("[default]\nrole_arn=x\nsource_profile=no\n", "source_profile of the profile default in {files}: there is no"),
        (
            "[default]\nrole_arn=x\nsource_profile=b\n[profile b]\nrole_arn=y\nsource_profile=default\n",
            "source_profile of the profile b in {files}: default leads back to itself",
        ),
        (
            "[default]\nrole_arn=x\ncredential_source=Foo\n",
            "credential_source of the profile default in {files} must be",
        ),
        (
            "[default]\nrole_arn=x\ncredential_source=Ec2InstanceMetadata\nmfa_serial=y\n",
            "role_arn of the profile default in {files}: mfa_serial is set: enter the code of its device by `pin",
        ),
        ("[default]\naws_access_key_id=x\n", "aws_secret_access_key of the profile default in {files} is missing"),
        (
            "[default]\nsso_account_id=1\n",
            "sso_start_url of the profile default in {files}: sso_role_name and sso_start",
        ),
        (
            "[default]\nsso_account_id=1\nsso_session=s\n",
            "sso_session of the profile default in {files}: there is no sec",
        ),
        (SOURCES["session"], "sso_session of the profile default in {files}: there is no token in "),
        (SOURCES["web identity"], "web_identity_token_file of the profile default in {files}: token can't be read"),
        (
            "[default]\ncredential_process=false\n",
            "credential_process of the profile default in {files}: its command fai",
        ),
        (
            "[default]\ncredential_process=echo hi\n",
            "credential_process of the profile default in {files}: its output mus",
        ),
        ("[default]\ncredential_process=echo 'x\n", "credential_process of the profile default in {files}: No closing"),
        ("[default]\nlogin_session=x\n", "login_session of the profile default in {files}: there is no token in "),
    ],
)
async def test_an_error_names_the_profile_and_the_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: Callable[[str], None], text: str, problem: str
) -> None:
    config(text)
    write(tmp_path / ".aws" / "credentials", "")
    monkeypatch.chdir(tmp_path)
    files = f"{tmp_path}/.aws/config and {tmp_path}/.aws/credentials"
    last = (await failure()).splitlines()[-1]
    assert last.startswith(f"- {problem.format(files=files)}")


@pytest.mark.parametrize(
    ("source", "answer", "problem"),
    [
        (
            "role",
            lambda reply: reply.whole(
                b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not you &amp; me</Message></Error>"
                b"</ErrorResponse>",
                status="403 No",
            ),
            ": STS answers with the status 403: AccessDenied: Not you & me",
        ),
        (
            "role",
            lambda reply: reply.whole(b"", status="503 No"),
            ": STS answers with service unavailable, the status 503",
        ),
        ("role", lambda reply: reply.whole(b"<p>"), ": STS answers without keys that say when they expire"),
        (
            "session",
            lambda reply: as_json(reply, {}, "401 No"),
            "does not accept the token: sign in with `aws sso login`",
        ),
        (
            "session",
            lambda reply: as_json(reply, {"message": "No access"}, "403 No"),
            "the portal of SSO answers with the status 403: No access",
        ),
        (
            "machine",
            lambda reply: reply.whole(b"", status="404 No"),
            "answers with the status 404: the machine has no role",
        ),
        ("machine", lambda reply: reply.wait_gone(), "the metadata service of EC2 does not answer in 1 s (timeout)"),
    ],
)
async def test_a_service_that_gives_out_no_keys_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    config: Callable[[str], None],
    source: str,
    answer: Answer,
    problem: str,
) -> None:
    config(SOURCES[source])
    store_sso_token(tmp_path, "main")
    with RawServer(answer) as server:
        point_to(server, monkeypatch)
        assert (await failure()).endswith(problem)


async def test_a_service_that_does_not_listen_is_named(
    monkeypatch: pytest.MonkeyPatch, config: Callable[[str], None]
) -> None:
    config(SOURCES["role"])
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    assert (await failure()).endswith("STS does not answer (ConnectError)")


@pytest.mark.parametrize(
    ("source", "variable"),
    [
        ("role", "AWS_ENDPOINT_URL_STS"),
        ("session", "AWS_ENDPOINT_URL_SSO"),
        ("machine", "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
    ],
)
async def test_nothing_secret_goes_to_an_address_without_tls(
    monkeypatch: pytest.MonkeyPatch, config: Callable[[str], None], source: str, variable: str
) -> None:
    config(SOURCES[source])
    monkeypatch.setenv(variable, "http://keys.example")
    text = await failure()
    assert variable in text
    assert "must begin with https://, or name this machine" in text
