"""Results that are in a session's file, and not in its conversation yet: entries beside it, which no model reads.

The result of a client's shell command waits for the end of a run, that of a sub-agent for the other calls of the same
answer. Where a crash comes first, the conversation gets it when the session is opened for writing next.
"""

from typing import TYPE_CHECKING, Final

from pinnace_agent.core.json_access import as_object
from pinnace_agent.session.context import context_message
from pinnace_agent.session.conversation import PENDING_SHELL, Session
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message, ToolResultMessage

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.session.tree import EntryTree

PENDING_RESULT: Final = "pinnace.pending-result"
"""The type of an entry with the result of a call."""


def put_aside(session: Session, message: ToolResultMessage, answer_id: str, entry_id: str) -> None:
    """Keep a result that can't enter the conversation yet, as `Session.keep` does.

    Args:
        session: Without a file it keeps nothing.
        message: The result.
        answer_id: The entry of the answer with its call.
        entry_id: The entry that the result will be.
    """
    if session.file is not None:
        session.keep_custom(PENDING_RESULT, {"answerId": answer_id, "entryId": entry_id, "message": message})


def take_pending(session: Session) -> None:
    """Give the conversation what a crash has kept out of it. For a session that was opened for writing."""
    for message in _pending_shells(session.tree):
        session.keep(message)
    for entry_id, result in _pending_results(session.tree):
        session.keep(result, entry_id=entry_id)


def _pending_shells(tree: "EntryTree") -> list[Message]:
    """Return results of shell commands that were kept aside, and that a crash has kept out of the conversation."""
    kept_aside = [entry.get("data") for entry in tree.entries if entry.get("customType") == PENDING_SHELL]
    if not kept_aside:
        return []
    recorded = [message for entry in tree.entries if (message := context_message(entry)) and _is_shell(message)]
    pending = [context_message({"type": "message", "message": data}) for data in kept_aside if data not in recorded]
    return [message for message in pending if message is not None and _is_shell(message)]


def _pending_results(tree: "EntryTree") -> list[tuple[str, ToolResultMessage]]:
    """Return results that were put aside while other calls of the same answer worked, as a crash has left them.

    Only those of the last answer of the branch, in the order of its calls, each with the entry that it was to be.
    """
    aside: dict[str, tuple[str, ToolResultMessage]] = {}
    answered: set[str] = set()
    for entry in tree.upward(tree.leaf):
        message = context_message(entry)
        if message is None:
            if entry.get("customType") == PENDING_RESULT and (found := _put_aside(entry)) is not None:
                aside.setdefault(found[0], found[1:])
        elif message["role"] == "toolResult":
            answered.add(message["toolCallId"])
        elif message["role"] == "assistant":
            calls = [block["id"] for block in message["content"] if block["type"] == "toolCall"]
            pending = [
                (entry_id, result)
                for entry_id, (answer_id, result) in aside.items()
                if answer_id == entry.get("id") and tree.find(entry_id) is None
                if result["toolCallId"] in calls and result["toolCallId"] not in answered
            ]
            return sorted(pending, key=lambda each: calls.index(each[1]["toolCallId"]))
        elif message["role"] == "user":
            break
    return []


def _put_aside(entry: Entry) -> tuple[str, str, ToolResultMessage] | None:
    """Return which entry a result is to be, the entry of its answer, and the result; None: it is none."""
    data = as_object(entry.get("data")) or {}
    entry_id, answer_id = data.get("entryId"), data.get("answerId")
    message = context_message({"type": "message", "message": data.get("message")})
    if message is None or message["role"] != "toolResult":
        return None
    return (entry_id, answer_id, message) if isinstance(entry_id, str) and isinstance(answer_id, str) else None


def _is_shell(message: Message) -> bool:
    return message["role"] == "bashExecution"
