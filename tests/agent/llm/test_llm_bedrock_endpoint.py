"""Where a request to Amazon Bedrock goes: regions and addresses, by their sources."""

from collections.abc import Mapping

import pytest
from tests.agent.samples import served_model

from pinnace_agent.llm.bedrock.endpoint import Endpoint, RegionInvalid, endpoint_of, stream_url

EAST = "https://bedrock-runtime.us-east-1.amazonaws.com"
CENTRAL = "https://bedrock-runtime.eu-central-1.amazonaws.com"
ARN = "arn:aws:bedrock:ap-south-1:1:inference-profile/x"
HOST = "https://bedrock-runtime.{}.amazonaws.com"


@pytest.mark.parametrize(
    ("base_url", "model_id", "env", "profile", "base", "region"),
    [
        (EAST, "m", {}, None, EAST, "us-east-1"),
        (CENTRAL, "eu.m", {}, None, CENTRAL, "eu-central-1"),
        (EAST, "m", {"AWS_DEFAULT_REGION": "eu-west-1"}, None, HOST.format("eu-west-1"), "eu-west-1"),
        (EAST, "m", {"AWS_REGION": "a-1", "AWS_DEFAULT_REGION": "b-1"}, "c-1", HOST.format("a-1"), "a-1"),
        (CENTRAL, "m", {}, "eu-west-3", HOST.format("eu-west-3"), "eu-west-3"),
        (EAST, ARN, {"AWS_REGION": "eu-west-1"}, None, HOST.format("ap-south-1"), "ap-south-1"),
        (EAST, "m", {"AWS_REGION": "cn-north-1"}, None, f"{HOST.format('cn-north-1')}.cn", "cn-north-1"),
        (EAST.replace("-runtime", "-runtime-fips"), "m", {"AWS_REGION": "us-west-2"}, None,
         "https://bedrock-runtime-fips.us-west-2.amazonaws.com", "us-west-2"),
        ("https://vpce.example/x/", "m", {"AWS_REGION": "eu-west-1"}, None, "https://vpce.example/x", "eu-west-1"),
        ("https://vpce.example", "m", {}, None, "https://vpce.example", "us-east-1"),
        (EAST, "m", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1/"}, None, "http://127.0.0.1:1", "us-east-1"),
        (EAST, "m", {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "http://b"}, None, "http://b",
         "us-east-1"),
        (EAST, "m", {"AWS_ENDPOINT_URL": "http://a", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, None, EAST,
         "us-east-1"),
        ("https://own.example", "m", {"AWS_ENDPOINT_URL": "http://a"}, None, "https://own.example", "us-east-1"),
    ],
)  # fmt: skip
def test_region_and_address_follow_their_sources(
    base_url: str, model_id: str, env: Mapping[str, str], profile: str | None, base: str, region: str
) -> None:
    assert endpoint_of(served_model(id=model_id, baseUrl=base_url), env, profile) == Endpoint(base, region)


@pytest.mark.parametrize("region", ["evil.example/", "a b", "../x", "us-east-1.evil.example#"])
def test_what_is_no_region_leads_to_no_other_host(region: str) -> None:
    with pytest.raises(RegionInvalid, match=r"^AWS_REGION is no region of AWS: .*; expected a name such as us-east-1$"):
        endpoint_of(served_model(baseUrl=EAST), {"AWS_REGION": region})


def test_an_id_cannot_leave_its_part_of_the_path() -> None:
    assert stream_url(EAST, "a/../b?c#d:é") == f"{EAST}/model/a%2F..%2Fb%3Fc%23d%3A%C3%A9/converse-stream"
