"""Cloudflare: the account and the gateway in the address, and the key of a gateway.

Built-in addresses hold the names of the variables, in braces, that say whose they are. Workers AI takes the key as
other servers do. A gateway takes it in a header of its own: `Authorization` and `x-api-key` are for the vendor behind
it, whose key the gateway stores or the user configures as a header. Variables of the provider's entry in auth.json take
precedence over those of the environment. An address of the user's own has no such names, and stays as it is.
"""

import re
from typing import Final

from pinnace_agent.core.surroundings import environment
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.transport.request import merged_headers

_NAMES: Final = {
    "CLOUDFLARE_ACCOUNT_ID": "the id of an account",
    "CLOUDFLARE_GATEWAY_ID": "the name of a gateway",
}
# One part of a path.
_VALUE: Final = re.compile(r"[A-Za-z0-9_-]+")
_GATEWAY_KEY: Final = "cf-aig-authorization"


class CloudflareSettingsWrong(Exception):
    """The variables do not say whose account or gateway it is; the text is for the user."""


def at_cloudflare_or_fail(request: LlmRequest, builder: MessageBuilder) -> LlmRequest | None:
    """Return a request with the address of the account; None: it can't be sent, and `builder` has ended with why."""
    try:
        return at_cloudflare(request)
    except CloudflareSettingsWrong as error:
        builder.refuse("bad_address", str(error))
        return None


def at_gateway_or_fail(request: LlmRequest, builder: MessageBuilder) -> LlmRequest | None:
    """Return a request as `at_cloudflare_or_fail` does, with the key where a gateway takes it."""
    located = at_cloudflare_or_fail(request, builder)
    return None if located is None else for_gateway(located)


def at_cloudflare(request: LlmRequest) -> LlmRequest:
    """Return a request with the address of the user's account and gateway.

    Raises:
        CloudflareSettingsWrong: A variable that the address names is not set, or can't be a part of it.
    """
    address = request.model["baseUrl"]
    variables = {**environment(), **request.variables}
    for name, what in _NAMES.items():
        place = f"{{{name}}}"
        if place not in address:
            continue
        value = variables.get(name, "").strip()
        if not value:
            raise CloudflareSettingsWrong(
                f"Cloudflare needs {what}: set {name} in the environment or in env of the provider's entry in auth.json"
            )
        if not _VALUE.fullmatch(value):
            raise CloudflareSettingsWrong(f"{name} must be {what}, not {value[:100]!r}")
        address = address.replace(place, value)
    return request._replace(model={**request.model, "baseUrl": address})


def for_gateway(request: LlmRequest) -> LlmRequest:
    """Return a request with the key in the header of a gateway; headers of the configuration take precedence."""
    if not request.api_key:
        return request
    key = {_GATEWAY_KEY: f"Bearer {request.api_key}"}
    return request._replace(api_key=None, headers=merged_headers(key, request.headers))
