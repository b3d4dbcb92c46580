"""models.json: the user's providers and models, as data.

A file that does not follow the schema is not used at all; a provider that makes no sense is left out alone.
Either is told as a diagnostic, and the process lives on. What is in the file stays in the order of the file.
Secrets (keys and headers) are kept beside the models, never in them: a model goes to clients.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from pinnace_agent.resources.catalog_schema import check_models_file
from pinnace_agent.resources.diagnostics import Diagnostic, Problem
from pinnace_agent.resources.relaxed_json import ConfigurationFileError, JsonObject, is_object, read_object
from pinnace_agent.resources.values import Secret
from pinnace_spec.messages import Model

OFFLINE_PROVIDER: Final = "offline"

# What a model is unless its description says otherwise: small enough to be true of nearly every server.
DEFAULT_CONTEXT_WINDOW: Final = 128_000
DEFAULT_MAX_TOKENS: Final = 16_384

# One screen. A file with more problems than this is of another kind.
_MAX_PROBLEMS: Final = 20

_RATES: Final = ("input", "output", "cacheRead", "cacheWrite")
# In an override these are changed member by member; every other field is replaced.
_MERGED_FIELDS: Final = ("cost", "compat", "thinkingLevelMap", "inputLimits", "promptCache", "samplingParams")
# In `compat` these are objects too, and changed member by member.
_ROUTING_FIELDS: Final = ("openRouterRouting", "vercelGatewayRouting")
_COPIED_FIELDS: Final = (
    "thinkingLevelMap",
    "inputLimits",
    "compat",
    "promptCache",
    "samplingParams",
    "samplingParamsByThinkingLevel",
)
# One of these must be there in a provider without models, or its entry says nothing.
_PROVIDER_SAYS: Final = ("baseUrl", "compat", "modelOverrides", "headers", "apiKey", "oauth", "authHeader")

HeaderValues = Mapping[str, Secret]


@dataclass(slots=True, frozen=True)
class ProviderAccess:
    """How a provider is let in to, as models.json says."""

    api_key: Secret | None = None
    headers: HeaderValues = field(default_factory=dict[str, Secret])
    has_auth_header: bool = False
    """Whether the key is also sent as `Authorization: Bearer`."""


@dataclass(slots=True, frozen=True)
class Catalog:
    """Everything that models.json says."""

    models: tuple[Model, ...] = ()
    access: Mapping[str, ProviderAccess] = field(default_factory=dict[str, ProviderAccess])
    model_headers: Mapping[tuple[str, str], HeaderValues] = field(default_factory=dict[tuple[str, str], HeaderValues])
    """By provider and model id: what goes beyond the provider's own headers."""
    diagnostics: tuple[Diagnostic, ...] = ()


def read_catalog(path: Path) -> Catalog:
    """Read models.json. A missing file is an empty catalog."""
    try:
        content = read_object(path, is_relaxed=True)
    except ConfigurationFileError as error:
        return Catalog(diagnostics=(_file_ignored(path, [Problem("", str(error))]),))
    if content is None:
        return Catalog()
    if problems := check_models_file(content):
        return Catalog(diagnostics=(_file_ignored(path, problems),))
    return _build(path, cast("dict[str, JsonObject]", content.get("providers", {})))  # as the schema just said


def _file_ignored(path: Path, problems: list[Problem]) -> Diagnostic:
    shown = problems[:_MAX_PROBLEMS]
    if len(problems) > len(shown):
        shown = [*shown, Problem("", f"and {len(problems) - len(shown)} more")]
    return Diagnostic(str(path), tuple(shown), "the file is ignored")


def _build(path: Path, providers: Mapping[str, JsonObject]) -> Catalog:
    models: list[Model] = []
    access: dict[str, ProviderAccess] = {}
    model_headers: dict[tuple[str, str], HeaderValues] = {}
    diagnostics: list[Diagnostic] = []
    for provider, entry in providers.items():
        if problems := tuple(_provider_problems(provider, entry)):
            diagnostics.append(Diagnostic(str(path), problems, f'the provider "{provider}" is not used'))
            continue
        access[provider] = ProviderAccess(
            api_key=Secret(str(entry["apiKey"])) if "apiKey" in entry else None,
            headers=_headers(entry),
            has_auth_header=entry.get("authHeader") is True,
        )
        # A later description of the same id replaces the earlier one, in its place.
        described = {str(one["id"]): one for one in cast("list[JsonObject]", entry.get("models", []))}
        overrides = cast("dict[str, JsonObject]", entry.get("modelOverrides", {}))
        for model_id, description in described.items():
            override = overrides.get(model_id, {})
            models.append(_make_model(provider, entry, description, override))
            if headers := merge_headers(_headers(override), _headers(description)):
                model_headers[provider, model_id] = headers
    return Catalog(tuple(models), access, model_headers, tuple(diagnostics))


def _provider_problems(provider: str, entry: JsonObject) -> Iterator[Problem]:
    path = f"providers.{provider}"
    models = cast("list[JsonObject]", entry.get("models", []))
    if not provider.strip():
        yield Problem("providers", "the id of a provider must not be empty")
    if provider == OFFLINE_PROVIDER:
        yield Problem(path, "this provider is built in and can't be described")
    if not models and not any(name in entry for name in _PROVIDER_SAYS):
        yield Problem(path, f"needs models, or one of {', '.join(_PROVIDER_SAYS)}")
    for index, model in enumerate(models):
        for name in ("baseUrl", "api"):
            if name not in model and name not in entry:
                yield Problem(f"{path}.models[{index}]", f"needs {name}, here or in the provider")


def _headers(entry: JsonObject) -> HeaderValues:
    return {name: Secret(value) for name, value in cast("dict[str, str]", entry.get("headers", {})).items()}


def merge_headers(*layers: HeaderValues) -> HeaderValues:
    """Put layers of headers on each other: the last one wins, whatever the case of its letters."""
    merged: dict[str, tuple[str, Secret]] = {}
    for layer in layers:
        for name, value in layer.items():
            merged[name.lower()] = (name, value)
    return dict(merged.values())


# Any: the schema has been checked, and the fields are copied, not looked into.
def _make_model(provider: str, entry: JsonObject, description: JsonObject, override: JsonObject) -> Model:
    fields: dict[str, Any] = {**description}
    if "compat" in entry:
        fields["compat"] = _merge_compat(entry["compat"], description.get("compat", {}))
    for name, value in override.items():
        if name == "compat":
            fields[name] = _merge_compat(fields.get(name, {}), value)
        elif name in _MERGED_FIELDS:
            fields[name] = {**fields.get(name, {}), **cast("JsonObject", value)}
        else:
            fields[name] = value
    model: dict[str, object] = {
        "id": description["id"],
        "name": fields.get("name") or description["id"],
        "api": fields.get("api") or entry["api"],
        "provider": provider,
        "baseUrl": fields.get("baseUrl") or entry["baseUrl"],
        "reasoning": fields.get("reasoning", False),
        "input": list(dict.fromkeys(fields.get("input") or ["text"])),
        "cost": _cost(fields.get("cost", {})),
        "contextWindow": int(fields.get("contextWindow", DEFAULT_CONTEXT_WINDOW)),
        "maxTokens": int(fields.get("maxTokens", DEFAULT_MAX_TOKENS)),
    }
    model.update((name, fields[name]) for name in _COPIED_FIELDS if name in fields)
    return cast("Model", model)


def _cost(described: JsonObject) -> JsonObject:
    rates: JsonObject = {name: described.get(name, 0) for name in _RATES}
    if tiers := cast("list[JsonObject]", described.get("tiers", [])):
        # A rate that a tier does not name stays as it is below.
        return {**rates, "tiers": [{**rates, **tier} for tier in tiers]}
    return rates


def _merge_compat(below: object, above: object) -> JsonObject:
    lower, upper = cast("JsonObject", below), cast("JsonObject", above)
    merged = {**lower, **upper}
    for name in _ROUTING_FIELDS:
        one, other = lower.get(name), upper.get(name)
        if is_object(one) and is_object(other):
            merged[name] = {**one, **other}
    return merged
