"""The thinking of a model behind Amazon Bedrock, and the output tokens that it takes.

Pure. Decides `additionalModelRequestFields` as far as they are about thinking, which are those of the model's maker,
and the limit of tokens, which thoughts count against. Independent of the rest of a request.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.llm.bedrock.family import Family
from pinnace_agent.llm.output_cap import output_cap
from pinnace_agent.llm.request import ANSWER_TOKENS, LlmRequest
from pinnace_spec.records.messages import Model, ThinkingLevel

_MIN_BUDGET_TOKENS: Final = 1024
_BETA_INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
# Lets thoughts be dropped that belong to another history, instead of refusing the request.
_BETA_BINDING: Final = "thinking-binding-controls-2026-08-01"
_CLAUDE: Final[Mapping[ThinkingLevel, str]] = {"minimal": "low", "low": "low", "medium": "medium"}
_GPT: Final[Mapping[ThinkingLevel, str]] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_GPT_OSS: Final[Mapping[ThinkingLevel, str]] = {"minimal": "low", "low": "low", "medium": "medium"}


class Thinking(NamedTuple):
    """What a request says about thinking."""

    fields: dict[str, object]
    max_tokens: int | None
    """Of thoughts and answer together; None: the model's own."""


def thinking_of(request: LlmRequest, family: Family, *, is_government: bool) -> Thinking:
    """Return the fields for the request's level.

    Args:
        request: With the model and the level.
        family: The model's.
        is_government: Whether it is served by GovCloud, which does not know the newer fields.
    """
    model, level = request.model, request.thinking_level
    max_tokens = output_cap(request)
    if not model["reasoning"] or level == "off":
        return Thinking({}, max_tokens)
    if family.is_claude:
        shown = {} if is_government else {"display": "summarized"}
        if family.is_adaptive:
            return Thinking(_adaptive(model, level, family, shown, is_government=is_government), max_tokens)
        return _budgeted(request, shown)
    if family.is_gpt_oss:
        return Thinking({"reasoning_effort": _GPT_OSS.get(level, "high")}, max_tokens)
    if family.is_gpt:
        return Thinking({"reasoning": {"effort": _word(model, level) or _GPT[level]}}, max_tokens)
    return Thinking({}, max_tokens)


def _adaptive(
    model: Model, level: ThinkingLevel, family: Family, shown: Mapping[str, object], *, is_government: bool
) -> dict[str, object]:
    is_bound = family.binds_thoughts and not is_government
    binding = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}} if is_bound else {}
    effort = (
        "xhigh" if level == "xhigh" and family.binds_thoughts else _word(model, level) or _CLAUDE.get(level, "high")
    )
    beta = {"anthropic_beta": [_BETA_BINDING]} if is_bound else {}
    return {"thinking": {"type": "adaptive", **shown, **binding}, "output_config": {"effort": effort}, **beta}


def _budgeted(request: LlmRequest, shown: Mapping[str, object]) -> Thinking:
    wanted = max(request.thinking_budgets[request.thinking_level], _MIN_BUDGET_TOKENS)
    most = request.model["maxTokens"]
    raised = (request.max_tokens or most) + wanted
    max_tokens = output_cap(request._replace(max_tokens=min(raised, most) if most > 0 else raised))
    budget = wanted if max_tokens is None else min(wanted, max_tokens - ANSWER_TOKENS)
    if budget < _MIN_BUDGET_TOKENS:  # no tokens left for thinking
        return Thinking({}, output_cap(request))
    thinking = {"type": "enabled", "budget_tokens": budget, **shown}
    return Thinking({"thinking": thinking, "anthropic_beta": [_BETA_INTERLEAVED]}, max_tokens)


def _word(model: Model, level: ThinkingLevel) -> str | None:
    """Return the model's own word for a level, if it has one."""
    name = (model.get("thinkingLevelMap") or {}).get(level)
    return name if isinstance(name, str) else None
