"""Converts a conversation to the messages of chat completions.

Pure. Decides roles, contents and order of `messages`; flags decide what a server accepts. Independent of the rest of a
request.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pinnace_agent.core.json_access import as_object, compact_json
from pinnace_agent.llm.context import NO_OUTPUT, SEE_IMAGE, ContextMessage, plain_id, provider_messages
from pinnace_agent.llm.openai_chat.compat import Compat
from pinnace_agent.llm.openai_chat.foreign_signatures import fields_of
from pinnace_agent.llm.openai_chat.reasoning_details import details_of
from pinnace_spec.records.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from pinnace_spec.wire.json_text import WireError, decode_line

Wire = dict[str, object]

# The fields in which servers send and expect thoughts: the signature of a thinking block names its field.
REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text")

# The longest id of a tool call that OpenAI takes.
MAX_ID_CHARS: Final = 40

_BRIDGE: Final = "I have read the tool results."
_IMAGES_LEAD: Final = "Attached image(s) from tool result:"
_NO_NAME: Final = "unnamed"


def wire_messages(system_prompt: str, messages: Sequence[Message], model: Model, compat: Compat) -> list[Wire]:
    """Convert a conversation, the system prompt first."""
    converted = provider_messages(messages, model, normal_id)
    wire = list(_body(converted, compat))
    if compat.requires_alternating_roles:
        from pinnace_agent.llm.refused_parts import merged_users  # few need it

        wire = merged_users(wire)
    if system_prompt:
        is_developer = model["reasoning"] and compat.supports_developer_role
        wire.insert(0, {"role": "developer" if is_developer else "system", "content": system_prompt})
    return wire


def normal_id(call_id: str) -> str:
    """Make an id of another API's tool call acceptable: its characters, its length."""
    return plain_id(call_id, MAX_ID_CHARS)


def _body(messages: Sequence[ContextMessage], compat: Compat) -> Iterator[Wire]:
    images: list[ImageContent] = []  # of the results since the last other message
    was_result = False
    for message in messages:
        if message["role"] == "toolResult":
            yield _result(message, compat)
            images += [block for block in message["content"] if block["type"] == "image"]
            was_result = True
            continue
        if was_result:
            yield from _after_results(images, message["role"] == "user", compat)
            images, was_result = [], False
        wire = _user(message) if message["role"] == "user" else _assistant(message, compat)
        if wire is not None:
            yield wire
    if images:
        yield from _after_results(images, False, compat)


def _after_results(images: Sequence[ImageContent], is_user_next: bool, compat: Compat) -> Iterator[Wire]:
    """Return the messages between results and the next message: the images of all results in one message."""
    if compat.requires_assistant_after_tool_result and (images or is_user_next):
        yield {"role": "assistant", "content": _BRIDGE}
    if images:
        parts = [{"type": "text", "text": _IMAGES_LEAD}, *map(_image_part, images)]
        yield {"role": "user", "content": parts}


def _user(message: UserMessage) -> Wire | None:
    content = message["content"]
    if isinstance(content, str):
        # DEVIATION D-58: empty, it is left out, as an empty part is.
        return {"role": "user", "content": content} if content else None
    parts: list[Wire] = []
    for block in content:
        if block["type"] == "image":
            parts.append(_image_part(block))
        elif block["text"]:  # an empty part beside an image is refused by some
            parts.append({"type": "text", "text": block["text"]})
    return {"role": "user", "content": parts} if parts else None


def _image_part(image: ImageContent) -> Wire:
    url = f"data:{image['mimeType']};base64,{image['data']}"
    return {"type": "image_url", "image_url": {"url": url}}


def _assistant(message: AssistantMessage, compat: Compat) -> Wire | None:
    content = message["content"]
    # A plain string: given an array, some models answer with one.
    text = "".join(block["text"] for block in content if block["type"] == "text" and block["text"].strip())
    calls = [block for block in content if block["type"] == "toolCall"]
    thoughts: dict[str, list[str]] = {}
    details: list[object] = []
    for block in content:
        if block["type"] == "thinking":
            signature = block.get("thinkingSignature", "")
            details += details_of(signature)
            if signature in REASONING_FIELDS and block["thinking"].strip():
                thoughts.setdefault(signature, []).append(block["thinking"])
    if not text and not calls:
        return None
    wire: Wire = {"role": "assistant", "content": text or _no_content(compat)}
    for block in content:
        if block["type"] == "text":
            wire |= fields_of(block.get("textSignature"))
    if compat.requires_thinking_as_text:
        joined = "\n\n".join(piece for pieces in thoughts.values() for piece in pieces)
        if joined:
            rest = [{"type": "text", "text": text}] if text else []
            wire["content"] = [{"type": "text", "text": joined}, *rest]
    else:
        for field, pieces in thoughts.items():
            wire[field] = "\n".join(pieces)
    if compat.requires_reasoning_content:
        wire.setdefault("reasoning_content", "")
    if calls:
        wire["tool_calls"] = [_call(call) for call in calls]
        details += [detail for call in calls if (detail := _detail(call)) is not None]
    if details:
        wire["reasoning_details"] = details
    return wire


def _no_content(compat: Compat) -> str | None:
    needs_text = compat.requires_assistant_after_tool_result or compat.requires_non_null_assistant_content
    return "" if needs_text else None


def _call(call: ToolCall) -> Wire:
    # An empty name would make the server refuse the whole history.
    function = {"name": call["name"] or _NO_NAME, "arguments": compact_json(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function, **fields_of(call.get("thoughtSignature"))}


def _detail(call: ToolCall) -> Wire | None:
    """Return the gateway's own record of the thoughts behind a call, to be sent back as it came."""
    signature = call.get("thoughtSignature", "")
    if not signature.startswith("{") or fields_of(signature):
        return None
    try:
        return as_object(decode_line(signature.encode(errors="replace")))
    except WireError:
        return None


def _result(message: ToolResultMessage, compat: Compat) -> Wire:
    text = "\n".join(block["text"] for block in message["content"] if block["type"] == "text")
    if not text.strip():
        has_images = any(block["type"] == "image" for block in message["content"])
        text = SEE_IMAGE if has_images else NO_OUTPUT
    wire: Wire = {"role": "tool", "content": text, "tool_call_id": message["toolCallId"]}
    if compat.requires_tool_result_name:
        wire["name"] = message["toolName"] or _NO_NAME
    return wire
