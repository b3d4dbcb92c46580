"""One request for a chat completion: address, headers, body.

Builds the request from its parts and the model's flags. Independent of how it is sent and of the answer.
"""

from collections.abc import Sequence
from typing import Final

from pinnace_agent.core.json_access import as_array, as_object, compact_body
from pinnace_agent.llm.openai_chat.compat import Compat
from pinnace_agent.llm.openai_chat.messages import Wire, wire_messages
from pinnace_agent.llm.openai_chat.thinking import thinking_fields
from pinnace_agent.llm.output_cap import output_cap
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.strict_schemas import strict_parameters
from pinnace_agent.llm.transport.request import HttpRequest, Retention, configured_fields, merged_headers, retention

# What OpenAI takes.
_MAX_CACHE_KEY_CHARS: Final = 64
# How long NVIDIA may work on a request before it answers without a result, which would have to be polled for.
_NVIDIA_WAIT_S: Final = "3600"


def http_request(request: LlmRequest, compat: Compat) -> HttpRequest:
    """Put a request together."""
    return HttpRequest(
        url=request.model["baseUrl"].rstrip("/") + "/chat/completions",
        headers=_headers(request, compat),
        body=compact_body(request_body(request, compat, retention())),
    )


def request_body(request: LlmRequest, compat: Compat, cache: Retention) -> Wire:
    """Return the body: first the fields that every server knows, last those of the user's configuration."""
    model = request.model
    max_tokens = output_cap(request)
    messages = wire_messages(request.system_prompt, request.messages, model, compat)
    tools = _tools(request.tools, compat)
    if compat.has_cache_markers and cache != "none":
        _mark(messages, tools, cache)
    body: Wire = {"model": request.deployment or model["id"], "messages": messages, "stream": True}
    if compat.supports_usage_in_streaming:
        body["stream_options"] = {"include_usage": True}
    if compat.supports_store:
        body["store"] = False
    body |= _cache_fields(request, compat, cache)
    if max_tokens is not None:
        body[compat.max_tokens_field] = max_tokens
    has_history = any(message["role"] == "toolResult" for message in request.messages)
    if tools or (compat.requires_tools_with_tool_history and has_history):
        body["tools"] = tools
    body |= thinking_fields(request, compat, max_tokens)
    body |= compat.extra_body
    return body | configured_fields(model, request.thinking_level)


def _headers(request: LlmRequest, compat: Compat) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    if request.api_key:
        headers["Authorization"] = f"Bearer {request.api_key}"
    if request.model["provider"] == "nvidia":
        headers["NVCF-POLL-SECONDS"] = _NVIDIA_WAIT_S
    match compat.affinity if request.session_id else None:
        case "openrouter":
            headers["x-session-id"] = request.session_id
        case "openai" | "openai-nosession":
            if compat.affinity == "openai":
                headers["session_id"] = request.session_id
            headers["x-client-request-id"] = request.session_id
            headers["x-session-affinity"] = request.session_id
        case None:
            pass
    return merged_headers(headers, request.headers)


def _cache_fields(request: LlmRequest, compat: Compat, cache: Retention) -> Wire:
    if cache == "none" or compat.sends_cache_key is False:
        return {}
    fields: Wire = {}
    is_long = cache == "long" and compat.supports_long_cache_retention
    if (compat.sends_cache_key or compat.is_official or is_long) and request.session_id:
        fields["prompt_cache_key"] = request.session_id[:_MAX_CACHE_KEY_CHARS]
    if is_long:
        fields["prompt_cache_retention"] = "24h"
    return fields


def _tools(tools: Sequence[ToolSpec], compat: Compat) -> list[Wire]:
    wire: list[Wire] = []
    for tool in tools:
        strict = strict_parameters(tool) if compat.supports_strict_mode else None
        function: Wire = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters if strict is None else strict,
        }
        if compat.supports_strict_mode:
            function["strict"] = strict is not None
        wire.append({"type": "function", "function": function})
    return wire


def _mark(messages: Sequence[Wire], tools: Sequence[Wire], cache: Retention) -> None:
    """Mark where the cached beginning may end: system prompt, last tool, last text.

    And the last text of the request before, whose end the mark behind an answer with many calls would not find.
    """
    marker: Wire = {"type": "ephemeral", **({"ttl": "1h"} if cache == "long" else {})}
    answer = next((number for number in range(len(messages) - 1, 0, -1) if messages[number]["role"] == "assistant"), 0)
    for number in sorted({0, answer - 1, len(messages) - 1} - {-1}):
        _mark_text(messages[number], marker)
    for tool in tools[-1:]:
        tool["cache_control"] = marker


def _mark_text(message: Wire, marker: Wire) -> None:
    content = message.get("content")
    if isinstance(content, str):
        message["content"] = content = [{"type": "text", "text": content}]
    for part in reversed(as_array(content)):
        block = as_object(part)
        if block is not None and block.get("type") == "text":
            block["cache_control"] = marker
            return
