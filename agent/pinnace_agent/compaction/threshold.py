"""When a compaction is due, how much it may keep, and how full the context is.

Pure. Decides by the branch and by estimates. Rules R-CMP-01, R-CMP-04.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import TypedDict

from pinnace_agent.compaction.cut_point import NothingToDo, find_cut
from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.llm.message_size import counted_tokens
from pinnace_agent.session.context import context_message, last_compaction
from pinnace_agent.session.context_meter import context_tokens
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import AssistantMessage, Message, Model

if TYPE_CHECKING:
    from pinnace_agent.session.conversation import Session


class ContextUsage(TypedDict):
    """`tokens` of `contextWindow`; `percent` is not rounded and may exceed 100. Both are null when they are unknown."""

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
    """Return whether a context of so many tokens leaves less than the reserve. Of an unknown window, never."""
    return window > 0 and tokens > window - budgets_for(settings, window).reserve_tokens


def is_due(
    path: Sequence[Entry],
    messages: Sequence[Message],
    model: Model | None,
    settings: CompactionSettings,
    *,
    passes_aborted: bool = False,
) -> bool:
    """Return whether the context is to be compacted before it is used again, and can be.

    Not if the latest compaction has not been followed by an answer: it would be the next of a row without end.

    Args:
        path: The branch, from the root to the leaf.
        messages: Its context.
        model: The current one.
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


def context_usage(session: "Session") -> ContextUsage | None:
    """Return how full the context of a session is, or None without a model or a window."""
    tree = session.tree
    return usage_of_context(tree.upward(tree.leaf), session.meter.tokens(), session.model)


def usage_of_context(newest_first: Iterable[Entry], tokens: int, model: Model | None) -> ContextUsage | None:
    """Return how full a context of so many tokens is, or None without a model or a window.

    Args:
        newest_first: The branch, from the leaf to the root; read only as far as need be.
        tokens: The size of its context.
        model: The current one.
    """
    if model is None or model["contextWindow"] <= 0:
        return None
    window = model["contextWindow"]
    if not _is_known(newest_first):
        return {"tokens": None, "contextWindow": window, "percent": None}
    return {"tokens": tokens, "contextWindow": window, "percent": tokens / window * 100}


def _is_known(newest_first: Iterable[Entry]) -> bool:
    """Return whether a provider has counted since the latest compaction, or there is none."""
    for entry in newest_first:
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
