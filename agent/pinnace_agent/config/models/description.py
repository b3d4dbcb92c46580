"""Builds models from descriptions, built in and the user's.

Pure. Descriptions follow the schema of models.json. The user's settings of a provider apply to its built-in models too;
a model that the user describes replaces the built-in one of its id as a whole; overrides are applied last. No key or
header gets into a model, since models are sent to clients.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pinnace_agent.config.models.builtin import BuiltInProvider
from pinnace_agent.files.relaxed_json import JsonObject, is_object
from pinnace_spec.records.messages import Model

# The defaults of a description: small enough for nearly every server.
DEFAULT_CONTEXT_WINDOW: Final = 128_000
DEFAULT_MAX_TOKENS: Final = 16_384

# The API of nearly every server; a new model of a provider with several APIs gets it.
_USUAL_API: Final = "openai-completions"

_RATES: Final = ("input", "output", "cacheRead", "cacheWrite")
# An override merges these member by member, and replaces every other field.
_MERGED_FIELDS: Final = ("cost", "compat", "thinkingLevelMap", "inputLimits", "promptCache", "samplingParams")
# Objects inside `compat`, which are also merged member by member.
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
    """Build the models of a built-in provider without an entry of the user's; the data is complete."""
    shared = {"api": facts.api, "provider": provider, "baseUrl": facts.base_url}
    return [cast("Model", {"id": one["id"], "name": one["name"], **shared, **one}) for one in descriptions]


def described_models(
    provider: str, entry: JsonObject, built_in: Sequence[Model] = (), *, keeps_built_in: bool = True
) -> list[Model]:
    """Build the models of a provider with an entry of the user's.

    Args:
        provider: Its id.
        entry: The user's entry.
        built_in: Its built-in models; they keep their places.
        keeps_built_in: Whether they stay; otherwise they only supply fields that the described ones leave out.
    """
    overrides = cast("dict[str, JsonObject]", entry.get("modelOverrides", {}))
    # A later description of the same id replaces the earlier one, in its place.
    described = {str(one["id"]): one for one in cast("list[JsonObject]", entry.get("models", []))}
    # Any: the schema has been checked, and the fields are copied unread.
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
        _served_model(model_id, provider, _overridden(fields, overrides.get(model_id, {})))
        for model_id, fields in fields_of.items()
    ]


def _missing(model_id: str, described: Mapping[str, object], built_in: Sequence[Model]) -> JsonObject:
    """Return API and address of a model: as described, else those of the nearest built-in model.

    Nearest is the model of the same id, then the first of its API, then the first of the usual API, then the first.
    """
    found: JsonObject = {name: described[name] for name in ("api", "baseUrl") if name in described}
    if not built_in or len(found) > 1:
        return found
    same_id = [model for model in built_in if model["id"] == model_id]
    same_api = [model for model in built_in if model["api"] == described.get("api")]
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


def _served_model(model_id: str, provider: str, fields: Mapping[str, Any]) -> Model:
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
        # A tier inherits the rates that it does not name.
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
