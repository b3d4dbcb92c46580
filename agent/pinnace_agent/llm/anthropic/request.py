"""One request to Anthropic's messages API: address, headers, body.

Builds the request from its parts and the model's flags. Independent of how it is sent and of the answer.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pinnace_agent.core.json_access import as_array, as_object, compact_body
from pinnace_agent.llm.anthropic.compat import Compat
from pinnace_agent.llm.anthropic.messages import Wire, effort_marker, mark_ends, wire_messages
from pinnace_agent.llm.anthropic.thinking import Thinking, thinking_of
from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.strict_schemas import strict_parameters
from pinnace_agent.llm.transport.request import HttpRequest, Retention, configured_fields, merged_headers, retention

_VERSION: Final = "2023-06-01"
_BETAS: Final = "anthropic-beta"
_BETA_FINE_GRAINED: Final = "fine-grained-tool-streaming-2025-05-14"
_BETA_INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
_BETA_FALLBACKS: Final = "server-side-fallback-2026-07-01"
_BETAS_OF_EFFORTS: Final = ("mid-conversation-output-config-2026-07-01", "thinking-binding-controls-2026-08-01")

# The prefix of subscription tokens. They are accepted only with these betas, and from Claude Code.
_LOGIN_MARK: Final = "sk-ant-oat"
_LOGIN_BETAS: Final = ("claude-code-20250219", "oauth-2025-04-20")
_LOGIN_IDENTITY: Final = "You are Claude Code, Anthropic's official CLI for Claude."

# The API takes no alternatives at the top of a tool's schema.
_NOT_AT_THE_TOP: Final = ("oneOf", "anyOf", "allOf")
# Nor these in a strict schema, but for some values.
_NOT_IF_STRICT: Final = frozenset(
    """minimum maximum exclusiveMinimum exclusiveMaximum multipleOf maxItems uniqueItems minContains maxContains
    minProperties maxProperties""".split()
)
_STRICT_FORMATS: Final = frozenset("date-time time date duration email hostname uri ipv4 ipv6 uuid".split())


def http_request(request: LlmRequest, compat: Compat) -> HttpRequest:
    """Put a request together."""
    cache, thinking = retention(), thinking_of(request, compat)
    return HttpRequest(
        url=request.model["baseUrl"].rstrip("/") + "/v1/messages",
        headers=request_headers(request, compat, cache, thinking),
        body=compact_body(request_body(request, compat, cache, thinking)),
    )


def tool_names(request: LlmRequest) -> ToolNames:
    """Return the wire names of the request's tools."""
    return ToolNames([tool.name for tool in request.tools], is_login=_is_login(request))


def request_body(request: LlmRequest, compat: Compat, cache: Retention, thinking: Thinking) -> Wire:
    """Return the body: first the fields that every server knows, last those of the user's configuration."""
    model, names = request.model, tool_names(request)
    messages = wire_messages(request.messages, model, compat, names, has_efforts=thinking.effort is not None)
    system, tools = _system(request), _tools(request.tools, compat, names)
    if cache != "none":
        marker: Wire = {"type": "ephemeral"}
        if cache == "long" and compat.supports_long_cache_retention:
            marker["ttl"] = "1h"
        for block in (*system[-1:], *(tools[-1:] if compat.supports_cache_control_on_tools else ())):
            block["cache_control"] = marker
        mark_ends(messages, marker)
    if thinking.effort is not None:
        messages.append(effort_marker(thinking.effort))
    body: Wire = {"model": model["id"], "messages": messages, "max_tokens": thinking.max_tokens, "stream": True}
    if system:
        body["system"] = system
    if tools:
        body["tools"] = tools
    if compat.fallbacks:
        body["fallbacks"] = [{"model": name} for name in compat.fallbacks]
    return body | thinking.fields | _sampling(request, compat, thinking)


def request_headers(request: LlmRequest, compat: Compat, cache: Retention, thinking: Thinking) -> dict[str, str]:
    """Return the headers; configured betas are added, other configured headers take precedence."""
    own = {"Content-Type": "application/json", "Accept": "application/json", "anthropic-version": _VERSION}
    own |= _authentication(request, compat)
    if compat.send_session_affinity_headers and cache != "none" and request.session_id:
        own["x-session-affinity"] = request.session_id
    configured = dict(request.headers)
    betas = [*_LOGIN_BETAS] if _is_login(request) else []
    if request.tools and not compat.supports_eager_tool_input_streaming:
        betas.append(_BETA_FINE_GRAINED)
    if thinking.needs_interleaving:
        betas.append(_BETA_INTERLEAVED)
    if compat.fallbacks:
        betas.append(_BETA_FALLBACKS)
    if compat.supports_mid_convo_effort:
        betas += _BETAS_OF_EFFORTS
    for name in request.headers:
        if name.lower() == _BETAS:
            betas += [beta.strip() for beta in configured.pop(name).split(",")]
    if joined := ",".join(dict.fromkeys(filter(None, betas))):
        own[_BETAS] = joined
    return merged_headers(own, configured)


def _authentication(request: LlmRequest, compat: Compat) -> dict[str, str]:
    configured = {name.lower() for name in request.headers}
    if not request.api_key or configured & {"authorization", "x-api-key"}:
        return {}
    if compat.takes_bearer or _LOGIN_MARK in request.api_key:
        return {"Authorization": f"Bearer {request.api_key}"}
    return {"x-api-key": request.api_key}


def _is_login(request: LlmRequest) -> bool:
    """Return whether the request uses a subscription, by the token that is sent."""
    for name, value in request.headers.items():
        if name.lower() == "authorization":
            return _LOGIN_MARK in value
    return _LOGIN_MARK in (request.api_key or "")


def _system(request: LlmRequest) -> list[Wire]:
    texts = [_LOGIN_IDENTITY] if _is_login(request) else []
    if request.system_prompt.strip():
        texts.append(request.system_prompt)
    return [{"type": "text", "text": text} for text in texts]


def _tools(tools: Sequence[ToolSpec], compat: Compat, names: ToolNames) -> list[Wire]:
    eager: Wire = {"eager_input_streaming": True} if compat.supports_eager_tool_input_streaming else {}
    wire: list[Wire] = []
    for tool in tools:
        strict = strict_parameters(tool, _is_refused_if_strict) if compat.supports_strict_tools else None
        wire.append(
            {
                "name": names.sent(tool.name),
                "description": tool.description,
                "input_schema": _schema(tool.parameters if strict is None else strict),
                **({} if strict is None else {"strict": True}),
                **eager,
            }
        )
    return wire


def _is_refused_if_strict(keyword: str, value: object) -> bool:
    """Return whether the API takes no strict schema with this keyword."""
    match keyword:
        case "minItems":
            return value not in (0, 1)
        case "format":
            return not isinstance(value, str) or value not in _STRICT_FORMATS
        case _:
            return keyword in _NOT_IF_STRICT


def _schema(parameters: Mapping[str, object]) -> Wire:
    """Return a schema that the API accepts; definitions and the like are kept: parts may refer to them."""
    kept = {name: value for name, value in parameters.items() if name not in _NOT_AT_THE_TOP}
    return {
        **kept,
        "type": "object",
        "properties": as_object(parameters.get("properties")) or {},
        "required": as_array(parameters.get("required")),
    }


def _sampling(request: LlmRequest, compat: Compat, thinking: Thinking) -> Wire:
    """Return the fields of the user's configuration, without a temperature if the model refuses one."""
    fields = configured_fields(request.model, request.thinking_level)
    if thinking.is_on or not compat.supports_temperature or compat.supports_mid_convo_effort:
        fields.pop("temperature", None)
    return fields
