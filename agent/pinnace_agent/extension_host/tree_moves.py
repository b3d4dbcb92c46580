"""Going to another entry of a session: `ctx.navigate_tree` (K4).

Extensions may refuse it, write the summary of the branch that is left, or change how it is asked for (E12), and hear of
it afterwards (E13). Going to a text of the user means to go to what stood before it, so that it can be said anew. Only
while nothing runs. Must not know how an extension's function is called.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions import results as rs
from pinnace_agent.extensions.frozen import frozen
from pinnace_agent.extensions.host_view import SessionResult, TreeMove
from pinnace_agent.extensions.session_events import TreePreparation
from pinnace_agent.llm.json_edge import as_object
from pinnace_agent.session import Session
from pinnace_spec import errors
from pinnace_spec.entries import Entry

if TYPE_CHECKING:
    from pinnace_agent.extension_host.seat import ExtensionSeat

# As much as a summary of a branch may say.
_SUMMARY_TOKENS = 2048


class _Ways(NamedTuple):
    """The way from one leaf to another."""

    target: int
    common: int | None
    left: Sequence[Entry]
    """What is on the old branch alone, oldest first."""


async def navigate(seat: "ExtensionSeat", session: Session, target_id: str, move: TreeMove) -> SessionResult:
    """Go to an entry.

    Raises:
        RuntimeError: Something runs, there is no such entry, or a summary is wanted and can't be had.
    """
    host, runner = seat.host, seat.runner
    if not host.idleness.is_idle:
        raise RuntimeError("navigate_tree: something runs; wait_for_idle() first")
    target = session.tree.find(target_id)
    if target is None:
        raise RuntimeError(f"navigate_tree: there is no entry {target_id!r}")
    if move.summarize and session.model is None:
        raise RuntimeError(f"navigate_tree: a summary is wanted. {errors.NO_MODEL}")
    ways = _ways(session, target)
    old_leaf = _id(session, session.tree.leaf)
    if target == session.tree.leaf:
        return SessionResult(cancelled=False)
    summary: rs.TreeSummary | None = None
    options = rs.TreeOptions()
    if runner is not None and runner.has_handlers("session_before_tree"):
        preparation = _preparation(session, target_id, ways, move)
        decision = await runner.chains.decide(
            "session_before_tree", lambda: ev.SessionBeforeTree(preparation=preparation)
        )
        if isinstance(decision, rs.Cancel):
            return SessionResult(cancelled=True)
        if isinstance(decision, rs.TreeOptions):
            options = decision
            summary = decision.summary if move.summarize else None
    instructions = options.custom_instructions or move.custom_instructions
    fields: dict[str, object] | None = None
    is_extensions = summary is not None
    if summary is not None:
        fields = _fields(summary.summary, old_leaf, summary.details, summary.usage)
        fields["fromHook"] = True
    elif move.summarize and ways.left:
        fields = await _summarized(seat, session, ways.left, instructions, old_leaf)
    entry = session.move(_landing(session, target), fields)
    label = options.label or move.label
    if label:
        session.keep_label(str(entry["id"]) if fields is not None else target_id, label)
    if runner is not None:
        await runner.chains.notify(
            "session_tree",
            lambda: ev.SessionTree(
                new_leaf_id=_id(session, session.tree.leaf),
                old_leaf_id=old_leaf,
                summary_entry=cast("Entry", frozen(entry)) if fields is not None else None,  # cast: a copy of it
                from_extension=is_extensions if fields is not None else None,
            ),
        )
    return SessionResult(cancelled=False)


def _id(session: Session, place: int | None) -> str | None:
    return None if place is None else str(session.tree.entries[place]["id"])


def _ways(session: Session, target: int) -> _Ways:
    tree = session.tree
    to: set[int] = set()
    at: int | None = target
    while at is not None:
        to.add(at)
        at = tree.parent(at)
    left: list[Entry] = []
    at = tree.leaf
    while at is not None and at not in to:
        left.append(tree.entries[at])
        at = tree.parent(at)
    return _Ways(target, at, left[::-1])


def _landing(session: Session, target: int) -> int | None:
    """Return the leaf from which to go on: before a text that the user may want to say anew."""
    entry = session.tree.entries[target]
    message = as_object(entry.get("message"))
    is_text = entry.get("type") == "message" and message is not None and message.get("role") == "user"
    return session.tree.parent(target) if is_text or entry.get("type") == "custom_message" else target


def _preparation(session: Session, target_id: str, ways: _Ways, move: TreeMove) -> TreePreparation:
    preparation: TreePreparation = {
        "targetId": target_id,
        "oldLeafId": _id(session, session.tree.leaf),
        "commonAncestorId": _id(session, ways.common),
        "entriesToSummarize": tuple(cast("Entry", frozen(entry)) for entry in ways.left),  # cast: copies of them
        "userWantsSummary": move.summarize,
        "replaceInstructions": move.replace_instructions,
    }
    if move.custom_instructions is not None:
        preparation["customInstructions"] = move.custom_instructions
    if move.label is not None:
        preparation["label"] = move.label
    return preparation


def _fields(summary: str, from_id: str | None, details: object, usage: object) -> dict[str, object]:
    fields: dict[str, object] = {"fromId": from_id or "root", "summary": summary}
    if details is not None:
        fields["details"] = details
    if usage is not None:
        fields["usage"] = usage
    return fields


async def _summarized(
    seat: "ExtensionSeat", session: Session, left: Sequence[Entry], instructions: str | None, from_id: str | None
) -> dict[str, object] | None:
    """Have a summary of what is left written by the session's model; None: there is nothing to say."""
    from pinnace_agent.compaction.branch import messages_of
    from pinnace_agent.compaction.estimate import tokens_per_byte
    from pinnace_agent.compaction.serialisation import paragraphs
    from pinnace_agent.compaction.summarize import Asked, CompactionFailed, Writer, summarize

    conversation = paragraphs(messages_of(left))
    if not conversation:
        return None
    profile, model = seat.host.profile, session.model
    assert model is not None
    credentials = await profile.registry.credentials(model)
    if credentials.problem is not None:
        raise RuntimeError(credentials.problem)
    writer = Writer(
        model,
        credentials,
        session.thinking_level,
        session.id,
        seat.host.chart.state.retry,
        profile.idle_timeout_s,
        profile.thinking_budgets,
        profile.registry.provider_for(model),
    )
    asked = Asked("history", conversation, None, instructions, tokens_per_byte(session.messages))
    try:
        summary = await summarize(writer, asked, _SUMMARY_TOKENS)
    except CompactionFailed as error:
        raise RuntimeError(error.text) from None
    return _fields(summary.text, from_id, None, summary.usage)
