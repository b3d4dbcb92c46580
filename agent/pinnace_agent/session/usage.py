"""How full the context is: what the provider reported, and an estimate of what came after.

Estimates are four characters a token. Rule R-CMP-04. Must not know any provider's tokenizer.
"""

from typing import Final, TypedDict

from pinnace_agent.message_size import message_chars
from pinnace_agent.session.conversation import Session
from pinnace_spec.messages import AssistantMessage, Message

CHARS_PER_TOKEN: Final = 4


class ContextUsage(TypedDict):
    """`tokens` of `contextWindow`; `percent` is not rounded and may exceed 100."""

    tokens: int | None
    contextWindow: int
    percent: float | None


def context_usage(session: Session) -> ContextUsage | None:
    """Return how full the context is, or None without a model or a window."""
    if session.model is None or session.model["contextWindow"] <= 0:
        return None
    window = session.model["contextWindow"]
    tokens = context_tokens(session.messages)
    return {"tokens": tokens, "contextWindow": window, "percent": tokens / window * 100}


def context_tokens(messages: list[Message]) -> int:
    """Return the last trustworthy usage plus an estimate of every later message."""
    estimate = 0
    for message in reversed(messages):
        if message["role"] == "assistant" and (reported := _reported(message)) > 0:
            return reported + estimate
        estimate += estimate_tokens(message)
    return estimate


def _reported(message: AssistantMessage) -> int:
    if message["stopReason"] in {"error", "aborted"}:
        return 0
    usage = message["usage"]
    return usage["totalTokens"] or usage["input"] + usage["output"] + usage["cacheRead"] + usage["cacheWrite"]


def estimate_tokens(message: Message) -> int:
    """Estimate the tokens of one message."""
    return -(-message_chars(message) // CHARS_PER_TOKEN)
