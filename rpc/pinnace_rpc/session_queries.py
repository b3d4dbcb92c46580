"""Reads of the session: its entries, its tree, its totals, and how safe it is.

One function a command, as in `queries`. Must not change anything and must not await.
"""

from typing import TYPE_CHECKING, Protocol

from pinnace_agent.session import Session
from pinnace_agent.session.branch_copy import fork_messages
from pinnace_agent.session.tree_json import encode_nodes
from pinnace_spec import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pinnace_spec import commands as cmd


class _Host(Protocol):
    @property
    def session(self) -> Session: ...


def session_status(session: Session) -> "Mapping[str, object]":
    """Say whether everything is saved, and what was wrong with the file: additive, for supervisors (R-SES-07)."""
    problem = session.problem
    status: dict[str, object] = {"saved": problem is None}
    if problem is not None:
        status["problem"] = problem
    if session.file is not None and session.file.unsaved:
        status["unsavedEntries"] = session.file.unsaved
    if session.file is not None and session.file.foreign_lines:
        status["foreignEntries"] = session.file.foreign_lines
    report = session.report
    if report.damaged_lines:
        status["damagedLines"] = report.damaged_lines
    if report.orphans:
        status["orphans"] = report.orphans
    if report.has_torn_tail:
        status["tornTail"] = True
    if report.damaged_copy is not None:
        status["damagedCopy"] = report.damaged_copy
    return status


def get_entries(host: _Host, command: "cmd.GetEntries") -> "Mapping[str, object]":
    """All entries of the file in its order, on whichever branch; or those after one of them."""
    tree = host.session.tree
    first = 0
    if command.since_entry is not None:
        place = tree.find(command.since_entry)
        if place is None:
            raise errors.ClientError(errors.entry_not_found(command.since_entry), errors.ErrorCode.ENTRY_NOT_FOUND)
        first = place + 1
    return {"entries": tree.entries[first:], "leafId": host.session.tree.leaf_id}


def get_tree(host: _Host) -> "Mapping[str, object]":
    """All entries as a tree, and where the session is in it."""
    return {"tree": encode_nodes(host.session.tree.nodes()), "leafId": host.session.tree.leaf_id}


def get_fork_messages(host: _Host) -> "Mapping[str, object]":
    """The user's messages with a text, on all branches."""
    return {"messages": [{"entryId": entry_id, "text": text} for entry_id, text in fork_messages(host.session.tree)]}


def get_branch_messages(host: _Host) -> "Mapping[str, object]":
    """The same for the oldest generation, which counts entries."""
    tree = host.session.tree
    return {"messages": [{"entryIndex": tree.find(entry_id), "text": text} for entry_id, text in fork_messages(tree)]}


def get_session_stats(host: _Host) -> "Mapping[str, object]":
    """Counts, tokens and cost of the messages of the context, and how full it is."""
    from pinnace_agent.session.usage import context_usage  # not at start: it knows all of compaction

    session = host.session
    data: dict[str, object] = {
        "sessionId": session.id,
        **session.meter.counts(),
        "session": session.totals.of(session.tree.entries),
    }
    if (path := session.path) is not None:
        data["sessionFile"] = path
    if (usage := context_usage(session)) is not None:
        data["contextUsage"] = usage
    return data
