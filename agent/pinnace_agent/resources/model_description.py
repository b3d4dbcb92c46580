"""Turns descriptions of models, built in and the user's, into models.

Pure. Descriptions follow the schema of models.json. What the user says of a provider goes for its built-in models too;
a model that the user describes replaces the built-in one of its id, whole; an override comes last. No key or header
gets into a model: it goes to clients.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pinnace_agent.resources.builtin import BuiltInProvider
from pinnace_agent.resources.relaxed_json import JsonObject, is_object
from pinnace_spec.messages import Model

# What a model is unless its description says otherwise: small enough to be true of nearly every server.
DEFAULT_CONTEXT_WINDOW: Final = 128_000
DEFAULT_MAX_TOKENS: Final = 16_384

# What nearly every server speaks; a new model of a provider that speaks several gets it.
_USUAL_API: Final = "openai-completions"

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


def built_in_models(provider: str, facts: BuiltInProvider, descriptions: Sequence[JsonObject]) -> list[Model]:
    """Make the models of a built-in provider of which the user says nothing; the data is complete."""
    shared = {"api": facts.api, "provider": provider, "baseUrl": facts.base_url}
    return [cast("Model", {"id": one["id"], "name": one["name"], **shared, **one}) for one in descriptions]


def described_models(
    provider: str, entry: JsonObject, built_in: Sequence[Model] = (), *, keeps_built_in: bool = True
) -> list[Model]:
    """Make the models of a provider that the user describes.

    Args:
        provider: Its id.
        entry: What the user says.
        built_in: Its models as they are without the user; they keep their places.
        keeps_built_in: Whether they stay; else they only give what the described ones leave out.
    """
    overrides = cast("dict[str, JsonObject]", entry.get("modelOverrides", {}))
    # A later description of the same id replaces the earlier one, in its place.
    described = {str(one["id"]): one for one in cast("list[JsonObject]", entry.get("models", []))}
    # Any: the schema has been checked, and the fields are copied, not looked into.
    fields_of: dict[str, dict[str, Any]] = {}
    for model in built_in if keeps_built_in else ():
        fields_of[model["id"]] = {**model, **({"baseUrl": entry["baseUrl"]} if "baseUrl" in entry else {})}
        if "compat" in entry:
            fields_of[model["id"]]["compat"] = _merge_compat(model.get("compat", {}), entry["compat"])
    for model_id, description in described.items():
        fields: dict[str, Any] = {**_missing(model_id, {**entry, **description}, built_in), **description}
        if "compat" in entry:
            fields["compat"] = _merge_compat(entry["compat"], description.get("compat", {}))
        fields_of[model_id] = fields
    return [
        _make_model(model_id, provider, _overridden(fields, overrides.get(model_id, {})))
        for model_id, fields in fields_of.items()
    ]


def _missing(model_id: str, said: Mapping[str, object], built_in: Sequence[Model]) -> JsonObject:
    """Return API and address of a model: what the user says, else those of the built-in model that is nearest to it.

    Nearest is the one of its id, then the first of its API, then the first of the usual API, then the first.
    """
    found: JsonObject = {name: said[name] for name in ("api", "baseUrl") if name in said}
    if not built_in or len(found) > 1:
        return found
    same_id = [model for model in built_in if model["id"] == model_id]
    same_api = [model for model in built_in if model["api"] == said.get("api")]
    usual = [model for model in built_in if model["api"] == _USUAL_API]
    nearest = (*same_id, *same_api, *usual, *built_in)[0]
    return {"api": nearest["api"], "baseUrl": nearest["baseUrl"], **found}


def _overridden(fields: dict[str, Any], override: JsonObject) -> dict[str, Any]:
    changed = dict(fields)
    for name, value in override.items():
        if name == "compat":
            changed[name] = _merge_compat(fields.get(name, {}), value)
        elif name in _MERGED_FIELDS:
            changed[name] = {**fields.get(name, {}), **cast("JsonObject", value)}
        else:
            changed[name] = value
    return changed


def _make_model(model_id: str, provider: str, fields: Mapping[str, Any]) -> Model:
    model: dict[str, object] = {
        "id": model_id,
        "name": fields.get("name") or model_id,
        "api": fields["api"],
        "provider": provider,
        "baseUrl": fields["baseUrl"],
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
