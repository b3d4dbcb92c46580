"""One request for a response: address, headers, body.

Builds the request from its parts and the model's flags. Independent of how it is sent and of the answer.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from pinnace_agent.core.json_access import compact_body
from pinnace_agent.llm.openai_responses.compat import ResponsesCompat
from pinnace_agent.llm.openai_responses.messages import Wire, input_items
from pinnace_agent.llm.output_cap import output_cap
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.strict_schemas import strict_parameters
from pinnace_agent.llm.transport.request import HttpRequest, Retention, configured_fields, merged_headers, retention

# What OpenAI takes.
_MAX_CACHE_KEY_CHARS: Final = 64
# The API refuses less.
MIN_OUTPUT_TOKENS: Final = 16


def http_request(request: LlmRequest, compat: ResponsesCompat) -> HttpRequest:
    """Put a request together."""
    cache = retention()
    return HttpRequest(
        url=request.model["baseUrl"].rstrip("/") + "/responses",
        headers=request_headers(request, compat, cache),
        body=compact_body(request_body(request, compat, cache)),
    )


def request_body(request: LlmRequest, compat: ResponsesCompat, cache: Retention) -> Wire:
    """Return the body."""
    return body_with(request, compat, _cache_fields(request, compat, cache))


def body_with(request: LlmRequest, compat: ResponsesCompat, cache_fields: Wire) -> Wire:
    """Return the body: first the fields that every server knows, last those of the user's configuration.

    `cache_fields` are those that concern the provider's cache.
    """
    model = request.model
    items = input_items(request.system_prompt, request.messages, model, compat)
    # Nothing is stored at the provider: the session is here.
    body: Wire = {"model": request.deployment or model["id"], "input": items, "stream": True, "store": False}
    body |= cache_fields
    max_tokens = output_cap(request)
    if max_tokens is not None and compat.supports_max_output_tokens:
        body["max_output_tokens"] = max(MIN_OUTPUT_TOKENS, max_tokens)
    if request.tools:
        # Left out it would mean strict, and then every schema must be of OpenAI's kind.
        usual: Wire = {"strict": False} if compat.supports_strict_mode else {}
        body["tools"] = wire_tools(request.tools, compat, usual)
    body |= _thinking_fields(request, compat)
    return body | configured_fields(model, request.thinking_level)


def request_headers(request: LlmRequest, compat: ResponsesCompat, cache: Retention) -> dict[str, str]:
    """Return the headers; those that name the session serve its cache, and go with it."""
    headers = {"Content-Type": "application/json"}
    if request.api_key:
        headers["Authorization"] = f"Bearer {request.api_key}"
    if request.session_id and cache != "none":
        match compat.affinity:
            case "openai":
                headers["session-id"] = headers["x-client-request-id"] = request.session_id
            case "openai-nosession":
                headers["x-client-request-id"] = request.session_id
            case "openrouter":
                headers["x-session-id"] = request.session_id
            case _:
                assert_never(compat.affinity)
    return merged_headers(headers, request.headers)


def _cache_fields(request: LlmRequest, compat: ResponsesCompat, cache: Retention) -> Wire:
    is_explicit = compat.supports_explicit_cache_mode
    if cache == "none":
        # Explicit, and no mark is set: nothing is cached.
        return {"prompt_cache_options": {"mode": "explicit"}} if is_explicit else {}
    fields = cache_key(request)
    if cache == "long" and compat.supports_long_cache_retention:
        fields |= {"prompt_cache_options": {"ttl": "12h"}} if is_explicit else {"prompt_cache_retention": "24h"}
    return fields


def cache_key(request: LlmRequest) -> Wire:
    """Return the field that names the conversation for the cache; empty if it has no name."""
    return {"prompt_cache_key": request.session_id[:_MAX_CACHE_KEY_CHARS]} if request.session_id else {}


def wire_tools(tools: Sequence[ToolSpec], compat: ResponsesCompat, usual: Wire) -> list[Wire]:
    """Return the descriptions of tools.

    Args:
        tools: They.
        compat: Whether calls of those that prefer it are held to their schemas.
        usual: The field that says for all others whether they are.
    """
    wire: list[Wire] = []
    for tool in tools:
        strict = strict_parameters(tool) if compat.holds_calls_to_schemas else None
        parameters = tool.parameters if strict is None else strict
        described: Wire = {"name": tool.name, "description": tool.description, "parameters": parameters}
        wire.append({"type": "function", **described, **(usual if strict is None else {"strict": True})})
    return wire


def _thinking_fields(request: LlmRequest, compat: ResponsesCompat) -> Wire:
    """Request a thinking level, and encrypted thoughts, so that they can be sent back."""
    model, level = request.model, request.thinking_level
    if not model["reasoning"]:
        return {}
    names = model.get("thinkingLevelMap") or {}
    word = names.get(level, "none" if level == "off" else level)
    if level == "off":
        if model["provider"] == "github-copilot":  # its models do not think unless they are asked to
            return {}
        # Null: thinking can't be turned off, and the server would refuse it.
        return {"reasoning": {"effort": word}} if word and compat.supports_reasoning_effort else {}
    fields: Wire = {"include": ["reasoning.encrypted_content"]}
    if compat.supports_reasoning_effort:
        fields["reasoning"] = {**({"effort": word} if word else {}), "summary": "auto"}
    return fields
