"""How a level of thinking is asked for: in words or in tokens, as the model's kind has it.

Pure. Decides `thinkingConfig`. Must not know the rest of a request. Says nothing for models that don't think.
"""

from collections.abc import Mapping

from pinnace_agent.llm.base import ANSWER_TOKENS, THINKING_BUDGETS, LlmRequest
from pinnace_agent.llm.google_family import Family
from pinnace_spec.messages import THINKING_LEVELS, Model, ThinkingLevel


def thinking_config(request: LlmRequest, family: Family, max_tokens: int | None) -> dict[str, object] | None:
    """Return what says how much to think; the budget, where one is sent, leaves room for an answer."""
    model, level = request.model, request.thinking_level
    if not model["reasoning"]:
        return None
    shown: dict[str, object] = {} if level == "off" else {"includeThoughts": True}
    if family.levels is not None:
        return {**shown, "thinkingLevel": _word(model, level, family.levels)}
    return {**shown, "thinkingBudget": _budget(request, family, max_tokens)}


def _word(model: Model, level: ThinkingLevel, defaults: Mapping[ThinkingLevel, str]) -> str:
    """Return the model's word for a level; without one for `off`, the least that it has."""
    names = model.get("thinkingLevelMap") or {}
    name = names.get(level)
    if level == "off" and not isinstance(name, str):
        level = _lowest(names)
        name = names.get(level)
    return (name if isinstance(name, str) and name else defaults[level]).upper()


def _lowest(names: Mapping[str, object]) -> ThinkingLevel:
    """Return the lowest level above off: one that is not named has the word of its kind, one that is null is none."""
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
    # Thoughts count as output. Less than the least is refused.
    room = max(max_tokens - ANSWER_TOKENS, family.budgets["minimal"])
    return min(budget, room) if room > 0 else budget
