"""How much a model shall think, and how much room that takes.

Pure. Decides the fields of a request that are about thinking, and `max_tokens`, which thoughts count against. Must not
know the rest of a request.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.llm.anthropic_compat import Compat
from pinnace_agent.llm.base import ANSWER_TOKENS, LlmRequest
from pinnace_agent.llm.output_cap import output_cap
from pinnace_spec.messages import Model, ThinkingLevel

# The API always wants a limit; this one for a model that is described as having none.
DEFAULT_MAX_TOKENS: Final = 16_384
# Less to think with is refused.
MIN_BUDGET_TOKENS: Final = 1024
# What every adaptive model knows; further words are in the model's own map.
_EFFORTS: Final[Mapping[ThinkingLevel, str]] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


class Thinking(NamedTuple):
    """What a request says about thinking."""

    fields: dict[str, object]
    max_tokens: int
    is_on: bool
    """The model may think: it then wants no temperature."""
    needs_interleaving: bool = False
    """It thinks between its tool calls only if a beta says so."""


def thinking_of(request: LlmRequest, compat: Compat) -> Thinking:
    """Return what is said for the request's level."""
    model, level = request.model, request.thinking_level
    max_tokens = _cap(request)
    if not model["reasoning"]:
        return Thinking({}, max_tokens, is_on=False)
    if level == "off":
        return _off(model, max_tokens)
    if compat.force_adaptive_thinking:
        # Asked for, since newer models would else sign their thoughts without telling them.
        thinking = {"type": "adaptive", "display": "summarized"}
        return Thinking(
            {"thinking": thinking, "output_config": {"effort": _effort(model, level)}}, max_tokens, is_on=True
        )
    wanted = max(request.thinking_budgets[level], MIN_BUDGET_TOKENS)
    raised = _cap(request, wanted)
    budget = min(wanted, raised - ANSWER_TOKENS)
    if budget < MIN_BUDGET_TOKENS:  # no room to think
        return _off(model, max_tokens)
    return Thinking(
        {"thinking": {"type": "enabled", "budget_tokens": budget}}, raised, is_on=True, needs_interleaving=True
    )


def _off(model: Model, max_tokens: int) -> Thinking:
    names = model.get("thinkingLevelMap") or {}
    if "off" in names and names["off"] is None:  # it can't be stopped from thinking
        return Thinking({}, max_tokens, is_on=True)
    return Thinking({"thinking": {"type": "disabled"}}, max_tokens, is_on=False)


def _effort(model: Model, level: ThinkingLevel) -> str:
    name = (model.get("thinkingLevelMap") or {}).get(level)
    return name if isinstance(name, str) else _EFFORTS.get(level, "high")


def _cap(request: LlmRequest, budget: int = 0) -> int:
    """Return the most tokens for thoughts and answer together: as asked for and the budget, if there are so many."""
    most = request.model["maxTokens"]
    wanted = (request.max_tokens or most) + budget
    if most > 0:
        wanted = min(wanted, most)
    return output_cap(request._replace(max_tokens=wanted)) or DEFAULT_MAX_TOKENS
