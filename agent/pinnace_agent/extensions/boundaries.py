"""The chains at the end of a turn and before settling: what extensions add, and whether the agent goes on.

A proposal of entries and a wish to go on, which each handler sees and may replace field by field. One that is invalid
is told, later handlers may still repair it, and in the end it is dropped whole. Must not know entries of a session
file, only drafts of them. R28; E20, E23.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import trio

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions import results as rs
from pinnace_agent.extensions.chains import Chains
from pinnace_agent.extensions.json_values import own_copy
from pinnace_agent.extensions.result_reader import ResultError
from pinnace_agent.extensions.result_shapes import is_blocks
from pinnace_spec.messages import Message

Draft = Mapping[str, object]
Preview = Callable[[Sequence[Draft]], Sequence[Message]]
"""Returns what a model would be shown with these entries."""


class Proposal(NamedTuple):
    """What is to be appended, and whether the agent shall go on."""

    entries: Sequence[Draft] = ()
    goes_on: bool = False


NOTHING: Final = Proposal()


async def run_boundary(
    chains: Chains,
    name: Literal["turn_end", "agent_before_settle"],
    make: Callable[[], ev.TurnEnd | ev.AgentBeforeSettle],
    preview: Preview | None = None,
) -> Proposal:
    """Tell the end of a turn or of the work, and return what the handlers propose.

    After an abort or an error nothing goes on, whatever they say.

    Args:
        chains: Whose handlers.
        name: Of the event.
        make: Makes the event; called only if somebody listens.
        preview: Makes what handlers see of their proposal; without it they see the context of the event.
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
        event.entries, event.continue_ = tuple(own_copy(proposal.entries)), proposal.goes_on
        if preview is not None and problem_of(proposal) is None:
            event.context = preview(proposal.entries)
        answer = await chains.answer(bound, event)
        if not isinstance(answer, rs.Boundary):
            continue
        if not isinstance(answer.entries, rs.Unset):
            proposal = proposal._replace(entries=tuple(answer.entries))
        if not isinstance(answer.continue_, rs.Unset):
            proposal = proposal._replace(goes_on=answer.continue_)
        if (problem := problem_of(proposal)) is not None:
            caller.tell(bound.owner, ResultError(f"{event.type}: {problem}"))
    await trio.lowlevel.checkpoint_if_cancelled()
    if problem_of(proposal) is not None:
        return NOTHING
    is_stopped = isinstance(event, ev.AgentBeforeSettle) and event.outcome != "completed"
    return proposal._replace(goes_on=False) if is_stopped else proposal


def problem_of(proposal: Proposal) -> str | None:
    """Say what is wrong with a proposal; None: nothing."""
    for number, draft in enumerate(proposal.entries):
        if (problem := _draft_problem(draft)) is not None:
            return f"entry {number}: {problem}"
    return None


def _draft_problem(draft: Draft) -> str | None:
    match draft.get("type"):
        case "custom":
            is_right = isinstance(draft.get("customType"), str)
            wanted = "customType"
        case "custom_message":
            content = draft.get("content")
            is_content = isinstance(content, str) or is_blocks(content)
            is_right = (
                isinstance(draft.get("customType"), str) and is_content and isinstance(draft.get("display"), bool)
            )
            wanted = "customType, content and display"
        case "context_edit":
            replacement = draft.get("replacement")
            is_content = replacement is None or isinstance(replacement, str) or is_blocks(replacement)
            is_right = isinstance(draft.get("targetId"), str) and is_content
            wanted = "targetId and a replacement: None, a text or blocks"
        case "compaction":
            tokens = draft.get("tokensBefore")
            is_right = (
                isinstance(draft.get("summary"), str)
                and isinstance(draft.get("firstKeptEntryId"), str)
                and isinstance(tokens, int)
                and not isinstance(tokens, bool)
            )
            wanted = "summary, firstKeptEntryId and tokensBefore"
        case other:
            return f"there is no draft of type {other!r}, only custom, custom_message, context_edit and compaction"
    return None if is_right else f"a draft of type {draft['type']!r} needs {wanted}"
