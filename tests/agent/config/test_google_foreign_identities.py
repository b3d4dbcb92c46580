"""Identities that Google takes from programs and from AWS, over real programs and a local server.

Google's package runs over the same file, against the same server, as a second opinion.
"""

import json
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import trio

pytest.importorskip("google.auth")  # before the tests beside it, which are left out without it

from tests.agent.config.test_google_sources import ACCOUNT, SUBJECT, TOKENS, answer, external, google, said_by, written

from pinnace_agent.config.credentials.google_credentials import GoogleTokens
from pinnace_agent.config.credentials.logins import LoginFailed
from pinnace_agent.llm.bedrock.signature import Scope, SigningKeys, Unsigned, signed_headers
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_fuzz.harness.model_server.raw_server import RawServer, Received, Reply

google_auth = pytest.importorskip("google.auth")
ALLOWED = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
JWT = "urn:ietf:params:oauth:token-type:jwt"
GOOD: Mapping[str, object] = {"version": 1, "success": True, "token_type": JWT, "id_token": SUBJECT}
VERIFY = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
SECRET = "aws-secret-0123456789abcdef"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")


def program(folder: Path, printed: object, **more: object) -> dict[str, object]:
    """Return a program that writes down its environment, and prints."""
    path = folder / "a program.py"
    path.write_text(
        f"import json, os\nprefix = 'GOOGLE_EXTERNAL_ACCOUNT_'\n"
        f"given = {{name: value for name, value in os.environ.items() if name.startswith(prefix)}}\n"
        f"open({str(folder / 'given.json')!r}, 'a').write(json.dumps(given, sort_keys=True) + '\\n')\n"
        f"print({printed if isinstance(printed, str) else json.dumps(printed)!r})\n"
    )
    return {"executable": {"command": f"{quote(sys.executable)} '{path}'", **more}}


async def token(path: Path) -> str:
    try:
        return await GoogleTokens(path).token()
    finally:
        await close_clients()


async def theirs(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))

    def work() -> str:
        requests: Any = pytest.importorskip("google.auth.transport.requests")
        credentials, _ = google_auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        credentials.refresh(requests.Request())
        return str(credentials.token)

    return await trio.to_thread.run_sync(work)


async def test_a_program_is_run_as_google_s_package_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same variables; its token is exchanged by the same requests."""
    monkeypatch.setenv(ALLOWED, "1")
    with RawServer(google) as server:
        source = program(tmp_path, GOOD, output_file=str(tmp_path / "out.json"))
        more = {"service_account_impersonation_url": f"{server.url}{ACCOUNT}"}
        path = written(tmp_path, external(server.url, source, **more))
        own = await token(path)
        ours, server.requests = server.requests, []
        assert own == await theirs(path, monkeypatch) == TOKENS[ACCOUNT]
    assert said_by(ours) == said_by(server.requests)
    first, second = (json.loads(each) for each in (tmp_path / "given.json").read_text().splitlines())
    for name in ("GOOGLE_EXTERNAL_ACCOUNT_ID", "GOOGLE_EXTERNAL_ACCOUNT_IMPERSONATED_EMAIL"):
        assert "robot@p.iam.gserviceaccount.com" == first.pop(name)
        second.pop(name, None)  # which it leaves out where it acts as another account, unlike its documentation
    assert first == second
    assert REDACTOR.text(SUBJECT) == "[redacted]"


async def test_an_output_file_is_used_until_it_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, "1")
    kept, ran = tmp_path / "out.json", tmp_path / "given.json"
    with RawServer(google) as server:
        path = written(tmp_path, external(server.url, program(tmp_path, GOOD, output_file=str(kept))))
        kept.write_text(json.dumps({**GOOD, "expiration_time": int(time.time()) + 60}))
        await token(path)
        assert not ran.exists()
        for stale in ({**GOOD, "expiration_time": 1}, GOOD, {}):
            ran.unlink(missing_ok=True)
            kept.write_text(json.dumps(stale))
            await token(path)
            assert ran.exists()


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        ("nothing", "executable.command: its output must be a JSON object with version 1 and success"),
        ({"version": 2, "success": True}, "executable.command: its output must be a JSON object with version 1"),
        ({"version": 1, "success": False, "code": "401", "message": "Who?"}, "it has no token: 401: Who\\?"),
        ({**GOOD, "expiration_time": 1}, "executable.command: its token has expired"),
        ({**GOOD, "token_type": "x"}, "executable.command: token_type must be one of"),
        ({**GOOD, "id_token": None}, "executable.command: it has no id_token"),
        ({**GOOD, "id_token": "a b\n"}, "its token must be printable"),
    ],
)
async def test_a_program_without_a_token_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: object, problem: str
) -> None:
    monkeypatch.setenv(ALLOWED, "1")
    with RawServer(google) as server, pytest.raises(LoginFailed, match=problem):
        await token(written(tmp_path, external(server.url, program(tmp_path, printed))))
    assert [] == server.requests


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"command": ""}, "executable.command must be a text"),
        ({"command": "x 'y"}, "executable.command: No closing quotation"),
        ({"command": "exit 3"}, "executable.command: "),
        ({"command": "true", "timeout_millis": 10}, "timeout_millis must be a number from 5000 to 120000"),
        ({"command": "true", "timeout_millis": "x"}, "timeout_millis must be a number from 5000 to 120000"),
    ],
)
async def test_a_program_that_is_not_described_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: object, problem: str
) -> None:
    monkeypatch.setenv(ALLOWED, "1")
    with RawServer(google) as server, pytest.raises(LoginFailed, match=problem):
        await token(written(tmp_path, external(server.url, {"executable": source})))


async def test_a_program_runs_only_where_it_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(google) as server:
        path = written(tmp_path, external(server.url, program(tmp_path, GOOD)))
        for value in ("", "true", "0"):
            monkeypatch.setenv(ALLOWED, value)
            with pytest.raises(LoginFailed, match=f"a program runs only where {ALLOWED}=1 allows it"):
                await token(path)
    assert not (tmp_path / "given.json").exists()


# AWS


def metadata(reply: Reply) -> None:
    """Answer as EC2's metadata, version 2, and as Google."""
    path = reply.request.path
    if not path.startswith("/latest/"):
        google(reply)
    elif path == "/latest/api/token":
        is_asked = (reply.request.method, reply.request.headers.get("x-aws-ec2-metadata-token-ttl-seconds"))
        reply.whole(b"imds-token-0123456789", status="200 OK" if is_asked == ("PUT", "300") else "400 No")
    elif reply.request.headers.get("x-aws-ec2-metadata-token") != "imds-token-0123456789":
        reply.whole(b"", status="401 No")
    elif path == "/latest/zone":
        reply.whole(b"eu-west-1b")
    elif path == "/latest/keys":
        reply.whole(b"robot")
    else:
        keys = {"AccessKeyId": "AKID", "SecretAccessKey": SECRET, "Token": "aws-session-0123456789"}
        answer(reply, {"Code": "Success", **keys, "Expiration": "2099-01-01T00:00:00Z"})


def aws(base: str, **changes: object) -> dict[str, object]:
    source: dict[str, object] = {
        "environment_id": "aws1",
        "region_url": f"{base}/latest/zone",
        "url": f"{base}/latest/keys",
        "imdsv2_session_token_url": f"{base}/latest/api/token",
        "regional_cred_verification_url": VERIFY,
    }
    return {name: value for name, value in {**source, **changes}.items() if value is not None}


def question(request: Received) -> tuple[object, dict[str, str]]:
    """Return the question to AWS in the subject token of an exchange, and its headers without what time changes."""
    body = dict(each.split("=", 1) for each in request.body.decode().split("&"))
    asked = json.loads(unquote(unquote(body["subject_token"])))
    headers = {each["key"].lower(): each["value"] for each in asked.pop("headers")}
    moment = headers.pop("x-amz-date")
    headers["authorization"] = headers["authorization"].split("Signature=")[0].replace(moment[:8], "DAY")
    return asked, headers


def assert_signed(request: Received, session: str | None) -> None:
    """Check the signature of a question, whoever has made it."""
    body = dict(each.split("=", 1) for each in request.body.decode().split("&"))
    asked = json.loads(unquote(unquote(body["subject_token"])))
    headers = {each["key"].lower(): each["value"] for each in asked["headers"]}
    moment = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    region = urlsplit(asked["url"]).netloc.split(".")[1]
    expected = signed_headers(
        Unsigned("POST", asked["url"], {}, b""), SigningKeys("AKID", SECRET, session), Scope(region, "sts"), moment
    )
    assert expected["Authorization"] == headers["authorization"]


@pytest.mark.parametrize("has_variables", [True, False])
async def test_a_question_to_aws_is_signed_as_google_s_package_signs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_variables: bool
) -> None:
    if has_variables:
        for name, value in (("AWS_REGION", "us-east-2"), ("AWS_ACCESS_KEY_ID", "AKID")):
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with RawServer(metadata) as server:
        kind = {"subject_token_type": "urn:ietf:params:aws:token-type:aws4_request"}
        path = written(tmp_path, external(server.url, aws(server.url), **kind))
        own = await token(path)
        ours, server.requests = server.requests, []
        assert own == await theirs(path, monkeypatch) == TOKENS["/exchange"]
    assert question(ours[-1]) == question(server.requests[-1])
    for each in (ours[-1], server.requests[-1]):
        assert_signed(each, None if has_variables else "aws-session-0123456789")
    asked, headers = question(ours[-1])
    region = "us-east-2" if has_variables else "eu-west-1"
    assert {"method": "POST", "url": VERIFY.replace("{region}", region)} == asked
    assert f"/DAY/{region}/sts/aws4_request" in headers["authorization"]
    assert (1 if has_variables else 5) == len([each for each in ours if urlsplit(each.path).path])
    assert REDACTOR.text(SECRET) == "[redacted]"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"regional_cred_verification_url": None}, "regional_cred_verification_url must be an https address"),
        ({"regional_cred_verification_url": "http://x"}, "regional_cred_verification_url must be an https address"),
        ({"region_url": None}, "credential_source.region_url is missing, and the environment has no region"),
        ({"url": None}, "credential_source.url is missing, and the environment has no keys of AWS"),
        ({"url": "http://evil.example/"}, "credential_source.url must begin with https://, or name this machine"),
        ({"imdsv2_session_token_url": None}, "credential_source.region_url answers with the status 401"),
    ],
)
async def test_an_identity_of_aws_that_can_not_be_used_names_its_field(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    with RawServer(metadata) as server, pytest.raises(LoginFailed, match=problem):
        await token(written(tmp_path, external(server.url, aws(server.url, **changes))))
    assert not [each for each in server.requests if "exchange" in each.path]
