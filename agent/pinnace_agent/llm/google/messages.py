"""Converts a conversation to Google's contents: two roles, with parts.

Pure. Decides roles, parts and order of `contents`; the model's kind decides what a part may contain. Independent of the
rest of a request.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pinnace_agent.core.json_access import as_array
from pinnace_agent.llm.context import NO_OUTPUT, SEE_IMAGE, ContextMessage, plain_id, provider_messages
from pinnace_agent.llm.google.family import Family
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

Wire = dict[str, object]

MAX_ID_CHARS: Final = 64
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
# What Google documents for calls of another model, and for calls whose signature was lost: it stands for one.
# DEVIATION D-34: without it the API refuses the history.
UNSIGNED: Final = "skip_thought_signature_validator"

_IMAGES_LEAD: Final = "Attached image(s) from tool result:"
_NO_NAME: Final = "unnamed"


def wire_contents(messages: Sequence[Message], model: Model, family: Family) -> list[Wire]:
    """Convert a conversation."""
    contents: list[Wire] = []
    for content in _contents(provider_messages(messages, model, normal_id), family):
        if contents and contents[-1]["role"] == content["role"] == "model":
            # The content in between was empty. A call must follow a user's turn.
            parts = [*as_array(contents[-1]["parts"]), *as_array(content["parts"])]
            contents[-1] = {"role": "model", "parts": parts}
        else:
            contents.append(content)
    return contents


def normal_id(call_id: str) -> str:
    """Make an id of another API's tool call acceptable: its characters, its length."""
    return plain_id(call_id, MAX_ID_CHARS)


def _contents(messages: Sequence[ContextMessage], family: Family) -> Iterator[Wire]:
    results: list[ToolResultMessage] = []  # since the last other message
    for message in messages:
        if message["role"] == "toolResult":
            results.append(message)
            continue
        yield from _turn_of(results, family)
        results = []
        parts = _user(message) if message["role"] == "user" else _assistant(message, family)
        if parts:
            yield {"role": "user" if message["role"] == "user" else "model", "parts": parts}
    yield from _turn_of(results, family)


def _turn_of(results: Sequence[ToolResultMessage], family: Family) -> Iterator[Wire]:
    """Give the results of all calls in one turn, as many as there were calls."""
    if not results:
        return
    yield {"role": "user", "parts": [_result(result, family) for result in results]}
    images = [] if family.nests_images else [image for result in results for image in _images(result)]
    if images:
        yield {"role": "user", "parts": [{"text": _IMAGES_LEAD}, *map(_image_part, images)]}


def _user(message: UserMessage) -> list[Wire]:
    content = message["content"]
    if isinstance(content, str):
        return [{"text": content}] if content else []
    parts: list[Wire] = []
    for block in content:
        if block["type"] == "image":
            parts.append(_image_part(block))
        elif block["text"]:  # a part without data is refused
            parts.append({"text": block["text"]})
    return parts


def _image_part(image: ImageContent) -> Wire:
    return {"inlineData": {"mimeType": image["mimeType"], "data": image["data"]}}


def _assistant(message: AssistantMessage, family: Family) -> list[Wire]:
    parts = [part for block in message["content"] if (part := _part(block, family)) is not None]
    first_call = next((part for part in parts if "functionCall" in part), None)
    if first_call is not None and family.demands_signatures:
        first_call.setdefault("thoughtSignature", UNSIGNED)
    return parts


def _part(block: AssistantContent, family: Family) -> Wire | None:
    """Convert a block; None if it becomes empty. An empty text with a signature carries the thoughts."""
    match block["type"]:
        case "text":
            signature = _signature(block.get("textSignature"))
            return {"text": block["text"], **signature} if block["text"] or signature else None
        case "thinking":
            signature = _signature(block.get("thinkingSignature"))
            text = block["thinking"]
            return {"thought": True, "text": text, **signature} if text or signature else None
        case "toolCall":
            return {"functionCall": _call(block, family), **_signature(block.get("thoughtSignature"))}


def _signature(value: str | None) -> Wire:
    """Return a well-formed signature: with any other the server refuses the whole request."""
    if value and len(value) % 4 == 0 and _BASE64.fullmatch(value):
        return {"thoughtSignature": value}
    return {}


def _call(call: ToolCall, family: Family) -> Wire:
    # An empty name would make the server refuse the whole history.
    wire: Wire = {"name": call["name"] or _NO_NAME, "args": call["arguments"]}
    return {"id": call["id"], **wire} if family.has_call_ids else wire


def _result(message: ToolResultMessage, family: Family) -> Wire:
    text = "\n".join(block["text"] for block in message["content"] if block["type"] == "text")
    images = list(_images(message))
    if not text.strip():
        text = SEE_IMAGE if images else NO_OUTPUT
    wire: Wire = {
        "name": message["toolName"] or _NO_NAME,
        "response": {"error" if message["isError"] else "output": text},
    }
    if family.has_call_ids:
        wire["id"] = message["toolCallId"]
    if family.nests_images and images:
        wire["parts"] = [_image_part(image) for image in images]
    return {"functionResponse": wire}


def _images(message: ToolResultMessage) -> Iterator[ImageContent]:
    for block in message["content"]:
        if block["type"] == "image":
            yield block
