"""Where a request to Amazon Bedrock goes: the region, and the address of its endpoint.

Pure. An address of Amazon's own in a model names a region to fall back on; any other address (a private endpoint, a
gateway, a proxy) is used as it is. Independent of keys and of what is asked.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from pinnace_spec.records.messages import Model

_OWN: Final = re.compile(
    r"\A(https://bedrock-runtime(?:-fips)?)\.([a-z0-9-]+)\.amazonaws\.(?:com|com\.cn|eu)/?\Z", re.IGNORECASE
)
_ARN: Final = re.compile(r"\Aarn:aws(?:-[a-z0-9-]+)?:bedrock:([a-z0-9-]+):")
_REGION: Final = re.compile(r"[a-z0-9-]+")
# By the beginning of the region; the first that fits counts.
_DOMAINS: Final = (("cn-", "amazonaws.com.cn"), ("eusc-", "amazonaws.eu"), ("", "amazonaws.com"))
USUAL_REGION: Final = "us-east-1"

REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT: Final = "AWS_ENDPOINT_URL"
SERVICE: Final = "BEDROCK_RUNTIME"
_IGNORED: Final = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"


class Endpoint(NamedTuple):
    """Where a model is served."""

    base_url: str
    region: str
    """What a signature is good for."""

    @property
    def is_government(self) -> bool:
        """Whether it is AWS GovCloud."""
        return self.region.startswith("us-gov-")


class RegionInvalid(Exception):
    """A region is no name of one; the text says where it is set."""


def endpoint_of(
    model: Model, env: Mapping[str, str], profile_region: str | None = None, profile_url: str | None = None
) -> Endpoint:
    """Return where a model is served.

    The region is that of an ARN in the model's id, else of the environment, of the profile, of the model's address,
    else `us-east-1`.

    Args:
        model: Its id and its address.
        env: The environment.
        profile_region: Of the profile in use, from AWS's files.
        profile_url: The address that it gives this service.

    Raises:
        RegionInvalid: It would lead to another host.
    """
    own = _OWN.match(model["baseUrl"])
    arn = _ARN.match(model["id"])
    named = next(((env[name], name) for name in REGION_VARIABLES if env.get(name)), None)
    if named is None and profile_region:
        named = (profile_region, "region of the profile")
    if arn is not None:
        named = (arn[1], "the model's id")
    if named is None and own is not None:
        named = (own[2].lower(), "baseUrl")
    region, source = named or (USUAL_REGION, "")
    if not _REGION.fullmatch(region):
        raise RegionInvalid(f"{source} is no region of AWS: {region[:100]!r}; expected a name such as us-east-1")
    if own is None:
        return Endpoint(model["baseUrl"].rstrip("/"), region)
    if configured := configured_url(SERVICE, env, profile_url):
        return Endpoint(configured, region)
    return Endpoint(f"{own[1].lower()}.{region}.{domain_of(region)}", region)


def domain_of(region: str) -> str:
    """Return the domain of the servers of a region: that of its partition."""
    return next(domain for beginning, domain in _DOMAINS if region.startswith(beginning))


def configured_url(service: str, env: Mapping[str, str], profile_url: str | None = None) -> str | None:
    """Return the address that the environment, or else a profile, gives a service of AWS; None: its usual one.

    Args:
        service: As its variable names it: `STS`.
        env: The environment.
        profile_url: The address of the profile in use.
    """
    if env.get(_IGNORED, "").lower() == "true":
        return None
    url = env.get(f"{_ENDPOINT}_{service}") or env.get(_ENDPOINT) or profile_url
    return url.rstrip("/") if url else None


def stream_url(base_url: str, model_id: str) -> str:
    """Return the address of a streamed answer. The whole id is one part of the path, also an ARN with its slashes."""
    return f"{base_url}/model/{quote(model_id, safe='-_.~')}/converse-stream"
