"""What a client has shown of a conversation in the end, from the updates of either version, to compare two of them.

Version 1: messages and calls of the agent; the user's own messages are left out, since live they are not repeated.
Version 2: everything is an upsert by its id, and the user's messages are among it. Pure.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Message: TypeAlias = Mapping[str, Any]  # Any: JSON
Conversation: TypeAlias = Mapping[str, Any]

_OF_CALLS: Final = ("title", "kind", "status", "content", "rawInput")
"""The fields of a tool call that are compared."""
_WHOLE: Final = frozenset({"user_message", "agent_message", "agent_thought"})
_CHUNKS: Final = {f"{kind}_chunk": kind for kind in _WHOLE}


def conversation(messages: Sequence[Message], version: int) -> Conversation:
    """Return what a client has shown of messages and tool calls, in the end.

    Args:
        messages: Everything that the agent has written.
        version: Of the protocol.
    """
    updates = [each["params"]["update"] for each in messages if each.get("method") == "session/update"]
    return _upserted(updates) if version > 1 else _streamed(updates)


def _streamed(updates: Iterable[Message]) -> Conversation:
    texts: list[dict[str, Any]] = []
    calls: dict[str, dict[str, Any]] = {}
    for update in updates:
        kind = update["sessionUpdate"]
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            key = {"kind": kind.removesuffix("_chunk"), "messageId": update.get("messageId")}
            if not texts or {name: texts[-1][name] for name in key} != key:
                texts.append({**key, "text": ""})
            texts[-1]["text"] += update["content"].get("text", "")
        elif kind in ("tool_call", "tool_call_update"):
            fields = {name: update[name] for name in _OF_CALLS if name in update}
            calls.setdefault(update["toolCallId"], {}).update(fields)
    return {"messages": texts, "calls": calls}


def _upserted(updates: Iterable[Message]) -> Conversation:
    texts: dict[tuple[str, str], dict[str, Any]] = {}
    calls: dict[str, dict[str, Any]] = {}
    terminals: dict[str, dict[str, Any]] = {}
    for update in updates:
        kind = update["sessionUpdate"]
        if kind in _WHOLE or kind in _CHUNKS:
            key: tuple[str, str] = (_CHUNKS.get(kind) or kind, update["messageId"])
            message = texts.setdefault(key, {"kind": key[0], "messageId": key[1], "text": ""})
            if kind in _CHUNKS:
                message["text"] += text_of([update["content"]])
            elif "content" in update:
                message["text"] = text_of(update["content"] or ())
        elif kind == "tool_call_update":
            call = calls.setdefault(update["toolCallId"], {})
            # A field that is cleared is one that a replay does not have.
            call.update({name: update[name] for name in _OF_CALLS if name in update})
            for name in [name for name, value in call.items() if value in (None, [])]:
                del call[name]
        elif kind in ("terminal_update", "terminal_output_chunk"):
            _show(terminals.setdefault(update["terminalId"], {"output": ""}), update)
    # A message whose content was taken back is none.
    return {"messages": [each for each in texts.values() if each["text"]], "calls": calls, "terminals": terminals}


def _show(terminal: dict[str, Any], update: Message) -> None:
    terminal.update({name: update[name] for name in ("command", "exitStatus") if name in update})
    if update["sessionUpdate"] == "terminal_output_chunk":
        terminal["output"] += _decoded(update["data"])
    elif "output" in update:
        output: Message = update["output"] or {}
        terminal["output"] = _decoded(output.get("data", ""))


def text_of(content: Iterable[Message]) -> str:
    """Return the text in blocks of content; in the place of another block stands its type."""
    return "".join(each.get("text", f"<{each['type']}>") for each in content)


def _decoded(data: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return f"no base64: {data}"
