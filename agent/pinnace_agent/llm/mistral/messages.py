"""Converts a conversation to Mistral's messages.

Pure. Decides roles, contents and ids of `messages`: contents are lists of parts, thoughts among them, and a call is
named by nine letters and digits. Independent of the rest of a request.
"""

import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from pinnace_agent.core.json_access import compact_json
from pinnace_agent.llm.context import NO_OUTPUT, SEE_IMAGE, provider_messages
from pinnace_spec.records.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

Wire = dict[str, object]

ID_CHARS: Final = 9
"""The length of an id of a call; the server refuses others."""
_ID: Final = re.compile(rf"[A-Za-z0-9]{{{ID_CHARS}}}")
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9]")

_ERROR_LEAD: Final = "[tool error] "
_NO_NAME: Final = "unnamed"


class CallIds:
    """The ids of one conversation's calls on the wire. Different ids remain different, and equal ones equal."""

    def __init__(self, messages: Sequence[Message]) -> None:
        """Take the ids that the conversation's answers have given: those that are acceptable stay theirs."""
        self._own = {
            block["id"]
            for message in messages
            if message["role"] == "assistant"
            for block in message.get("content") or ()
            if block["type"] == "toolCall"
        }
        self._owners = {call_id: call_id for call_id in self._own if is_acceptable(call_id)}
        self._names: dict[str, str] = {}

    def foreign(self, call_id: str) -> str:
        """Make an id that another model gave acceptable."""
        if call_id not in self._names:
            self._names[call_id] = self._derived(call_id)
        return self._names[call_id]

    def sent(self, call_id: str) -> str:
        """Return the id under which a call of a converted conversation is sent.

        One that this model gave is sent as it came; one that was made distinct from another's must be acceptable.
        """
        return call_id if call_id in self._own or is_acceptable(call_id) else self.foreign(call_id)

    def _derived(self, call_id: str) -> str:
        attempt = 0
        while True:
            name = derived_id(call_id, attempt)
            if self._owners.setdefault(name, call_id) == call_id:
                return name
            attempt += 1


def is_acceptable(call_id: str) -> bool:
    """Return whether the server takes an id."""
    return _ID.fullmatch(call_id) is not None


def derived_id(call_id: str, attempt: int = 0) -> str:
    """Return an acceptable id for another; each attempt gives a different one."""
    plain = _NOT_IN_IDS.sub("", call_id)
    if attempt == 0 and len(plain) == ID_CHARS:
        return plain
    origin = f"{call_id}:{attempt}" if attempt else call_id
    return sha256(origin.encode(errors="surrogatepass")).hexdigest()[:ID_CHARS]


def wire_messages(system_prompt: str, messages: Sequence[Message], model: Model) -> list[Wire]:
    """Convert a conversation, the system prompt first."""
    ids = CallIds(messages)
    wire: list[Wire | None] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    for message in provider_messages(messages, model, ids.foreign):
        match message["role"]:
            case "user":
                wire.append(_user(message))
            case "assistant":
                wire.append(_assistant(message, ids.sent))
            case "toolResult":
                wire.append(_result(message, ids.sent))
    return [each for each in wire if each is not None]


def _user(message: UserMessage) -> Wire | None:
    content = message["content"]
    if isinstance(content, str):
        # DEVIATION D-58: empty, it is left out, as an empty part is.
        return {"role": "user", "content": content} if content else None
    parts = [_image(each) if each["type"] == "image" else _text(each["text"]) for each in content]
    kept = [part for part in parts if part.get("text") != ""]
    return {"role": "user", "content": kept} if kept else None


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _image(image: ImageContent) -> Wire:
    return {"type": "image_url", "image_url": f"data:{image['mimeType']};base64,{image['data']}"}


def _assistant(message: AssistantMessage, sent_id: Callable[[str], str]) -> Wire | None:
    parts: list[Wire] = []
    calls: list[Wire] = []
    for block in message["content"]:
        match block["type"]:
            case "text" if block["text"].strip():
                parts.append(_text(block["text"]))
            case "thinking" if block["thinking"].strip():
                parts.append({"type": "thinking", "thinking": [_text(block["thinking"])]})
            case "toolCall":
                calls.append(_call(block, sent_id))
            case _:
                pass
    if not parts and not calls:
        return None
    content: Wire = {"content": parts} if parts else {}
    return {"role": "assistant", "prefix": False, **content, **({"tool_calls": calls} if calls else {})}


def _call(call: ToolCall, sent_id: Callable[[str], str]) -> Wire:
    # An empty name would make the server refuse the whole history.
    function = {"name": call["name"] or _NO_NAME, "arguments": compact_json(call["arguments"])}
    return {"id": sent_id(call["id"]), "type": "function", "function": function, "index": 0}


def _result(message: ToolResultMessage, sent_id: Callable[[str], str]) -> Wire:
    images = [_image(block) for block in message["content"] if block["type"] == "image"]
    text = "\n".join(block["text"] for block in message["content"] if block["type"] == "text").strip()
    # The API has no field for failure.
    lead = _ERROR_LEAD if message["isError"] else ""
    shown = text or (SEE_IMAGE if images else NO_OUTPUT)
    return {
        "role": "tool",
        "tool_call_id": sent_id(message["toolCallId"]),
        "name": message["toolName"] or _NO_NAME,
        "content": [_text(lead + shown), *images],
    }
