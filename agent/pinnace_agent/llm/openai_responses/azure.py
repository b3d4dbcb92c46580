"""Provider: the OpenAI Responses of Azure.

A request is one to OpenAI (`request`) except for its address, which carries the version of the API, the header of the
key, the name of the deployment in place of the model's, and the cache: of it Azure knows only the key. The answer is
read as OpenAI's (`stream`): encrypted thoughts may come only in the finished response.
"""

from functools import partial
from urllib.parse import quote, urlsplit, urlunsplit

from pinnace_agent.core.json_access import compact_body
from pinnace_agent.llm.azure import api_version, at_azure_or_fail
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.openai_responses.compat import ResponsesCompat, compat_of
from pinnace_agent.llm.openai_responses.messages import Wire
from pinnace_agent.llm.openai_responses.request import body_with, cache_key
from pinnace_agent.llm.openai_responses.stream import ResponseReader
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange
from pinnace_agent.llm.transport.request import HttpRequest, merged_headers


class AzureOpenAIResponsesProvider:
    """Speaks `azure-openai-responses`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        located = at_azure_or_fail(request, builder)
        if located is None:
            return
        request = located
        texts = FailureTexts(secrets_of(request), RefusalForm("Azure OpenAI API error ({status}): "))
        make = partial(http_request, request, compat_of(request.model))
        await exchange(request, builder, make, ResponseReader(builder, texts), texts)


def http_request(request: LlmRequest, compat: ResponsesCompat) -> HttpRequest:
    """Put a request together, whose model has the address of the resource (`at_azure_or_fail`)."""
    base = urlsplit(request.model["baseUrl"])
    version = f"api-version={quote(api_version(request), safe='')}"
    query = f"{base.query}&{version}" if base.query else version
    headers = {"Content-Type": "application/json"}
    if request.api_key:
        headers["api-key"] = request.api_key
    return HttpRequest(
        url=urlunsplit(base._replace(path=f"{base.path}/responses", query=query, fragment="")),
        headers=merged_headers(headers, request.headers),
        body=compact_body(request_body(request, compat)),
    )


def request_body(request: LlmRequest, compat: ResponsesCompat) -> Wire:
    """Return the body."""
    is_cached = (request.model.get("compat") or {}).get("promptCacheKeyMode") != "disabled"
    return body_with(request, compat, cache_key(request) if is_cached else {})
