"""Converts a conversation to Anthropic's messages.

Pure. Decides roles, contents and order of `messages`. Content that the API refuses is left out or moved: blank texts,
empty messages, images of results that are errors, ids that were used before. Independent of the rest of a request.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pinnace_agent.core.json_access import as_list, as_object
from pinnace_agent.core.pieces import without_halves
from pinnace_agent.llm.anthropic.compat import Compat
from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.context import NO_OUTPUT, SEE_IMAGE, ContextMessage, plain_id, provider_messages
from pinnace_spec.records.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

Wire = dict[str, object]

_API: Final = "anthropic-messages"
_EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})
# The longest id of a tool call that the API accepts.
MAX_ID_CHARS: Final = 64
# What is kept of an id that needs a number: room for as many as a conversation can have.
_KEPT_ID_CHARS: Final = 48
_NO_ID: Final = "call"

_IMAGES_LEAD: Final = "Attached image(s) from tool result:"


def wire_messages(
    messages: Sequence[Message], model: Model, compat: Compat, names: ToolNames, *, has_efforts: bool = False
) -> list[Wire]:
    """Convert a conversation. `has_efforts`: an answer of the provider follows the effort that it was given with."""
    provider = model["provider"] if has_efforts else None
    return list(_body(provider_messages(messages, model, normal_id), compat, names, provider))


def effort_marker(effort: str) -> Wire:
    """Return the message that sets the effort of the answer behind it."""
    return {"role": "system", "content": [], "output_config": {"effort": effort}}


def normal_id(call_id: str) -> str:
    """Make an id of a tool call acceptable: its characters, its length."""
    return plain_id(call_id, MAX_ID_CHARS)


def mark_ends(messages: Sequence[Wire], marker: Wire) -> None:
    """Mark where the cached part ends: at the last user message, and where it ended in the request before.

    A mark finds what was kept at most twenty blocks before it, so an answer with many calls, and their results, would
    hide what the request before has kept. The second mark finds it at its own block, and costs nothing.
    """
    followers = [*messages[1:], None]
    ends = [
        message
        for message, follower in zip(messages, followers, strict=True)
        if message["role"] == "user" and (follower is None or follower["role"] != "user")
    ]
    for message in ends[-2:]:
        _mark_last_block(message, marker)


def _mark_last_block(message: Wire, marker: Wire) -> None:
    blocks = as_list(message["content"])
    if blocks is None:
        message["content"] = [{"type": "text", "text": message["content"], "cache_control": marker}]
    elif (last := as_object(blocks[-1])) is not None:
        last["cache_control"] = marker


class _CallIds:
    """The ids of one conversation's calls. The API requires them unique; some gateways repeat them."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._current: dict[str, str] = {}

    def of_call(self, call_id: str) -> str:
        """Return the id for a call."""
        plain = normal_id(call_id) or _NO_ID
        wire = plain
        while wire in self._used:
            number = self._numbers[plain] = self._numbers.get(plain, 1) + 1
            wire = f"{plain[:_KEPT_ID_CHARS]}_{number}"
        self._used.add(wire)
        self._current[call_id] = wire
        return wire

    def of_result(self, call_id: str) -> str:
        """Return the id that the call of a result got: the last with that id, since results follow at once."""
        return self._current[call_id]


def _body(messages: Sequence[ContextMessage], compat: Compat, names: ToolNames, provider: str | None) -> Iterator[Wire]:
    """Yield the messages. `provider`: whose answers follow their efforts; None: those of none."""
    ids = _CallIds()
    results: list[Wire] = []  # the API requires all results of an answer in one message
    images: list[Wire] = []
    for message in messages:
        if message["role"] == "toolResult":
            results.append(_result(message, ids))
            if message["isError"]:
                images += [_image(block) for block in message["content"] if block["type"] == "image"]
            continue
        yield from _answer(results, images)
        results, images = [], []
        content = _user(message) if message["role"] == "user" else _assistant(message, compat, names, ids)
        if content:
            if message["role"] == "assistant" and (effort := _effort_of(message, provider)) is not None:
                yield effort_marker(effort)
            yield {"role": message["role"], "content": content}
    yield from _answer(results, images)


def _effort_of(message: AssistantMessage, provider: str | None) -> str | None:
    """Return the effort that an answer was given with; None: it has none, or is another provider's."""
    effort = message.get("providerThinkingLevel")
    is_own = message["api"] == _API and message["provider"] == provider
    return effort if is_own and effort in _EFFORTS else None


def _answer(results: Sequence[Wire], images: Sequence[Wire]) -> Iterator[Wire]:
    """Return the results as one message, followed by the images that an error must not contain."""
    if results:
        lead = [_text(_IMAGES_LEAD)] if images else []
        yield {"role": "user", "content": [*results, *lead, *images]}


def _user(message: UserMessage) -> str | list[Wire]:
    content = message["content"]
    if isinstance(content, str):
        return "" if _is_blank(content) else content
    return [wire for block in content if (wire := _user_block(block)) is not None]


def _user_block(block: TextContent | ImageContent) -> Wire | None:
    if block["type"] == "image":
        return _image(block)
    return None if _is_blank(block["text"]) else _text(block["text"])


def _assistant(message: AssistantMessage, compat: Compat, names: ToolNames, ids: _CallIds) -> list[Wire]:
    blocks: list[Wire] = []
    for block in message["content"]:
        match block["type"]:
            case "text":
                if not _is_blank(block["text"]):
                    blocks.append(_text(block["text"]))
            case "thinking":
                if (thought := _thought(block, compat)) is not None:
                    blocks.append(thought)
            case "toolCall":
                blocks.append(_call(block, names, ids))
    return blocks


def _thought(block: ThinkingContent, compat: Compat) -> Wire | None:
    """Return a thinking block for its own model. An empty one may still be signed: the signature contains it."""
    signature, thinking = block.get("thinkingSignature", ""), block["thinking"]
    if block.get("redacted"):
        return {"type": "redacted_thinking", "data": signature} if signature else None
    if signature.strip():
        return {"type": "thinking", "thinking": thinking, "signature": signature}
    if _is_blank(thinking):
        return None
    if compat.allow_empty_signature:
        return {"type": "thinking", "thinking": thinking, "signature": ""}
    return _text(thinking)


def _call(call: ToolCall, names: ToolNames, ids: _CallIds) -> Wire:
    return {
        "type": "tool_use",
        "id": ids.of_call(call["id"]),
        "name": names.sent(call["name"]),
        "input": call["arguments"],
    }


# DEVIATION D-58: no blank text, and no image in a result that is an error.
def _result(message: ToolResultMessage, ids: _CallIds) -> Wire:
    blocks = message["content"]
    has_images = any(block["type"] == "image" for block in blocks)
    content: str | list[Wire]
    if has_images and not message["isError"]:
        content = [wire for block in blocks if (wire := _user_block(block)) is not None]
        if all(block["type"] == "image" for block in content):
            content.insert(0, _text(SEE_IMAGE))
    else:
        content = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        if _is_blank(content):
            content = SEE_IMAGE if has_images else NO_OUTPUT
    return {
        "type": "tool_result",
        "tool_use_id": ids.of_result(message["toolCallId"]),
        "content": content,
        "is_error": message["isError"],
    }


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _image(image: ImageContent) -> Wire:
    source = {"type": "base64", "media_type": image["mimeType"], "data": image["data"]}
    return {"type": "image", "source": source}


def _is_blank(text: str) -> bool:
    """Return whether a text is blank after unpaired surrogates were removed."""
    return not without_halves(text).strip()
