"""One request for a generated content: address, headers, body.

Builds the request. Independent of how it is sent and of the answer.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from pinnace_agent.core.json_access import as_list, as_object, compact_body
from pinnace_agent.llm.google.family import Family, family_of
from pinnace_agent.llm.google.messages import Wire, wire_contents
from pinnace_agent.llm.output_cap import output_cap
from pinnace_agent.llm.request import ANSWER_TOKENS, THINKING_BUDGETS, LlmRequest, ToolSpec
from pinnace_agent.llm.strict_schemas import strict_parameters
from pinnace_agent.llm.transport.request import HttpRequest, configured_fields, merged_headers
from pinnace_spec.records.messages import THINKING_LEVELS, Model, ThinkingLevel

# Collections of models; an id that names none is of the first.
_COLLECTIONS: Final = ("models/", "tunedModels/")
# Keywords whose members are schemas, under names that are not keywords.
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
# Keywords whose values are data, not schemas.
_DATA_KEYWORDS: Final = frozenset({"const", "default", "enum", "example", "examples"})


def http_request(request: LlmRequest) -> HttpRequest:
    """Put a request together."""
    return HttpRequest(url=_url(request), headers=request_headers(request), body=compact_body(request_body(request)))


def request_body(request: LlmRequest) -> Wire:
    """Return the body; fields of the user's configuration are added to the generation config, last."""
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
    generation |= configured_fields(model, request.thinking_level)
    if generation:
        body["generationConfig"] = generation
    if request.tools:
        strict = [strict_parameters(tool) if family.holds_calls_to_schemas else None for tool in request.tools]
        body["tools"] = _tools(request.tools, strict)
        if any(made is not None for made in strict):
            body["toolConfig"] = {"functionCallingConfig": {"mode": "VALIDATED"}}
    return body


def plain_schema(schema: Mapping[str, object]) -> Wire:
    """Return a JSON schema with the keywords that the server knows: a constant becomes an enumeration of one."""
    return {key: item for name, value in schema.items() for key, item in _keyword(name, value).items()}


def _url(request: LlmRequest) -> str:
    model_id = request.model["id"]
    path = model_id if model_id.startswith(_COLLECTIONS) else f"models/{model_id}"
    base = request.model["baseUrl"].rstrip("/")
    return f"{base}/{quote(path, safe='/:@')}:streamGenerateContent?alt=sse"


def request_headers(request: LlmRequest) -> dict[str, str]:
    """Return the headers: with the key, if there is one, and those of the configuration."""
    headers = {"Content-Type": "application/json"}
    if request.api_key:
        headers["x-goog-api-key"] = request.api_key
    return merged_headers(headers, request.headers)


def _tools(tools: Sequence[ToolSpec], strict: Sequence[Mapping[str, object] | None]) -> list[Wire]:
    declarations = [
        {
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": plain_schema(tool.parameters if made is None else made),
        }
        for tool, made in zip(tools, strict, strict=True)
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


def thinking_config(request: LlmRequest, family: Family, max_tokens: int | None) -> dict[str, object] | None:
    """Return the thinking config; a budget, where one is sent, leaves tokens for the answer."""
    model, level = request.model, request.thinking_level
    if not model["reasoning"]:
        return None
    shown: dict[str, object] = {} if level == "off" else {"includeThoughts": True}
    if family.levels is not None:
        return {**shown, "thinkingLevel": _word(model, level, family.levels)}
    return {**shown, "thinkingBudget": _budget(request, family, max_tokens)}


def _word(model: Model, level: ThinkingLevel, defaults: Mapping[ThinkingLevel, str]) -> str:
    """Return the model's word for a level; for `off` without a word, its lowest level."""
    names = model.get("thinkingLevelMap") or {}
    name = names.get(level)
    if level == "off" and not isinstance(name, str):
        level = _lowest(names)
        name = names.get(level)
    return (name if isinstance(name, str) and name else defaults[level]).upper()


def _lowest(names: Mapping[str, object]) -> ThinkingLevel:
    """Return the lowest level above off: an unnamed one has the word of its kind, a null one does not exist."""
    for level in THINKING_LEVELS[1:]:
        if level not in names or names[level] is not None:
            return level
    return "off"


def _budget(request: LlmRequest, family: Family, max_tokens: int | None) -> int:
    level = request.thinking_level
    budget = family.budgets[level]
    wanted = request.thinking_budgets[level]
    if level != "off" and wanted != THINKING_BUDGETS[level]:  # the user's own number
        budget = wanted
    if max_tokens is None or budget <= 0:
        return budget
    # Thinking counts as output. The API refuses less than its minimum.
    room = max(max_tokens - ANSWER_TOKENS, family.budgets["minimal"])
    return min(budget, room) if room > 0 else budget
