"""Hooks of compactions: handlers may cancel or perform one, and receive its end.

A compaction of an extension becomes a result like the agent's own.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast

from pinnace_agent.compaction.file_operations import file_operations
from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.core.frozen import frozen
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.session.context import build_context
from pinnace_agent.session.context_meter import sum_of_estimates
from pinnace_spec.records.entries import Entry
from pinnace_spec.rules import errors

if TYPE_CHECKING:
    from pinnace_agent.compaction.compaction import CompactionResult, Plan

Reason = Literal["manual", "threshold", "overflow"]


async def decided(
    runner: Runner,
    plan: "Plan",
    path: Sequence[Entry],
    settings: CompactionSettings,
    instructions: str | None,
    reason: Reason,
) -> "CompactionResult | Literal['cancelled'] | None":
    """Let handlers cancel a compaction, or perform it.

    Returns:
        The compaction of an extension; None: a model writes the summary.

    Raises:
        CompactionFailed: The compaction of an extension is invalid.
    """

    def event() -> ev.SessionBeforeCompact:
        return ev.SessionBeforeCompact(
            preparation=cast("Mapping[str, object]", frozen(_preparation(plan, settings))),  # cast: a copy of it
            branch_entries=[cast("Entry", frozen(entry)) for entry in path],  # likewise
            custom_instructions=instructions,
            reason=reason,
            will_retry=reason == "overflow",
        )

    decision = await runner.chains.decide("session_before_compact", event)
    if isinstance(decision, rs.Cancel):
        return "cancelled"
    return _result(decision, path) if isinstance(decision, rs.Compaction) else None


def _preparation(plan: "Plan", settings: CompactionSettings) -> Mapping[str, object]:
    cut, budgets = plan.cut, plan.budgets
    files = file_operations(cut.summarised, cut.compaction)
    preparation: dict[str, object] = {
        "firstKeptEntryId": cut.first_kept_entry_id,
        "messagesToSummarize": cut.history,
        "turnPrefixMessages": cut.turn_prefix,
        "isSplitTurn": bool(cut.turn_prefix),
        "tokensBefore": plan.tokens_before,
        "fileOps": {"read": files.read, "modified": files.modified},
        "settings": {
            "enabled": settings.is_enabled,
            "reserveTokens": budgets.reserve_tokens,
            "keepRecentTokens": budgets.keep_tokens,
        },
    }
    if cut.previous_summary is not None:
        preparation["previousSummary"] = cut.previous_summary
    return preparation


def _result(made: rs.Compaction, path: Sequence[Entry]) -> "CompactionResult":
    from pinnace_agent.compaction.summarize import CompactionFailed

    if not made.summary or all(entry.get("id") != made.first_kept_entry_id for entry in path):
        raise CompactionFailed(errors.EXTENSION_COMPACTION_INVALID)
    fields = {
        "summary": made.summary,
        "firstKeptEntryId": made.first_kept_entry_id,
        "tokensBefore": made.tokens_before,
    }
    context = build_context([*path, {"type": "compaction", "id": "", **fields}])
    result: CompactionResult = {
        "summary": made.summary,
        "firstKeptEntryId": made.first_kept_entry_id,
        "tokensBefore": made.tokens_before,
        "estimatedTokensAfter": sum_of_estimates(context.messages),
        "details": {} if made.details is None else made.details,
    }
    if made.usage is not None:
        result["usage"] = made.usage
    return result


def compacted(runner: Runner, entry: Entry, reason: Reason, *, from_extension: bool, will_retry: bool) -> None:
    """Fire `session_compact`."""
    runner.lane.put(
        "session_compact",
        lambda: ev.SessionCompact(
            compaction_entry=cast("Entry", frozen(entry)),  # cast: a copy of it
            from_extension=from_extension,
            reason=reason,
            will_retry=will_retry,
        ),
    )
    runner.drain_later()


def failed(runner: Runner, reason: Reason, text: str | None, *, aborted: bool, from_extension: bool) -> None:
    """Fire `session_compact_failed`."""
    runner.lane.put(
        "session_compact_failed",
        lambda: ev.SessionCompactFailed(
            reason=reason, error_message=text, aborted=aborted, from_extension=from_extension
        ),
    )
    runner.drain_later()
