"""Finds what the last prompt of a session was doing when its process ended without closing it.

An orderly end of a run leaves an answer without calls at the end of the branch, or an entry `pinnace.run-ended`. Any
other end is an interruption: kill -9, a crash, or a loss of power. An answer that failed is no end where an entry
`pinnace.retrying` follows it, nor where the context does not show it any more. Pure.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypedDict

from pinnace_agent.session.context import context_message
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import AssistantMessage, UserMessage

RUN_ENDED: Final = "pinnace.run-ended"
"""The type of an entry after messages that seem interrupted and are not: their run has ended."""
RETRYING: Final = "pinnace.retrying"
"""Follows an answer that has failed and is asked for again."""
MAX_TEXT_CHARS: Final = 200
"""How much of the prompt is returned."""


class CutCall(TypedDict):
    """A call of a tool that has no result."""

    id: str
    name: str


class Interruption(TypedDict):
    """What was cut, and where: `get_state.interrupted`."""

    entryId: str
    """Of the user's message."""
    text: str
    """Its beginning."""
    during: Literal["answer", "tools"]
    """What was being waited for: the model's answer, or results of tools."""
    cutCalls: list[CutCall]
    """Calls without a result. The tools may have begun, and may have had effects."""


def find_interruption(newest_first: Iterable[Entry]) -> Interruption | None:
    """Return what was cut on a branch; None: nothing was.

    Args:
        newest_first: The entries of the branch, from its leaf to its root; no more are taken than are needed.
    """
    answered: set[str] = set()
    hidden: set[object] = set()
    cut: list[CutCall] | None = None
    is_retried = False
    for entry in newest_first:
        kind = entry.get("type")
        if kind == "custom" and cut is None:
            if entry.get("customType") == RUN_ENDED:
                return None
            is_retried = is_retried or entry.get("customType") == RETRYING
        elif kind == "context_edit" and entry.get("replacement") is None:
            hidden.add(entry.get("targetId"))
        message = None if entry.get("id") in hidden else context_message(entry)
        if message is None:
            continue
        if message["role"] == "user":
            during: Literal["answer", "tools"] = "tools" if cut else "answer"
            text = _text(message)[:MAX_TEXT_CHARS]
            return {"entryId": str(entry.get("id")), "text": text, "during": during, "cutCalls": cut or []}
        if cut is not None:
            continue
        if message["role"] == "toolResult":
            answered.add(message["toolCallId"])
        elif message["role"] == "assistant":
            calls = _calls(message)
            if not calls and not is_retried:
                return None
            cut = [call for call in calls if call["id"] not in answered]
    return None


def _calls(message: AssistantMessage) -> list[CutCall]:
    if message["stopReason"] in {"error", "aborted"}:
        return []
    blocks = (block for block in message["content"] if block["type"] == "toolCall")
    return [{"id": block["id"], "name": block["name"]} for block in blocks]


def _text(message: UserMessage) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")
