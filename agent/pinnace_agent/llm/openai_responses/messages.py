"""Converts a conversation to the input of OpenAI Responses.

Pure. Decides the items of `input`: messages, thoughts, calls and results each are items of their own, and those of the
same model go back with the ids they came with. Independent of the rest of a request.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

from pinnace_agent.core.json_access import as_object, as_text, compact_json
from pinnace_agent.llm.context import NO_OUTPUT, provider_messages
from pinnace_agent.llm.openai_responses.compat import ResponsesCompat
from pinnace_spec.records.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pinnace_spec.wire.json_text import WireError, decode_line

Wire = dict[str, object]

# The longest id of anything that OpenAI takes.
MAX_ID_CHARS: Final = 64
_HASH_CHARS: Final = 16
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")
# The separator of a call's two ids in its single id in a session.
ID_SEPARATOR: Final = "|"
_ITEM_PREFIX: Final = "fc_"
_PHASES: Final = ("commentary", "final_answer")

_NO_NAME: Final = "unnamed"
_NO_ID: Final = "call"


def input_items(system_prompt: str, messages: Sequence[Message], model: Model, compat: ResponsesCompat) -> list[Wire]:
    """Convert a conversation, the system prompt first."""

    def normal_id(call_id: str) -> str:
        return foreign_id(call_id, compat.is_openai_like)

    items: list[Wire] = []
    if system_prompt:
        is_developer = model["reasoning"] and compat.supports_developer_role
        items.append({"role": "developer" if is_developer else "system", "content": system_prompt})
    call_ids: dict[str, str] = {}  # of the last answer: in the session -> on the wire
    for number, message in enumerate(provider_messages(messages, model, normal_id)):
        match message["role"]:
            case "user":
                items += _user(message)
            case "assistant":
                call_ids = _call_ids(message)
                items += _answer(message, number, call_ids, model, compat)
            case "toolResult":
                items.append(_result(message, call_ids))
    return items


def foreign_id(call_id: str, is_openai_like: bool) -> str:
    """Make the id of another model's call acceptable; different ids remain different.

    Args:
        call_id: As it is in the session: `{call_id}|{item_id}`, or any other API's.
        is_openai_like: Whether it may have an item's id. A new one is created, since the server may look up its own.
    """
    first, bar, item_id = call_id.partition(ID_SEPARATOR)
    if not (is_openai_like and bar):
        return _acceptable(call_id)
    return f"{_acceptable(first)}{ID_SEPARATOR}{_made_up(_ITEM_PREFIX, item_id)}"


def _acceptable(text: str) -> str:
    plain = _NOT_IN_IDS.sub("_", text).rstrip("_")
    if len(plain) <= MAX_ID_CHARS:
        return plain
    return f"{plain[: MAX_ID_CHARS - _HASH_CHARS - 1]}_{_digest(text)}"


def _made_up(prefix: str, origin: str) -> str:
    return f"{prefix}{_digest(origin)}"


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARS]


def _call_ids(message: AssistantMessage) -> dict[str, str]:
    """Find the wire's ids of an answer's calls, each another: gateways give several calls the same one."""
    ids: dict[str, str] = {}
    for block in message["content"]:
        if block["type"] == "toolCall":
            wanted = block["id"].partition(ID_SEPARATOR)[0] or _NO_ID
            name, number = wanted, 1
            while name in ids.values():
                number += 1
                name = f"{wanted[: MAX_ID_CHARS - 8]}_{number}"
            ids[block["id"]] = name
    return ids


def _user(message: UserMessage) -> Iterator[Wire]:
    content = message["content"]
    if isinstance(content, str):
        if content:
            yield {"role": "user", "content": [_input_text(content)]}
        return
    parts: list[Wire] = []
    for block in content:
        if block["type"] == "image":
            parts.append(_image(block))
        elif block["text"]:
            parts.append(_input_text(block["text"]))
    if parts:
        yield {"role": "user", "content": parts}


def _input_text(text: str) -> Wire:
    return {"type": "input_text", "text": text}


def _image(image: ImageContent) -> Wire:
    url = f"data:{image['mimeType']};base64,{image['data']}"
    return {"type": "input_image", "detail": "auto", "image_url": url}


def _answer(
    message: AssistantMessage, number: int, call_ids: dict[str, str], model: Model, compat: ResponsesCompat
) -> list[Wire]:
    items: list[Wire] = []
    for place, block in enumerate(message["content"]):
        match block["type"]:
            case "thinking":
                if thoughts := _thoughts(block.get("thinkingSignature", "")):
                    items.append(thoughts)
            case "text":
                if block["text"] or block.get("textSignature"):
                    items.append(_text(block, f"msg_{number}_{place}"))
            case "toolCall":
                items.append(_call(block, call_ids[block["id"]], _item_id(block["id"], message, model, compat)))
    # The server refuses thoughts that no item follows.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _thoughts(signature: str) -> Wire | None:
    """Return the item of the thoughts as it came; None for a signature of another kind."""
    item = _read(signature)
    return item if item is not None and item.get("type") == "reasoning" else None


def _text(block: TextContent, default_id: str) -> Wire:
    signature = block.get("textSignature", "")
    # Old sessions have the id alone.
    signed = _read(signature) if signature.startswith("{") else {"id": signature}
    item_id = (as_text(signed.get("id")) if signed else None) or default_id
    if len(item_id) > MAX_ID_CHARS:
        item_id = _made_up("msg_", item_id)
    phase = signed.get("phase") if signed else None
    return {
        "type": "message",
        "role": "assistant",
        "id": item_id,
        "status": "completed",
        "content": [{"type": "output_text", "text": block["text"], "annotations": []}],
        **({"phase": phase} if phase in _PHASES else {}),
    }


def _read(signature: str) -> Wire | None:
    if not signature.startswith("{"):
        return None
    try:
        return as_object(decode_line(signature.encode(errors="replace")))
    except WireError:
        return None


def _item_id(call_id: str, message: AssistantMessage, model: Model, compat: ResponsesCompat) -> str | None:
    item_id = call_id.partition(ID_SEPARATOR)[2]
    is_family = (message["provider"], message["api"]) == (model["provider"], model["api"])
    # The server would ask for the thoughts that led to this call, which another model can't be sent.
    if not item_id or (is_family and message["model"] != model["id"]):
        return None
    is_taken = item_id.startswith(_ITEM_PREFIX) and len(item_id) <= MAX_ID_CHARS
    return item_id if is_taken or not compat.is_openai_like else _made_up(_ITEM_PREFIX, item_id)


def _call(call: ToolCall, call_id: str, item_id: str | None) -> Wire:
    return {
        "type": "function_call",
        **({"id": item_id} if item_id else {}),
        "call_id": call_id,
        # An empty name was refused as a tool, and would be refused as an item ever after.
        "name": call["name"] or _NO_NAME,
        "arguments": compact_json(call["arguments"]),
    }


def _result(message: ToolResultMessage, call_ids: dict[str, str]) -> Wire:
    text = "\n".join(block["text"] for block in message["content"] if block["type"] == "text")
    images = [_image(block) for block in message["content"] if block["type"] == "image"]
    has_text = bool(text.strip())
    output: object = text if has_text else NO_OUTPUT
    if images:
        output = [_input_text(text), *images] if has_text else images
    call_id = message["toolCallId"]
    return {"type": "function_call_output", "call_id": call_ids.get(call_id, call_id), "output": output}
