"""Moves to another entry of a session: where they land, what they leave, and the summary of the branch that is left.

A move to a message of the user, or of an extension, lands before it, so that it can be sent anew. Changes nothing:
`session.conversation` moves. Rule R-SES-13.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pinnace_agent.compaction.branch import messages_of
from pinnace_agent.compaction.serialisation import paragraphs
from pinnace_agent.compaction.summarize import CompactionFailed, SummaryInput, Writer, summarize
from pinnace_agent.session.branch_copy import content_text, user_text
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.replacement import MoveRequest
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry
from pinnace_spec.rules.errors import ErrorCode

# The longest summary of a branch.
_SUMMARY_TOKENS = 2048


class LeafMove(NamedTuple):
    """The way from the leaf of a session to an entry, by places in the tree."""

    request: MoveRequest
    target: int | None
    """None: before the first entry."""
    landing: int | None
    """The leaf from which the conversation continues."""
    common: int | None
    """The last entry that both branches have."""
    left: Sequence[Entry]
    """What is on the old branch alone, oldest first."""
    text: str | None
    """Of the message before which it lands; None: it lands at the entry."""
    old_leaf_id: str | None


class MoveDecision(NamedTuple):
    """What handlers of extensions want of a move; None: as it was requested."""

    instructions: str | None = None
    label: str | None = None
    summary: Mapping[str, object] | None = None
    """Fields of the entry of a summary that an extension has written."""


def plan_move(tree: EntryTree, request: MoveRequest, target: int | None) -> LeafMove:
    """Return the way to an entry; it takes time in proportion to the branches."""
    to: set[int] = set()
    at = target
    while at is not None:
        to.add(at)
        at = tree.parent(at)
    left: list[Entry] = []
    at = tree.leaf
    while at is not None and at not in to:
        left.append(tree.entries[at])
        at = tree.parent(at)
    landing, text = target, None
    if target is not None and (text := _text_to_send(tree.entries[target])) is not None:
        landing = tree.parent(target)
    return LeafMove(request, target, landing, at, left[::-1], text, id_at(tree, tree.leaf))


def id_at(tree: EntryTree, place: int | None) -> str | None:
    """Return the id of an entry."""
    return None if place is None else str(tree.entries[place]["id"])


def _text_to_send(entry: Entry) -> str | None:
    """Return the text of a message that can be sent anew; None: it is none."""
    return content_text(entry.get("content")) if entry.get("type") == "custom_message" else user_text(entry)


def summary_fields(summary: str, from_id: str | None, details: object, usage: object) -> dict[str, object]:
    """Return the fields of the entry with a summary of the branch that ends with an entry."""
    fields: dict[str, object] = {"fromId": from_id or "root", "summary": summary}
    if details is not None:
        fields["details"] = details
    if usage is not None:
        fields["usage"] = usage
    return fields


async def summarize_left(
    writer: Writer, move: LeafMove, session: Session, instructions: str | None
) -> dict[str, object] | None:
    """Have a summary of what is left written, and return the fields of its entry; None: there is nothing to say.

    Raises:
        CompactionFailed: No summary was written.
    """
    from pinnace_agent.session.context_meter import tokens_per_byte

    if writer.credentials.problem is not None:
        raise CompactionFailed(writer.credentials.problem, ErrorCode.NO_API_KEY)
    conversation = paragraphs(messages_of(move.left))
    if not conversation:
        return None
    asked = SummaryInput("history", conversation, None, instructions, tokens_per_byte(session.messages))
    summary = await summarize(writer, asked, _SUMMARY_TOKENS)
    return summary_fields(summary.text, move.old_leaf_id, None, summary.usage)
