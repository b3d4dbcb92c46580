"""Hooks of moves in the session's tree: handlers may refuse one, write its summary or change its options."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast

from pinnace_agent.core.frozen import frozen
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.events.session_events import TreePreparation
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry

if TYPE_CHECKING:
    from pinnace_agent.compaction.tree_moves import LeafMove, MoveDecision


async def decided(runner: Runner, tree: EntryTree, move: "LeafMove") -> "MoveDecision | Literal['cancelled']":
    """Let handlers decide about a move."""
    from pinnace_agent.compaction.tree_moves import MoveDecision, summary_fields

    preparation = _preparation(tree, move)
    decision = await runner.chains.decide("session_before_tree", lambda: ev.SessionBeforeTree(preparation=preparation))
    if isinstance(decision, rs.Cancel):
        return "cancelled"
    if not isinstance(decision, rs.TreeOptions):
        return MoveDecision()
    summary = decision.summary if move.request.summarize else None
    if summary is None:
        return MoveDecision(decision.custom_instructions, decision.label)
    fields = summary_fields(summary.summary, move.old_leaf_id, summary.details, summary.usage)
    return MoveDecision(decision.custom_instructions, decision.label, {**fields, "fromHook": True})


def _preparation(tree: EntryTree, move: "LeafMove") -> TreePreparation:
    from pinnace_agent.compaction.tree_moves import id_at

    request = move.request
    preparation: TreePreparation = {
        "targetId": request.target_id,
        "oldLeafId": move.old_leaf_id,
        "commonAncestorId": id_at(tree, move.common),
        "entriesToSummarize": tuple(cast("Entry", frozen(entry)) for entry in move.left),  # cast: copies of them
        "userWantsSummary": request.summarize,
        "replaceInstructions": request.replace_instructions,
    }
    if request.instructions is not None:
        preparation["customInstructions"] = request.instructions
    if request.label is not None:
        preparation["label"] = request.label
    return preparation


async def moved(
    runner: Runner, new_leaf_id: str | None, old_leaf_id: str | None, summary: Entry | None, then: Callable[[], None]
) -> None:
    """Publish that the session has moved, and then call `then`; messages of handlers are sent behind that."""
    runner.actions.begin_settling()
    try:
        await runner.chains.notify(
            "session_tree",
            lambda: ev.SessionTree(
                new_leaf_id=new_leaf_id,
                old_leaf_id=old_leaf_id,
                summary_entry=None if summary is None else cast("Entry", frozen(summary)),  # cast: a copy of it
                from_extension=None if summary is None else summary.get("fromHook") is True,
            ),
        )
        then()
    finally:
        runner.actions.end_settling()
