"""Addresses of services in AWS's files, with AWS's own package beside ours, and requests that go there."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.agent.samples import served_model

from pinnace_agent.llm.bedrock.endpoint import configured_url, endpoint_of
from pinnace_agent.llm.bedrock.identity.aws_files import AddressMissing, profile_name, read_aws_files
from pinnace_agent.llm.bedrock.identity.keys import find_keys, forget_keys
from pinnace_agent.llm.bedrock.identity.sources import NoKeys, SingleSignOn, WebIdentity, choose_source
from pinnace_agent.llm.transport.client import close_clients
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Reply

botocore_session = pytest.importorskip("botocore.session")

SERVICES = {"BEDROCK_RUNTIME": "bedrock-runtime", "STS": "sts", "SSO": "sso", "SSO_OIDC": "sso-oidc"}
SECTION = """[services local]
bedrock_runtime =
  endpoint_url = http://127.0.0.1:1/bedrock
  other = x
sts =
\tendpoint_url=http://127.0.0.1:2
s3 = no_value_of_its_own
  endpoint_url = http://127.0.0.1:3
"""
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "nothing": ("[default]\n", {}),
    "of the profile": ("[default]\nendpoint_url = http://127.0.0.1:9\n", {}),
    "of services": (f"[default]\nservices = local\n{SECTION}", {}),
    "of both": (f"[default]\nservices = local\nendpoint_url = http://127.0.0.1:9\n{SECTION}", {}),
    "of a variable": (
        f"[default]\nservices = local\n{SECTION}",
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:7", "AWS_ENDPOINT_URL_SSO": "http://127.0.0.1:8"},
    ),
    "of a chosen profile": (
        f"[default]\nendpoint_url=http://127.0.0.1:9\n[profile work]\nservices=local\n{SECTION}",
        {"AWS_PROFILE": "work"},
    ),
    "ignored by a variable": (
        f"[default]\nservices = local\n{SECTION}",
        {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
    ),
    "ignored by the profile": (f"[default]\nservices = local\nignore_configured_endpoint_urls = true\n{SECTION}", {}),
}


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the environment say nothing of AWS, and no keys be kept."""
    for name in [*filter(lambda each: each.startswith("AWS_"), os.environ)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    forget_keys()


@pytest.mark.parametrize("case", CASES)
def test_a_service_is_where_aws_s_package_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    text, env = CASES[case]
    (tmp_path / ".aws" / "config").write_text(text)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    files, session = read_aws_files(os.environ), botocore_session.Session()
    unsigned: Any = pytest.importorskip("botocore").UNSIGNED
    config: Any = pytest.importorskip("botocore.config").Config(signature_version=unsigned)
    for service, name in SERVICES.items():
        ours = configured_url(service, os.environ, files.endpoint_url(profile_name(os.environ), service))
        theirs = session.create_client(name, region_name="us-east-1", config=config).meta.endpoint_url
        assert theirs.rstrip("/") == ours or (ours is None and theirs.endswith(".amazonaws.com")), service


@pytest.mark.parametrize("region", ["eu-west-1", "cn-north-1", "us-gov-west-1", "eusc-de-east-1"])
def test_a_service_has_the_domain_of_its_partition(region: str, tmp_path: Path) -> None:
    unsigned: Any = pytest.importorskip("botocore").UNSIGNED
    config: Any = pytest.importorskip("botocore.config").Config(signature_version=unsigned)
    session = botocore_session.Session()
    theirs = {
        service: session.create_client(name, region_name=region, config=config).meta.endpoint_url.rstrip("/")
        for service, name in SERVICES.items()
    }
    (tmp_path / ".aws" / "config").write_text(
        f"[default]\nsso_start_url = https://x.example\nsso_region = {region}\n"
        "sso_account_id = 123456789012\nsso_role_name = x\n"
        "[profile web]\nrole_arn = arn:aws:iam::123456789012:role/x\nweb_identity_token_file = t\n"
    )
    files = read_aws_files(os.environ)
    signed_on, _ = choose_source(os.environ, files, "us-east-1")
    web, _ = choose_source({**os.environ, "AWS_PROFILE": "web"}, files, region)
    assert isinstance(signed_on, SingleSignOn)
    assert isinstance(web, WebIdentity)

    own = [endpoint_of(served_model(baseUrl=theirs["BEDROCK_RUNTIME"]), {}).base_url]
    east = served_model(baseUrl="https://bedrock-runtime.us-east-1.amazonaws.com")
    own += [endpoint_of(east, {"AWS_REGION": region}).base_url, web.url, signed_on.url, signed_on.refresh_url]
    assert own == [theirs["BEDROCK_RUNTIME"], *theirs.values()]


async def test_a_role_is_asked_for_at_the_address_of_its_profile(tmp_path: Path) -> None:
    """An address without TLS that is elsewhere is refused, and named."""

    def refuse(reply: Reply) -> None:
        reply.whole(b"<Error><Code>AccessDenied</Code></Error>", status="403 No")

    keys = f"[profile k]\naws_access_key_id = AKID\naws_secret_access_key = {'s' * 20}\n"
    role = "[profile r]\nrole_arn = arn:aws:iam::123456789012:role/x\nsource_profile = k\nservices = local\n"
    env = {**os.environ, "AWS_PROFILE": "r"}
    with RawServer(refuse) as server:
        for url, problem in (
            (server.url, "STS answers with the status 403: AccessDenied"),
            (
                "http://evil.example",
                r"STS .AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL or endpoint_url. must",
            ),
        ):
            address = f"[services local]\nsts =\n  endpoint_url = {url}\n"
            (tmp_path / ".aws" / "config").write_text(keys + role + address)
            with pytest.raises(NoKeys, match=problem):
                await find_keys(env, read_aws_files(env), "us-east-1")
    await close_clients()
    assert ["POST"] == [each.method for each in server.requests]


def test_a_section_of_addresses_that_is_not_there_is_named(tmp_path: Path) -> None:
    """No request goes to another address than was meant."""
    (tmp_path / ".aws" / "config").write_text("[default]\nservices = locla\n[services local]\n")
    with pytest.raises(AddressMissing, match=r"services of the profile default: there is no section .services locla."):
        read_aws_files(os.environ).endpoint_url("default", "STS")
