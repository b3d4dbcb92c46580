"""When a compaction is due, how much it may keep, and how full the context is said to be.

Pure. Decides by the branch and by estimates; must not know when it is asked, nor what a compaction does. Rules
R-CMP-01, R-CMP-04.
"""

from collections.abc import Reversible, Sequence
from typing import NamedTuple

from typing_extensions import TypedDict

from pinnace_agent.compaction.cut_point import NothingToDo, find_cut
from pinnace_agent.compaction.estimate import context_tokens
from pinnace_agent.message_size import counted_tokens
from pinnace_agent.resources.settings import CompactionSettings
from pinnace_agent.session.context import context_message, last_compaction
from pinnace_spec.entries import Entry
from pinnace_spec.messages import AssistantMessage, Message, Model


class ContextUsage(TypedDict):
    """`tokens` of `contextWindow`; `percent` is not rounded and may exceed 100. Both are null when nobody knows."""

    tokens: int | None
    contextWindow: int
    percent: float | None


class Budgets(NamedTuple):
    """How a window is divided."""

    reserve_tokens: int
    """For the prompt and the answer; a context that leaves less is compacted."""
    keep_tokens: int
    """Of the newest messages, what a compaction keeps."""


def budgets_for(settings: CompactionSettings, window: int) -> Budgets:
    """Fit the user's settings to a window.

    The defaults suit windows of 80,000 tokens and more. At most a quarter of the window is kept, so that the kept
    messages do not fill it at once again. A reserve that leaves nothing of the window would make every turn end in a
    compaction: then it is a third of the window, and a sixth is kept. Half is left for the system prompt, the summary
    and what follows until the next compaction. A window that is unknown (0) takes the settings as they are.
    """
    if window <= 0:
        return Budgets(settings.reserve_tokens, settings.keep_recent_tokens)
    if settings.reserve_tokens >= window:
        return Budgets(window // 3, min(settings.keep_recent_tokens, window // 6))
    return Budgets(settings.reserve_tokens, min(settings.keep_recent_tokens, window // 4))


def is_over(tokens: int, window: int, settings: CompactionSettings) -> bool:
    """Tell whether a context of so many tokens leaves less than the reserve. Of an unknown window, never."""
    return window > 0 and tokens > window - budgets_for(settings, window).reserve_tokens


def is_due(
    path: Sequence[Entry],
    messages: Sequence[Message],
    model: Model | None,
    settings: CompactionSettings,
    *,
    passes_aborted: bool = False,
) -> bool:
    """Tell whether the context is to be compacted before it is used again, and can be.

    Not if the latest compaction has not been followed by an answer: it would be the next of a row without end.

    Args:
        path: The branch, from the root to the leaf.
        messages: Its context.
        model: The one in force.
        settings: The user's.
        passes_aborted: An answer that was aborted is no reason: true after a run, which the user has stopped then,
            and false before a prompt.
    """
    if model is None or not settings.is_enabled:
        return False
    if not is_over(context_tokens(messages), model["contextWindow"], settings):
        return False
    compaction = last_compaction(path)
    answer = _last_answer(path, 0 if compaction is None else compaction + 1)
    if answer is None and compaction is not None:
        return False
    if passes_aborted and answer is not None and answer["stopReason"] == "aborted":
        return False
    keep_tokens = budgets_for(settings, model["contextWindow"]).keep_tokens
    return not isinstance(find_cut(path, keep_tokens), NothingToDo)


def usage_of_context(path: Reversible[Entry], tokens: int, model: Model | None) -> ContextUsage | None:
    """Return how full a context of so many tokens is, or None without a model or a window."""
    if model is None or model["contextWindow"] <= 0:
        return None
    window = model["contextWindow"]
    if not _is_known(path):
        return {"tokens": None, "contextWindow": window, "percent": None}
    return {"tokens": tokens, "contextWindow": window, "percent": tokens / window * 100}


def _is_known(path: Reversible[Entry]) -> bool:
    """Tell whether a provider has counted since the latest compaction, or there is none."""
    for entry in reversed(path):
        if entry.get("type") == "compaction":
            return False
        if (answer := _answer(entry)) is not None and counted_tokens(answer):
            return True
    return True


def _last_answer(path: Sequence[Entry], first: int) -> AssistantMessage | None:
    answers = (_answer(path[place]) for place in range(len(path) - 1, first - 1, -1))
    return next((answer for answer in answers if answer is not None), None)


def _answer(entry: Entry) -> AssistantMessage | None:
    message = context_message(entry)
    return message if message is not None and message["role"] == "assistant" else None
