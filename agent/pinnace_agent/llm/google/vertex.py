"""Provider: Gemini on Vertex AI, Google's cloud: the requests and answers of `google-generative-ai` at another address.

Decides the address. With an API key requests go to the address without a project. With a token they go to the user's
project in a location, and `config.credentials.google_credentials` has found the token. An address of the user's own
takes the place of both: what is behind it knows the project. Variables of the provider's entry in auth.json take
precedence over those of the environment.
"""

import re
from functools import partial
from typing import Final
from urllib.parse import quote, urlsplit

from pinnace_agent.core.json_access import compact_body
from pinnace_agent.core.surroundings import environment
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.google.location import LOCATION_VARIABLE, PROJECT_VARIABLES
from pinnace_agent.llm.google.provider import REFUSAL_FORM
from pinnace_agent.llm.google.request import request_body, request_headers
from pinnace_agent.llm.google.stream import ChunkReader
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange
from pinnace_agent.llm.transport.request import HttpRequest

_API_VERSION: Final = "v1"
_HOST: Final = "aiplatform.googleapis.com"
_ANYWHERE: Final = "global"
# Locations that are several regions have hosts of another form.
_MULTI_REGIONS: Final = frozenset({"us", "eu"})
# What the built-in address has in the place of the location.
_PLACEHOLDER: Final = "{location}"
# Paths that name a model completely.
_COMPLETE: Final = ("publishers/", "projects/", "models/")
_VERSION: Final = re.compile(r"v\d+(?:beta\d*)?")
# Google's rules: letters, digits and hyphens; old projects have the domain of a company in front of a colon.
_PROJECT: Final = re.compile(r"(?:[a-z0-9.-]+:)?[a-z0-9-]+")
_LOCATION: Final = re.compile(r"[a-z0-9-]+")


class VertexSettingsWrong(Exception):
    """The variables do not say where requests go; the text is for the user."""


class GoogleVertexProvider:
    """Speaks `google-vertex`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        texts = FailureTexts(secrets_of(request), REFUSAL_FORM)
        try:
            base_url = address(request)
        except VertexSettingsWrong as error:
            builder.refuse("bad_address", str(error))
            return
        # The exchange chooses the proxy and the certificates by it.
        request = request._replace(model={**request.model, "baseUrl": base_url})
        await exchange(request, builder, partial(http_request, request), ChunkReader(builder, texts), texts)


def http_request(request: LlmRequest) -> HttpRequest:
    """Put a request together whose model has the address that `address` returns."""
    url = f"{request.model['baseUrl']}/{quote(_path(request.model['id']), safe='/:@')}:streamGenerateContent?alt=sse"
    return HttpRequest(url=url, headers=request_headers(request), body=compact_body(request_body(request)))


def address(request: LlmRequest) -> str:
    """Return the address that the path of a model is added to.

    Raises:
        VertexSettingsWrong: It is that of a project, and a variable is missing or can't be one.
    """
    own = request.model["baseUrl"].strip().rstrip("/")
    if own and _PLACEHOLDER not in own:
        return own if _has_version(own) else f"{own}/{_API_VERSION}"
    if request.api_key:
        return f"https://{_HOST}/{_API_VERSION}"
    project = _variable(request, PROJECT_VARIABLES, _PROJECT, "the id of a project")
    location = _variable(request, (LOCATION_VARIABLE,), _LOCATION, "a location such as us-central1 or global")
    root = f"https://{_host(location)}/{_API_VERSION}"
    if request.model["id"].startswith("projects/"):
        return root
    return f"{root}/projects/{quote(project, safe=':')}/locations/{location}"


def _host(location: str) -> str:
    if location == _ANYWHERE:
        return _HOST
    return f"aiplatform.{location}.rep.googleapis.com" if location in _MULTI_REGIONS else f"{location}-{_HOST}"


def _has_version(url: str) -> bool:
    try:
        return any(_VERSION.fullmatch(part) for part in urlsplit(url).path.split("/"))
    except ValueError:  # the request will be refused with the address
        return False


def _path(model_id: str) -> str:
    """Return the path of a model: a name with a slash is that of another publisher."""
    if model_id.startswith(_COMPLETE):
        return model_id
    publisher, slash, name = model_id.partition("/")
    return f"publishers/{publisher}/models/{name}" if slash else f"publishers/google/models/{model_id}"


def _variable(request: LlmRequest, names: tuple[str, ...], form: re.Pattern[str], what: str) -> str:
    for variables in (request.variables, environment()):
        for name in names:
            if value := variables.get(name, "").strip():
                if not form.fullmatch(value):  # it would become a part of the address
                    raise VertexSettingsWrong(f"{name} must be {what}, not {value[:100]!r}")
                return value
    raise VertexSettingsWrong(f"Vertex AI needs {what}: set {' or '.join(names)}")
