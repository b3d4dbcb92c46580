"""Azure: where a resource answers, and by which names it knows its models.

Decides the address, the deployment and the version of the API from the variables of the user. A resource has an address
of its own, so no built-in model has one. Variables of the provider's entry in auth.json take precedence over those of
the environment. Independent of any API: the Responses and the chat completions of Azure are both found here.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pinnace_agent.core.surroundings import environment
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest

ADDRESS_VARIABLE: Final = "AZURE_OPENAI_BASE_URL"
RESOURCE_VARIABLE: Final = "AZURE_OPENAI_RESOURCE_NAME"
VERSION_VARIABLE: Final = "AZURE_OPENAI_API_VERSION"
DEPLOYMENTS_VARIABLE: Final = "AZURE_OPENAI_DEPLOYMENT_NAME_MAP"

DEFAULT_VERSION: Final = "v1"

_HOSTS: Final = (".openai.azure.com", ".cognitiveservices.azure.com", ".ai.azure.com")
_RESOURCE: Final = re.compile(r"[A-Za-z0-9-]+")
_PATH: Final = "/openai/v1"
# What the portal shows as the address of a resource, beside the one that requests go to.
_SHOWN_PATHS: Final = ("", "/openai", "/openai/v1/responses")


class AzureSettingsWrong(Exception):
    """The variables do not say where the resource is; the text is for the user."""


def at_azure(request: LlmRequest) -> LlmRequest:
    """Return a request with the address of the user's resource, and the name that the model has there.

    Raises:
        AzureSettingsWrong: There is no address, or it is none.
    """
    model = request.model
    return request._replace(
        model={**model, "baseUrl": base_url(request)},
        deployment=_deployments(_variable(request, DEPLOYMENTS_VARIABLE)).names.get(model["id"]),
    )


def at_azure_or_fail(request: LlmRequest, builder: MessageBuilder) -> LlmRequest | None:
    """Return a request as `at_azure` does; None: it can't be sent, and `builder` has ended with the reason."""
    try:
        return at_azure(request)
    except AzureSettingsWrong as error:
        builder.refuse("bad_address", str(error))
        return None


def base_url(request: LlmRequest) -> str:
    """Return the address to which paths of the API are added.

    Raises:
        AzureSettingsWrong: There is no address, or it is none.
    """
    if address := _variable(request, ADDRESS_VARIABLE).strip():
        return _normal_address(address, ADDRESS_VARIABLE)
    if name := _variable(request, RESOURCE_VARIABLE).strip():
        if not _RESOURCE.fullmatch(name):
            raise AzureSettingsWrong(
                f"{RESOURCE_VARIABLE} must be the name of a resource: NAME in https://NAME.openai.azure.com"
            )
        return f"https://{name}.openai.azure.com{_PATH}"
    if address := request.model["baseUrl"].strip():
        return _normal_address(address, "baseUrl")
    raise AzureSettingsWrong(
        f"The address of the Azure resource is missing: set {ADDRESS_VARIABLE}, or {RESOURCE_VARIABLE}, in the "
        "environment or in env of the provider's entry in auth.json; or baseUrl in models.json"
    )


def api_version(request: LlmRequest) -> str:
    """Return the version of the API that a request names."""
    return _variable(request, VERSION_VARIABLE) or DEFAULT_VERSION


def _variable(request: LlmRequest, name: str) -> str:
    """Return a variable of the provider; empty if it is not set."""
    return request.variables.get(name) or environment().get(name) or ""


def _normal_address(address: str, source: str) -> str:
    """Return the address of the API of a resource, also where the address of the resource itself is given."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    if not host or parts.scheme not in {"http", "https"}:
        raise AzureSettingsWrong(
            f"{source} must be an http or https address, such as https://NAME.openai.azure.com{_PATH}"
        )
    path = parts.path.rstrip("/")
    if host.endswith(_HOSTS) and path in _SHOWN_PATHS:
        return urlunsplit(parts._replace(path=_PATH, query="", fragment=""))
    return urlunsplit(parts._replace(path=path))


class _Deployments(NamedTuple):
    """What `AZURE_OPENAI_DEPLOYMENT_NAME_MAP` says."""

    names: Mapping[str, str]
    """The deployments, by the ids of models."""
    problems: Sequence[str]
    """What is no pair, for the user; it is passed over."""


def deployment_problems(variables: Mapping[str, str]) -> Sequence[str]:
    """Return what of the variable that names deployments is not used, and why, for the user."""
    return _deployments(variables.get(DEPLOYMENTS_VARIABLE, "")).problems


@cache
def _deployments(value: str) -> _Deployments:
    """Read `MODEL=DEPLOYMENT,…`."""
    names: dict[str, str] = {}
    problems: list[str] = []
    for pair in value.split(","):
        model_id, _, deployment = (part.strip() for part in pair.partition("="))
        if model_id and deployment:
            names[model_id] = deployment
        elif pair.strip():
            problems.append(f"{DEPLOYMENTS_VARIABLE}: {pair.strip()[:100]!r} is not used: it must be MODEL=DEPLOYMENT")
    return _Deployments(names, problems)
