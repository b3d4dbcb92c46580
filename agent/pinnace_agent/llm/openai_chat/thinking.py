"""The fields that request a thinking level: every vendor has its own.

Pure. Decides the fields of a request that control thinking: none for models that don't think. Independent of the rest
of a request.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from pinnace_agent.core.json_access import as_object
from pinnace_agent.llm.openai_chat.compat import Compat
from pinnace_agent.llm.request import ANSWER_TOKENS, LlmRequest
from pinnace_spec.records.messages import Model, ThinkingLevel

# Values that are always sent, whether or not they speak of thinking.
_TEMPLATES: Final = ("chat-template", "baseten")


def thinking_fields(request: LlmRequest, compat: Compat, max_tokens: int | None) -> dict[str, object]:
    """Return the fields for the request's level; the budget, where one is sent, leaves room for an answer."""
    model, level = request.model, request.thinking_level
    if not model["reasoning"]:
        return {}
    word = _word(model, level, compat)
    budget = request.thinking_budgets[level]
    if max_tokens is not None:
        budget = min(budget, max_tokens - ANSWER_TOKENS)
    if level == "off" and _always_thinks(model) and compat.thinking_format not in _TEMPLATES:
        return {}  # the server refuses a request that turns it off
    fields = _fields(compat, level != "off", word, max(budget, 0))
    if compat.thinking_budget_field and level != "off" and budget > 0:
        fields[compat.thinking_budget_field] = budget
    return fields


def _always_thinks(model: Model) -> bool:
    return (model.get("thinkingLevelMap") or {}).get("off", "") is None


def _word(model: Model, level: ThinkingLevel, compat: Compat) -> str | None:
    """Return the provider's word for a level; None: it has none."""
    names: Mapping[str, object] = {**compat.effort_words, **(model.get("thinkingLevelMap") or {})}
    if level in names:
        name = names[level]
        return name if isinstance(name, str) else None
    # Only named levels are known to be accepted there.
    return None if level == "off" or compat.thinking_format == "ant-ling" else level


def _fields(compat: Compat, is_on: bool, word: str | None, budget: int) -> dict[str, object]:  # noqa: PLR0911
    effort: dict[str, object] = {"reasoning_effort": word} if word and compat.supports_reasoning_effort else {}
    match compat.thinking_format:
        case "openai":
            return effort
        case "openrouter":
            return {"reasoning": {"effort": word or ("medium" if is_on else "none")}}
        case "deepseek":
            return {"thinking": {"type": "enabled"}, **effort} if is_on else {"thinking": {"type": "disabled"}}
        case "zai":
            if not is_on:
                return {"thinking": {"type": "disabled"}}
            return {"thinking": {"type": "enabled", "clear_thinking": False}, **effort}
        case "qwen":
            return {"enable_thinking": is_on, **(effort if is_on and compat.names_effort else {})}
        case "qwen-chat-template":
            kept = {"preserve_thinking": True} if is_on else {}
            return {"chat_template_kwargs": {"enable_thinking": is_on, **kept}}
        case "chat-template":
            return _template("chat_template_kwargs", compat, is_on, word, budget)
        case "baseten":
            named = effort if compat.names_effort else {}
            return {**_template("chat_template_args", compat, is_on, word, budget), **named}
        case "together":
            return {"reasoning": {"enabled": True}, **effort} if is_on else {"reasoning": {"enabled": False}}
        case "string-thinking":
            return {"thinking": word or ("medium" if is_on else "none")}
        case "ant-ling":
            return {"reasoning": {"effort": word}} if is_on and word else {}
        case _:
            assert_never(compat.thinking_format)


def _template(field: str, compat: Compat, is_on: bool, word: str | None, budget: int) -> dict[str, object]:
    """Fill in the variables of the configured values."""
    variables: dict[object, object] = {
        "thinking.enabled": is_on,
        "thinking.effort": word or "none",
        "thinking.budget": budget,
    }
    values: dict[str, object] = {}
    for name, value in compat.chat_template.items():
        variable = as_object(value)
        if variable is None or "$var" not in variable:
            values[name] = value
        elif is_on or variable.get("omitWhenOff") is not True:
            values[name] = variables.get(variable["$var"])
    return {field: values} if values else {}
