"""Signature Version 4: the examples that AWS publishes, and AWS's own package as a second opinion."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.llm.bedrock.signature import Scope, SigningKeys, Unsigned, signed_headers, signing_key

# Of AWS's test suite for Signature Version 4.
KEYS = SigningKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
MOMENT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
SUITE = Scope("us-east-1", "service")
HOST = "https://example.amazonaws.com"
FORM = "application/x-www-form-urlencoded"


def authorization(request: Unsigned, scope: Scope = SUITE, keys: SigningKeys = KEYS) -> str:
    return signed_headers(request, keys, scope, MOMENT)["Authorization"]


@pytest.mark.parametrize(
    ("request_", "signature"),
    [
        (Unsigned("GET", f"{HOST}/", {}, b""), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (Unsigned("POST", f"{HOST}/", {}, b""), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            Unsigned("GET", f"{HOST}/?Param2=value2&Param1=value1", {}, b""),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            Unsigned("POST", f"{HOST}/", {"Content-Type": FORM}, b"Param1=value1"),
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ],
    ids=["get-vanilla", "post-vanilla", "get-vanilla-query-order-key-case", "post-x-www-form-urlencoded"],
)
def test_the_requests_of_aws_s_suite_get_its_signatures(request_: Unsigned, signature: str) -> None:
    lead = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders="
    names = "content-type;host;x-amz-date" if request_.headers else "host;x-amz-date"
    assert authorization(request_) == f"{lead}{names}, Signature={signature}"


def test_the_example_of_the_documentation_gets_its_key_and_its_signature() -> None:
    scope = Scope("us-east-1", "iam")
    url = "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08"
    signed = authorization(Unsigned("GET", url, {"Content-Type": f"{FORM}; charset=utf-8"}, b""), scope)

    key = "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    assert signing_key(KEYS.secret_access_key, scope, MOMENT).hex() == key
    assert signed.endswith("Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7")


def test_a_session_token_is_sent_and_signed() -> None:
    keys = KEYS._replace(session_token="AQoDYXdz")
    signed = signed_headers(Unsigned("POST", f"{HOST}/", {}, b"{}"), keys, SUITE, MOMENT)
    assert signed["X-Amz-Security-Token"] == "AQoDYXdz"
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token," in signed["Authorization"]


def test_an_older_signature_is_replaced_and_other_headers_are_kept_unsigned() -> None:
    old = {"authorization": "x", "Host": "elsewhere", "x-amz-date": "y", "X-Amz-Security-Token": "z"}
    headers = {"Accept": "a", "X-Trace": "1", "Content-Type": "application/json"}
    signed = signed_headers(Unsigned("POST", f"{HOST}/", headers | old, b""), KEYS, SUITE, MOMENT)
    assert signed.keys() - headers.keys() == {"X-Amz-Date", "Authorization"}
    assert "SignedHeaders=content-type;host;x-amz-date," in signed["Authorization"]


def test_the_keys_are_shown_nowhere() -> None:
    assert repr(KEYS) == f"{KEYS}" == "SigningKeys(...)"


PARTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)


@given(
    model=PARTS.filter(lambda part: part not in {"", ".", ".."}),
    body=st.binary(max_size=30),
    token=st.none() | st.just("AQoDYXdz//8="),
    port=st.sampled_from(["", ":443", ":8443"]),
)
def test_amazon_s_own_package_signs_the_same(model: str, body: bytes, token: str | None, port: str) -> None:
    """Skipped where the package is not installed: nothing but this test needs it."""
    auth, requests, keys_of = (
        pytest.importorskip(f"botocore.{name}", reason="needs the extra `sdk`")
        for name in ("auth", "awsrequest", "credentials")
    )
    url = f"https://bedrock-runtime.eu-west-1.amazonaws.com{port}/model/{quote(model, safe='-_.~')}/converse-stream"
    headers = {"Content-Type": "application/json", "x-amz-more": " a   b "}
    scope = Scope("eu-west-1", "bedrock")
    theirs: Any = requests.AWSRequest("POST", url, data=body, headers=dict(headers))
    their_keys = keys_of.Credentials(KEYS.access_key_id, KEYS.secret_access_key, token)
    signer = auth.SigV4Auth(their_keys, "bedrock", "eu-west-1")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(auth, "get_current_datetime", lambda: MOMENT.replace(tzinfo=None))
        signer.add_auth(theirs)

    keys = KEYS._replace(session_token=token)
    assert authorization(Unsigned("POST", url, headers, body), scope, keys) == theirs.headers["Authorization"]
