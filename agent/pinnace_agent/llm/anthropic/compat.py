"""What a server with Anthropic's messages API accepts.

Decides the flags of one model: its `compat`, else the behaviour of Anthropic. Undocumented flags have no effect.
Independent of what a flag changes in a request.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, cast

from pinnace_agent.core.json_access import as_amount, as_array, as_object, as_text
from pinnace_spec.records.messages import Model

# Accepts every kind of its tokens as Bearer.
_COPILOT: Final = "github-copilot"
_PRICES: Final = ("input", "output", "cacheRead", "cacheWrite")


class Compat(NamedTuple):
    """The flags of one model. Named as in `compat`, in our spelling."""

    supports_eager_tool_input_streaming: bool
    """Knows `eager_input_streaming` at a tool; without it, a beta of the whole request does the same."""
    supports_cache_control_on_tools: bool
    supports_long_cache_retention: bool
    supports_temperature: bool
    force_adaptive_thinking: bool
    """Accepts an effort level instead of a token budget for thinking."""
    supports_mid_convo_effort: bool
    """Accepts an effort for each answer, so that another one leaves the cache as it is."""
    allow_empty_signature: bool
    """Accepts unsigned thoughts in the history."""
    send_session_affinity_headers: bool
    supports_strict_tools: bool
    """Holds the arguments of calls to the schemas of tools."""
    takes_bearer: bool
    """Requires the key as a Bearer token."""
    fallbacks: Mapping[str, Model]
    """The models that may answer what this one refuses, by id, each with the prices of its answers."""


def compat_of(model: Model) -> Compat:
    """Return the flags of a model; its `compat` takes precedence, field by field."""
    said = model.get("compat") or {}

    def flag(name: str, default: bool) -> bool:
        value = said.get(name)
        return value if isinstance(value, bool) else default

    return Compat(
        supports_eager_tool_input_streaming=flag("supportsEagerToolInputStreaming", True),
        supports_cache_control_on_tools=flag("supportsCacheControlOnTools", True),
        supports_long_cache_retention=flag("supportsLongCacheRetention", True),
        supports_temperature=flag("supportsTemperature", True),
        force_adaptive_thinking=flag("forceAdaptiveThinking", False),
        supports_mid_convo_effort=flag("supportsMidConvoEffort", False),
        allow_empty_signature=flag("allowEmptySignature", False),
        send_session_affinity_headers=flag("sendSessionAffinityHeaders", False),
        supports_strict_tools=flag("supportsStrictTools", False),
        takes_bearer=model["provider"] == _COPILOT,
        fallbacks=dict(_fallbacks(model)),
    )


def _fallbacks(model: Model) -> Iterator[tuple[str, Model]]:
    """Yield the models of `allowedFallbackModels`; one without prices at this provider costs what the model costs."""
    for each in as_array((model.get("compat") or {}).get("allowedFallbackModels")):
        fallback = as_object(each) or {}
        if name := as_text(fallback.get("model")):
            prices = as_object(fallback.get("cost")) or {}
            cost = {price: as_amount(prices.get(price)) for price in _PRICES}
            is_priced = fallback.get("provider") == model["provider"] and None not in cost.values()
            yield name, cast("Model", {**model, "cost": cost}) if is_priced else model
