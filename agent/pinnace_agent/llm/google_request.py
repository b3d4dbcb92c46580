"""One request for a generated content: address, headers, body.

Decides what the server is asked. Must not know how it is sent, nor what comes back.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from pinnace_agent.llm.base import LlmRequest, ToolSpec
from pinnace_agent.llm.google_family import family_of
from pinnace_agent.llm.google_messages import Wire, wire_contents
from pinnace_agent.llm.google_thinking import thinking_config
from pinnace_agent.llm.http_request import HttpRequest, merged_headers
from pinnace_agent.llm.json_edge import as_list, as_object, compact_body
from pinnace_agent.llm.output_cap import output_cap

# Collections of models; an id that names none is of the first.
_COLLECTIONS: Final = ("models/", "tunedModels/")
# Keywords whose members are schemas, under names that are no keywords.
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
# Keywords whose values are data, whatever they look like.
_DATA_KEYWORDS: Final = frozenset({"const", "default", "enum", "example", "examples"})


def http_request(request: LlmRequest) -> HttpRequest:
    """Put a request together."""
    return HttpRequest(url=_url(request), headers=_headers(request), body=compact_body(request_body(request)))


def request_body(request: LlmRequest) -> Wire:
    """Return the body; what the user's configuration adds goes to how the answer is generated, last."""
    model = request.model
    family = family_of(model["id"])
    max_tokens = output_cap(request)
    body: Wire = {"contents": wire_contents(request.messages, model, family)}
    if request.system_prompt:
        body["systemInstruction"] = {"parts": [{"text": request.system_prompt}]}
    generation: Wire = {}
    if max_tokens is not None:
        generation["maxOutputTokens"] = max_tokens
    thinking = thinking_config(request, family, max_tokens)
    if thinking is not None:
        generation["thinkingConfig"] = thinking
    generation |= model.get("samplingParams") or {}
    by_level = model.get("samplingParamsByThinkingLevel") or {}
    generation |= as_object(by_level.get(request.thinking_level)) or {}
    if generation:
        body["generationConfig"] = generation
    if request.tools:
        body["tools"] = _tools(request.tools)
    return body


def plain_schema(schema: Mapping[str, object]) -> Wire:
    """Return a JSON schema in the words that the server knows: a constant is an enumeration of one."""
    return {key: item for name, value in schema.items() for key, item in _keyword(name, value).items()}


def _url(request: LlmRequest) -> str:
    model_id = request.model["id"]
    path = model_id if model_id.startswith(_COLLECTIONS) else f"models/{model_id}"
    base = request.model["baseUrl"].rstrip("/")
    return f"{base}/{quote(path, safe='/:@')}:streamGenerateContent?alt=sse"


def _headers(request: LlmRequest) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    if request.api_key:
        headers["x-goog-api-key"] = request.api_key
    return merged_headers(headers, request.headers)


def _tools(tools: Sequence[ToolSpec]) -> list[Wire]:
    declarations = [
        {
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": plain_schema(tool.parameters),
        }
        for tool in tools
    ]
    return [{"functionDeclarations": declarations}]


def _keyword(name: str, value: object) -> Wire:
    if name == "const" and isinstance(value, str | int | float) and not isinstance(value, bool):
        return {"enum": [value]}
    if name in _NAMED_SCHEMAS and (members := as_object(value)) is not None:
        return {name: {key: _plain(member) for key, member in members.items()}}
    return {name: value if name in _DATA_KEYWORDS else _plain(value)}


def _plain(value: object) -> object:
    if (members := as_object(value)) is not None:
        return plain_schema(members)
    if (items := as_list(value)) is not None:
        return [_plain(item) for item in items]
    return value
