"""Settle hooks: the chains at the end of a turn and before settling, in which extensions add entries and continue.

Each handler sees the proposal so far, which is a list of entry drafts and whether to continue, and may replace either.
An invalid proposal is reported; later handlers may repair it, else it is dropped as a whole.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import trio

from pinnace_agent.core.json_values import own_copy
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.events.blocks import is_blocks
from pinnace_agent.extensions.events.result_reader import ResultError
from pinnace_agent.extensions.handlers.chains import Chains
from pinnace_spec.records.messages import Message

Draft = Mapping[str, object]
Preview = Callable[[Sequence[Draft]], Sequence[Message]]
"""Returns the messages that a model would receive with these entries."""


class Proposal(NamedTuple):
    """The entries to append, and whether the agent continues."""

    entries: Sequence[Draft] = ()
    continues: bool = False


NOTHING: Final = Proposal()


async def run_settle_hooks(
    chains: Chains,
    name: Literal["turn_end", "agent_before_settle"],
    make: Callable[[], ev.TurnEnd | ev.AgentBeforeSettle],
    preview: Preview | None = None,
) -> Proposal:
    """Call the handlers of the end of a turn, or of settling, and return their proposal.

    After an abort or an error the agent never continues.

    Args:
        chains: The chains of the session instance.
        name: The event's name.
        make: Creates the event; called only if it has a handler.
        preview: Returns the context with a proposal, for handlers; None: they see the context of the event.
    """
    caller = chains.caller
    bounds = caller.bound(name)
    if not bounds:
        return NOTHING
    event = make()
    proposal = Proposal()
    for bound in bounds:
        if caller.is_stale:
            return NOTHING
        event.entries, event.continue_ = tuple(own_copy(proposal.entries)), proposal.continues
        if preview is not None and problem_of(proposal) is None:
            event.context = preview(proposal.entries)
        result = await chains.result_of(bound, event)
        if not isinstance(result, rs.Boundary):
            continue
        if not isinstance(result.entries, rs.Unset):
            proposal = proposal._replace(entries=tuple(result.entries))
        if not isinstance(result.continue_, rs.Unset):
            proposal = proposal._replace(continues=result.continue_)
        if (problem := problem_of(proposal)) is not None:
            caller.report(bound.owner, ResultError(f"{event.type}: {problem}"))
    await trio.lowlevel.checkpoint_if_cancelled()
    if problem_of(proposal) is not None:
        return NOTHING
    is_stopped = isinstance(event, ev.AgentBeforeSettle) and event.outcome != "completed"
    return proposal._replace(continues=False) if is_stopped else proposal


def problem_of(proposal: Proposal) -> str | None:
    """Return what is wrong with a proposal; None: it is valid."""
    for number, draft in enumerate(proposal.entries):
        if (problem := _draft_problem(draft)) is not None:
            return f"entry {number}: {problem}"
    return None


def _draft_problem(draft: Draft) -> str | None:
    match draft.get("type"):
        case "custom":
            is_valid = isinstance(draft.get("customType"), str)
            wanted = "customType"
        case "custom_message":
            content = draft.get("content")
            is_content = isinstance(content, str) or is_blocks(content)
            is_valid = (
                isinstance(draft.get("customType"), str) and is_content and isinstance(draft.get("display"), bool)
            )
            wanted = "customType, content and display"
        case "context_edit":
            replacement = draft.get("replacement")
            is_content = replacement is None or isinstance(replacement, str) or is_blocks(replacement)
            is_valid = isinstance(draft.get("targetId"), str) and is_content
            wanted = "targetId and a replacement: None, a string or blocks"
        case "compaction":
            tokens = draft.get("tokensBefore")
            is_valid = (
                isinstance(draft.get("summary"), str)
                and isinstance(draft.get("firstKeptEntryId"), str)
                and isinstance(tokens, int)
                and not isinstance(tokens, bool)
            )
            wanted = "summary, firstKeptEntryId and tokensBefore"
        case other:
            return f"there is no draft of type {other!r}, only custom, custom_message, context_edit and compaction"
    return None if is_valid else f"a draft of type {draft['type']!r} needs {wanted}"
