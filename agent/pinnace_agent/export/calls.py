"""Pairs results with calls: a result belongs to the call with its id in the last answer before it on its branch.

Pure, and linear in the entries. Ids may be used again later in a session, and a call may have a result on several
branches.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pinnace_agent.core.json_access import as_array, as_object, as_text
from pinnace_agent.export.branches import EntryChain
from pinnace_agent.session.tree import EntryTree


class ExportedCall(NamedTuple):
    """A call of a tool, as its answer holds it."""

    place: int
    """Of the answer."""
    block: Mapping[str, object]


class Calls(NamedTuple):
    """The calls of a page and their results."""

    of_results: Mapping[int, ExportedCall]
    """By the place of the result."""
    results: Mapping[tuple[int, str], int]
    """By the place of the answer and the id of the call: the place of its first result."""


def paired(tree: EntryTree, branches: Iterable[EntryChain]) -> Calls:
    """Find the call of each result on some branches; each comes after the one that it parts from."""
    of_results: dict[int, ExportedCall] = {}
    results: dict[tuple[int, str], int] = {}
    answers: dict[int, dict[str, ExportedCall]] = {}
    nearest: dict[int | None, int | None] = {None: None}
    for branch in branches:
        before = nearest.get(branch.parting)
        for place in branch.places:
            message = as_object(tree.entries[place].get("message")) or {}
            if message.get("role") == "assistant":
                before = place
                answers[place] = _calls_in(place, message)
            elif message.get("role") == "toolResult" and before is not None:
                call_id = as_text(message.get("toolCallId")) or ""
                if call := answers[before].get(call_id):
                    of_results[place] = call
                    results.setdefault((before, call_id), place)
            nearest[place] = before
    return Calls(of_results, results)


def _calls_in(place: int, message: Mapping[str, object]) -> dict[str, ExportedCall]:
    found: dict[str, ExportedCall] = {}
    for block in as_array(message.get("content")):
        fields = as_object(block) or {}
        call_id = as_text(fields.get("id"))
        if fields.get("type") == "toolCall" and call_id:
            found.setdefault(call_id, ExportedCall(place, fields))
    return found
