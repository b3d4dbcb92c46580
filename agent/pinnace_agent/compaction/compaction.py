"""One compaction: from a branch to the summary that replaces its older part.

Decides the order of the steps: credentials, the cut, one summary or two, the files. Changes nothing: the caller appends
the entry. Rules R-CMP-01 to R-CMP-03.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, NotRequired

from typing_extensions import TypedDict

from pinnace_agent.compaction.cut_point import Cut, NothingToDo, find_cut
from pinnace_agent.compaction.file_operations import (
    file_operations,
    with_file_blocks,
    without_file_blocks,
)
from pinnace_agent.compaction.prompts import with_turn_prefix
from pinnace_agent.compaction.serialisation import paragraphs, without_tags
from pinnace_agent.compaction.summarize import CompactionFailed, SummaryInput, Writer, sum_of_usages, summarize
from pinnace_agent.compaction.threshold import Budgets, budgets_for
from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.session.context_meter import CHARS_PER_TOKEN, context_tokens, sum_of_estimates, tokens_per_byte
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message, Model, Usage
from pinnace_spec.rules import errors
from pinnace_spec.rules.errors import ErrorCode

# Of the reserve: the rest is for the next prompt and its answer.
_HISTORY_SHARE: Final = 0.8
_PREFIX_SHARE: Final = 0.5


class CompactionResult(TypedDict):
    """What is reported to clients; the entry has all of it but the estimate."""

    summary: str
    firstKeptEntryId: str
    tokensBefore: int
    estimatedTokensAfter: int
    """By size alone: it may be more than `tokensBefore`, which goes by what the provider counted."""
    details: object
    """The files (`FileDetails`), or what an extension that made the compaction keeps."""
    usage: NotRequired[Usage]
    """Absent if no model was asked."""


async def compact(
    path: Sequence[Entry],
    messages: Sequence[Message],
    writer: Writer,
    settings: CompactionSettings,
    *,
    instructions: str | None = None,
    has_overflowed: bool = False,
) -> CompactionResult:
    """Summarise the older part of a branch.

    Nothing is changed. Cancelling ends the request that is under way.

    Args:
        path: The branch, from the root to the leaf; it must not change meanwhile.
        messages: Its context, as the model would get it.
        writer: The model that writes the summary.
        settings: The user's; whether compaction is enabled does not matter.
        instructions: The user's, about what the summary shall contain.
        has_overflowed: The provider has refused the context as too long. If the settings would keep all of it, half of
            it is kept, and if that is one message, only what is newer.

    Raises:
        CompactionFailed: There is nothing to compact, or no summary; `code` distinguishes them.
    """
    if writer.credentials.problem is not None:
        raise CompactionFailed(writer.credentials.problem, ErrorCode.NO_API_KEY)
    plan = plan_compaction(path, messages, writer.model, settings, has_overflowed=has_overflowed)
    return await carry_out(plan, writer, instructions)


class Plan(NamedTuple):
    """A compaction before a summary is written."""

    cut: Cut
    tokens_before: int
    budgets: Budgets
    tokens_per_byte: float
    """Of the context, as its provider counts."""


def plan_compaction(
    path: Sequence[Entry],
    messages: Sequence[Message],
    model: Model,
    settings: CompactionSettings,
    *,
    has_overflowed: bool,
) -> Plan:
    """Find out what is to be summarised; arguments as of `compact`.

    Raises:
        CompactionFailed: There is nothing to compact.
    """
    budgets = budgets_for(settings, model["contextWindow"])
    tokens_before = context_tokens(messages)
    cut = find_cut(path, budgets.keep_tokens)
    if has_overflowed and cut is NothingToDo.TOO_SMALL:
        cut = find_cut(path, tokens_before // 2)  # the window is smaller than reported
        if cut is NothingToDo.TOO_SMALL:
            # A message that no window holds makes way as soon as it is not the newest.
            cut = find_cut(path, 1)
    if isinstance(cut, NothingToDo):
        raise _nothing_to_do(cut)
    return Plan(cut, tokens_before, budgets, tokens_per_byte(messages))


async def carry_out(plan: Plan, writer: Writer, instructions: str | None) -> CompactionResult:
    """Have the summary written.

    Raises:
        CompactionFailed: There is none.
    """
    if writer.credentials.problem is not None:
        raise CompactionFailed(writer.credentials.problem, ErrorCode.NO_API_KEY)
    cut = plan.cut
    text, usage = await _summaries(plan, writer, instructions)
    files = file_operations(cut.summarised, cut.compaction)
    summary = with_file_blocks(text, files)
    result: CompactionResult = {
        "summary": summary,
        "firstKeptEntryId": cut.first_kept_entry_id,
        "tokensBefore": plan.tokens_before,
        "estimatedTokensAfter": -(-len(summary) // CHARS_PER_TOKEN) + sum_of_estimates(cut.kept),
        "details": files.details(),
    }
    if usage is not None:
        result["usage"] = usage
    return result


async def _summaries(plan: Plan, writer: Writer, instructions: str | None) -> tuple[str, Usage | None]:
    """Have the history and the beginning of a divided turn summarised, one by one: some servers have a single slot."""
    cut, reserve_tokens = plan.cut, plan.budgets.reserve_tokens
    previous = _previous_summary(cut)
    text, usage = previous, None
    if cut.history:
        previous = previous and without_tags(previous)
        asked = SummaryInput("history", paragraphs(cut.history), previous, instructions, plan.tokens_per_byte)
        text, usage = await summarize(writer, asked, int(_HISTORY_SHARE * reserve_tokens))
    if not cut.turn_prefix:
        assert text is not None
        return text, usage
    asked = SummaryInput("turn_prefix", paragraphs(cut.turn_prefix), None, instructions, plan.tokens_per_byte)
    prefix, prefix_usage = await summarize(writer, asked, int(_PREFIX_SHARE * reserve_tokens))
    return with_turn_prefix(text, prefix), prefix_usage if usage is None else sum_of_usages(usage, prefix_usage)


def _previous_summary(cut: Cut) -> str | None:
    """Return the summary of what was before, without its files if they come back with those of this compaction."""
    if cut.previous_summary is None:
        return None
    text = without_file_blocks(cut.previous_summary)
    returning = with_file_blocks(text, file_operations((), cut.compaction))
    return text if returning == cut.previous_summary.rstrip() else cut.previous_summary


def _nothing_to_do(reason: NothingToDo) -> CompactionFailed:
    match reason:
        case NothingToDo.ALREADY_COMPACTED:
            return CompactionFailed(errors.ALREADY_COMPACTED, ErrorCode.ALREADY_COMPACTED)
        case NothingToDo.TOO_SMALL:
            return CompactionFailed(errors.NOTHING_TO_COMPACT, ErrorCode.NOTHING_TO_COMPACT)
