"""What a response cost, from the counts and the service tier that it names.

Pure. Must not know how a response arrives.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_agent.llm.cost import Tokens, usage_of
from pinnace_agent.llm.json_edge import as_count, as_object
from pinnace_spec.messages import Cost, Model, Usage

# OpenAI's prices: half for waiting longer, double for waiting less.
TIER_FACTORS: Final[dict[object, float]] = {"flex": 0.5, "priority": 2}


def response_usage(model: Model, response: Mapping[str, object]) -> Usage | None:
    """Count and price a response; None if it has no counts."""
    counts = as_object(response.get("usage"))
    if counts is None:
        return None
    input_details = as_object(counts.get("input_tokens_details")) or {}
    output_details = as_object(counts.get("output_tokens_details")) or {}
    cached = as_count(input_details.get("cached_tokens")) or 0
    written = as_count(input_details.get("cache_write_tokens")) or 0
    tokens = Tokens(
        input=max(0, (as_count(counts.get("input_tokens")) or 0) - cached - written),
        output=as_count(counts.get("output_tokens")) or 0,
        cache_read=cached,
        cache_write=written,
        reasoning=as_count(output_details.get("reasoning_tokens")) or 0,
    )
    usage = usage_of(model, tokens)
    tier = response.get("service_tier")
    factor = TIER_FACTORS.get(tier) if isinstance(tier, str) else None
    return usage if factor is None else {**usage, "cost": _scaled(usage["cost"], factor)}


def _scaled(cost: Cost, factor: float) -> Cost:
    scaled: Cost = {
        "input": cost["input"] * factor,
        "output": cost["output"] * factor,
        "cacheRead": cost["cacheRead"] * factor,
        "cacheWrite": cost["cacheWrite"] * factor,
        "total": cost["total"] * factor,
    }
    return scaled
