"""The cost of a request: tokens times the prices of the model.

Pure. Independent of where the counts come from.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pinnace_spec.records.messages import Cost, Model, ModelCost, PriceTier, Usage

# Prices are per million tokens.
_PER = 1_000_000
# What an hour in a cache costs, in terms of the price of input.
_HOUR_FACTOR = 2


class RequestTokens(NamedTuple):
    """Tokens of one request. `input` excludes both cache parts; `reasoning` is part of `output`."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    """The part of `cache_write` kept for an hour, which has a price of its own."""
    reasoning: int = 0


def usage_of(model: Model, tokens: RequestTokens, *, reported_total: float | None = None) -> Usage:
    """Price the tokens of one request.

    Args:
        model: Whose prices count; the tier is chosen by the whole input, cached parts included.
        tokens: What the provider counted.
        reported_total: US dollars as the provider reports them, which take precedence as the total.
    """
    rates = _rates(model["cost"], tokens.input + tokens.cache_read + tokens.cache_write)
    hour = min(tokens.cache_write_1h, tokens.cache_write)
    cost: Cost = {
        "input": _price(rates["input"], tokens.input),
        "output": _price(rates["output"], tokens.output),
        "cacheRead": _price(rates["cacheRead"], tokens.cache_read),
        "cacheWrite": _price(rates["cacheWrite"], tokens.cache_write - hour)
        + _price(rates["input"] * _HOUR_FACTOR, hour),
        "total": 0,
    }
    cost["total"] = cost["input"] + cost["output"] + cost["cacheRead"] + cost["cacheWrite"]
    if reported_total is not None:
        cost["total"] = reported_total
    usage: Usage = {
        "input": tokens.input,
        "output": tokens.output,
        "cacheRead": tokens.cache_read,
        "cacheWrite": tokens.cache_write,
        "totalTokens": tokens.input + tokens.output + tokens.cache_read + tokens.cache_write,
        "cost": cost,
    }
    if tokens.reasoning:
        usage["reasoning"] = tokens.reasoning
    if hour:
        usage["cacheWrite1h"] = hour
    return usage


def _rates(cost: ModelCost, input_tokens: int) -> Mapping[str, float] | ModelCost | PriceTier:
    """Select the highest tier whose threshold the input exceeds; it applies to the whole request."""
    tiers = [tier for tier in cost.get("tiers", ()) if input_tokens > tier["inputTokensAbove"]]
    return max(tiers, key=lambda tier: tier["inputTokensAbove"]) if tiers else cost


def _price(rate: float, tokens: int) -> float:
    # 0 and not 0.0 without costs: it is written as JSON.
    return rate / _PER * tokens if tokens and rate else 0
