"""The HTTP request of one answer, as far as all APIs have it in common.

Combines the headers of the configuration and of an API, and decides how long a provider may cache. Pure except for the
variable of the latter. Independent of any API's body.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.surroundings import environment
from pinnace_spec.records.messages import Model, ThinkingLevel

Retention = Literal["none", "short", "long"]

RETENTION_VARIABLE: Final = "PI_CACHE_RETENTION"


# Takes the address, the headers and the body as they are sent, and returns the headers with those of a signature.
Signer: TypeAlias = Callable[[str, Mapping[str, str], bytes], Mapping[str, str]]


class HttpRequest(NamedTuple):
    """One POST."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    sign: Signer | None = None
    """Signs the request, for APIs that require it; called last, when nothing changes any more, and again for each body
    that is sent."""


def retention() -> Retention:
    """Return how long a provider may keep the conversation's beginning in its cache."""
    match environment().get(RETENTION_VARIABLE):
        case "none":
            return "none"
        case "long":
            return "long"
        case _:
            return "short"


def configured_fields(model: Model, level: ThinkingLevel) -> dict[str, object]:
    """Return the fields that the user has configured for a body: those of the level before those of the model."""
    by_level = model.get("samplingParamsByThinkingLevel") or {}
    return {**(model.get("samplingParams") or {}), **(as_object(by_level.get(level)) or {})}


def merged_headers(own: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """Return an API's own headers under those of the configuration, which take precedence regardless of case."""
    named = {name.lower() for name in configured}
    return {name: value for name, value in own.items() if name.lower() not in named} | dict(configured)
