"""What the last prompt of a session was doing when its process ended without closing it.

An orderly end of a run leaves an answer without calls at the end of the branch, or results that say that they were
aborted. What ends otherwise was cut: by kill -9, a crash, or a loss of power. Only a run that a tool's result has ended
looks the same, or one that a limit has, since the results are its last messages. Pure.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypedDict

from pinnace_agent.session.context import context_message
from pinnace_spec import errors
from pinnace_spec.entries import Entry
from pinnace_spec.messages import AssistantMessage, ToolResultMessage, UserMessage

MAX_TEXT_CHARS: Final = 200
"""How much of the prompt is told."""


_ABORTED: Final = (errors.ABORTED_BEFORE_START, errors.OPERATION_ABORTED, errors.SHELL_ABORTED)


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


def find_interruption(path: Sequence[Entry]) -> Interruption | None:
    """Return what was cut on a branch; None: nothing was.

    Args:
        path: The branch, from its root to its leaf.
    """
    answered: set[str] = set()
    cut: list[CutCall] | None = None
    for entry in reversed(path):
        message = context_message(entry)
        if message is None:
            continue
        if message["role"] == "user":
            during: Literal["answer", "tools"] = "tools" if cut else "answer"
            text = _text(message)[:MAX_TEXT_CHARS]
            return {"entryId": str(entry.get("id")), "text": text, "during": during, "cutCalls": cut or []}
        if cut is not None:
            continue
        if message["role"] == "toolResult":
            if message["isError"] and _text(message).endswith(_ABORTED):
                return None
            answered.add(message["toolCallId"])
        elif message["role"] == "assistant":
            calls = _calls(message)
            if not calls:
                return None
            cut = [call for call in calls if call["id"] not in answered]
    return None


def _calls(message: AssistantMessage) -> list[CutCall]:
    if message["stopReason"] in {"error", "aborted"}:
        return []
    blocks = (block for block in message["content"] if block["type"] == "toolCall")
    return [{"id": block["id"], "name": block["name"]} for block in blocks]


def _text(message: UserMessage | ToolResultMessage) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")
