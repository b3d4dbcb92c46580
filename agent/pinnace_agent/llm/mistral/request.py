"""One request to Mistral: address, headers, body.

Builds the request from its parts. Independent of how it is sent and of the answer.
"""

from collections.abc import Sequence
from typing import Final

from pinnace_agent.core.json_access import compact_body
from pinnace_agent.llm.mistral.messages import Wire, wire_messages
from pinnace_agent.llm.output_cap import output_cap
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.strict_schemas import strict_parameters
from pinnace_agent.llm.transport.request import HttpRequest, Retention, configured_fields, merged_headers, retention

_AFFINITY: Final = "x-affinity"
# For a level that the model has no word for: its models know one effort, or none.
_USUAL_EFFORT: Final = "high"


def http_request(request: LlmRequest) -> HttpRequest:
    """Put a request together. The model's address is that of the server, without the version of the API."""
    cache = retention()
    return HttpRequest(
        url=request.model["baseUrl"].rstrip("/") + "/v1/chat/completions",
        headers=_headers(request, cache),
        body=compact_body(request_body(request, cache)),
    )


def request_body(request: LlmRequest, cache: Retention) -> Wire:
    """Return the body: first the fields that Mistral knows, last those of the user's configuration."""
    model = request.model
    messages = wire_messages(request.system_prompt, request.messages, model)
    body: Wire = {"model": model["id"], "messages": messages, "stream": True}
    max_tokens = output_cap(request)
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    if request.tools:
        body["tools"] = _tools(request.tools)
    body |= thinking_fields(request)
    if request.session_id and cache != "none":
        body["prompt_cache_key"] = request.session_id
    return body | configured_fields(model, request.thinking_level)


def thinking_fields(request: LlmRequest) -> Wire:
    """Return the fields for the request's level: an effort, or for models without words of levels a mode."""
    model, level = request.model, request.thinking_level
    names = model.get("thinkingLevelMap")
    if not model["reasoning"]:
        return {}
    if names is None:
        return {} if level == "off" else {"prompt_mode": "reasoning"}
    effort = names.get("off") if level == "off" else names.get(level) or _USUAL_EFFORT
    return {"reasoning_effort": effort} if effort else {}


def _headers(request: LlmRequest, cache: Retention) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if request.api_key:
        headers["Authorization"] = f"Bearer {request.api_key}"
    if request.session_id and cache != "none":
        # The conversation goes to the machine that has its cache.
        headers[_AFFINITY] = request.session_id
    return merged_headers(headers, request.headers)


def _tools(tools: Sequence[ToolSpec]) -> list[Wire]:
    wire: list[Wire] = []
    for tool in tools:
        strict = strict_parameters(tool)
        parameters = tool.parameters if strict is None else strict
        described: Wire = {"name": tool.name, "description": tool.description, "parameters": parameters}
        wire.append({"type": "function", "function": {**described, "strict": strict is not None}})
    return wire
