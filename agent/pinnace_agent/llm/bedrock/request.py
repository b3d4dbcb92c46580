"""One request to Bedrock's ConverseStream: address, headers, body.

Builds the request from its parts; the signature is added when it is sent. Independent of keys and of the answer.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.core.json_access import compact_body
from pinnace_agent.core.surroundings import environment
from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.bedrock.endpoint import Endpoint, stream_url
from pinnace_agent.llm.bedrock.family import Family, family_of
from pinnace_agent.llm.bedrock.messages import Wire, called_tools, mark_end, wire_messages
from pinnace_agent.llm.bedrock.thinking import thinking_of
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.llm.strict_schemas import strict_parameters
from pinnace_agent.llm.transport.request import (
    HttpRequest,
    Retention,
    Signer,
    configured_fields,
    merged_headers,
    retention,
)

# The longest name of a tool that the API accepts.
_MAX_NAME_CHARS: Final = 64
_FORCE_CACHE: Final = "AWS_BEDROCK_FORCE_CACHE"
# Fields of a configuration that every model has here; all others are the model's own.
_INFERENCE: Final = {
    "temperature": "temperature",
    "topP": "topP",
    "top_p": "topP",
    "maxTokens": "maxTokens",
    "stopSequences": "stopSequences",
}
_GOVERNMENT_IDS: Final = ("us-gov.", "arn:aws-us-gov:")


def http_request(request: LlmRequest, endpoint: Endpoint, sign: Signer | None) -> HttpRequest:
    """Put a request together. Without `sign` it is authenticated by its headers, or not at all."""
    return HttpRequest(
        url=stream_url(endpoint.base_url, request.model["id"]),
        headers=_headers(request),
        body=compact_body(request_body(request, endpoint)),
        sign=sign,
    )


def tool_names(request: LlmRequest) -> ToolNames:
    """Return the wire names of the request's tools."""
    return ToolNames([tool.name for tool in request.tools], max_chars=_MAX_NAME_CHARS)


def request_body(request: LlmRequest, endpoint: Endpoint) -> Wire:
    """Return the body; fields of the user's configuration are added last."""
    model, family, names = request.model, family_of(request.model), tool_names(request)
    marker = _cache_point(family, retention())
    messages = wire_messages(request.messages, model, family, names)
    tools = _tools(request, names, messages)
    if marker is not None:
        mark_end(messages, marker)
    body: Wire = {"messages": messages}
    if request.system_prompt.strip():
        body["system"] = [{"text": request.system_prompt}, *filter(None, [marker])]
    if tools:
        body["toolConfig"] = {"tools": tools}
    is_government = endpoint.is_government or model["id"].lower().startswith(_GOVERNMENT_IDS)
    thinking = thinking_of(request, family, is_government=is_government)
    configured = configured_fields(model, request.thinking_level)
    inference: Wire = {} if thinking.max_tokens is None else {"maxTokens": thinking.max_tokens}
    inference |= {_INFERENCE[name]: value for name, value in configured.items() if name in _INFERENCE}
    if family.is_claude and thinking.fields:
        inference.pop("temperature", None)  # a model that thinks refuses one
    own = thinking.fields | {name: value for name, value in configured.items() if name not in _INFERENCE}
    if inference:
        body["inferenceConfig"] = inference
    if own:
        body["additionalModelRequestFields"] = own
    return body


def _headers(request: LlmRequest) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/vnd.amazon.eventstream"}
    if request.api_key:
        headers["Authorization"] = f"Bearer {request.api_key}"
    return merged_headers(headers, request.headers)


def _cache_point(family: Family, cache: Retention) -> Wire | None:
    """Return what marks the end of a cached part; None: nothing is cached, or the model does so by itself."""
    if cache == "none" or not (family.caches or environment().get(_FORCE_CACHE) == "1"):
        return None
    return {"cachePoint": {"type": "default", **({"ttl": "1h"} if cache == "long" else {})}}


def _tools(request: LlmRequest, names: ToolNames, messages: list[Wire]) -> list[Wire]:
    """Return the tools. A history with calls is refused without any, so that those are named then."""
    if request.tools:
        takes_strict = (request.model.get("compat") or {}).get("supportsStrictMode") is True
        strict = [strict_parameters(tool) if takes_strict else None for tool in request.tools]
        return [
            _tool(names.sent(tool.name), tool.description, tool.parameters if made is None else made, made is not None)
            for tool, made in zip(request.tools, strict, strict=True)
        ]
    return [_tool(name, "", {"type": "object"}, is_strict=False) for name in called_tools(messages)]


def _tool(name: str, description: str, parameters: Mapping[str, object], is_strict: bool) -> Wire:
    # An empty description is refused.
    text = {"description": description} if description.strip() else {}
    strict = {"strict": True} if is_strict else {}
    return {"toolSpec": {"name": name, **text, "inputSchema": {"json": parameters}, **strict}}
