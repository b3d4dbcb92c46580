"""The thinking of a model, and the output tokens that it takes.

Pure. Decides the fields of a request that are about thinking, and `max_tokens`, which thoughts count against. Must not
know the rest of a request.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.llm.anthropic.compat import Compat
from pinnace_agent.llm.output_cap import output_cap
from pinnace_agent.llm.request import ANSWER_TOKENS, LlmRequest
from pinnace_spec.records.messages import Model, ThinkingLevel

# The API requires a limit; this one is for models without a configured one.
DEFAULT_MAX_TOKENS: Final = 16_384
# The API refuses a smaller budget.
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
# The effort of the request is a part of what is cached, so it stays the same; the lowest, since organisations may limit
# it. Thoughts that another effort has made are dropped by the server, where they would be an error.
_OWN_EFFORTS: Final[dict[str, object]] = {
    "thinking": {
        "type": "adaptive",
        "display": "summarized",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    },
    "output_config": {"effort": "low"},
}


class Thinking(NamedTuple):
    """The fields of a request that control thinking."""

    fields: dict[str, object]
    max_tokens: int
    is_on: bool
    """The model may think: a temperature is refused then."""
    needs_interleaving: bool = False
    """It thinks between its tool calls only with a beta header."""
    effort: str | None = None
    """Of the answer, where each answer of the conversation has its own."""


def thinking_of(request: LlmRequest, compat: Compat) -> Thinking:
    """Return the fields for the request's level."""
    model, level = request.model, request.thinking_level
    max_tokens = _cap(request)
    if not model["reasoning"]:
        return Thinking({}, max_tokens, is_on=False)
    if compat.supports_mid_convo_effort and (level != "off" or _is_always_on(model)):
        effort = "high" if level == "off" else _effort(model, level)
        return Thinking(_OWN_EFFORTS, max_tokens, is_on=True, effort=effort)
    if level == "off":
        return _off(model, max_tokens)
    if compat.force_adaptive_thinking:
        # Asked for, since newer models would otherwise sign their thoughts without sending them.
        thinking = {"type": "adaptive", "display": "summarized"}
        return Thinking(
            {"thinking": thinking, "output_config": {"effort": _effort(model, level)}}, max_tokens, is_on=True
        )
    wanted = max(request.thinking_budgets[level], MIN_BUDGET_TOKENS)
    raised = _cap(request, wanted)
    budget = min(wanted, raised - ANSWER_TOKENS)
    if budget < MIN_BUDGET_TOKENS:  # no tokens left for thinking
        return _off(model, max_tokens)
    return Thinking(
        {"thinking": {"type": "enabled", "budget_tokens": budget}}, raised, is_on=True, needs_interleaving=True
    )


def _is_always_on(model: Model) -> bool:
    """Return whether the thinking of a model can't be turned off."""
    names = model.get("thinkingLevelMap") or {}
    return "off" in names and names["off"] is None


def _off(model: Model, max_tokens: int) -> Thinking:
    if _is_always_on(model):
        return Thinking({}, max_tokens, is_on=True)
    return Thinking({"thinking": {"type": "disabled"}}, max_tokens, is_on=False)


def _effort(model: Model, level: ThinkingLevel) -> str:
    name = (model.get("thinkingLevelMap") or {}).get(level)
    return name if isinstance(name, str) else _EFFORTS.get(level, "high")


def _cap(request: LlmRequest, budget: int = 0) -> int:
    """Return the limit of tokens for thinking and answer together, at most the model's."""
    most = request.model["maxTokens"]
    wanted = (request.max_tokens or most) + budget
    if most > 0:
        wanted = min(wanted, most)
    return output_cap(request._replace(max_tokens=wanted)) or DEFAULT_MAX_TOKENS
