"""Converts a conversation to Bedrock's messages: two roles in turns, with blocks.

Pure. Decides roles, blocks and order of `messages`. Content that the API refuses is left out or moved: blank texts,
empty messages, names without letters in arguments, images of results that are errors. Messages of one role in a row are
one, since the API requires turns. Independent of the rest of a request.
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pinnace_agent.core.json_access import as_array, as_list, as_object
from pinnace_agent.core.pieces import without_halves
from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.bedrock.family import Family
from pinnace_agent.llm.context import NO_OUTPUT, SEE_IMAGE, ContextMessage, plain_id, provider_messages
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)

Wire = dict[str, object]

# The longest id of a tool call that the API accepts.
MAX_ID_CHARS: Final = 64
_FORMATS: Final = {"image/jpeg": "jpeg", "image/jpg": "jpeg", "image/png": "png", "image/gif": "gif"} | {
    "image/webp": "webp"
}

_IMAGES_LEAD: Final = "Attached image(s) from tool result:"
_NO_FORMAT: Final = "(image omitted: Amazon Bedrock takes no {kind})"


def wire_messages(messages: Sequence[Message], model: Model, family: Family, names: ToolNames) -> list[Wire]:
    """Convert a conversation."""
    joined: list[Wire] = []
    for message in _body(provider_messages(messages, model, normal_id), family, names):
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1]["content"] = [*as_array(joined[-1]["content"]), *as_array(message["content"])]
        else:
            joined.append(message)
    return joined


def normal_id(call_id: str) -> str:
    """Make an id of another API's tool call acceptable: its characters, its length."""
    return plain_id(call_id, MAX_ID_CHARS)


def called_tools(messages: Sequence[Wire]) -> list[str]:
    """Return the names of the tools that are called in converted messages, each once."""
    blocks = [as_object(block) or {} for message in messages for block in as_array(message["content"])]
    calls = [call for block in blocks if (call := as_object(block.get("toolUse"))) is not None]
    return list(dict.fromkeys(str(call["name"]) for call in calls))


def _body(messages: Sequence[ContextMessage], family: Family, names: ToolNames) -> Iterator[Wire]:
    results: list[ToolResultMessage] = []  # the API requires all results of an answer in one message
    for message in messages:
        if message["role"] == "toolResult":
            results.append(message)
            continue
        if results:
            yield {"role": "user", "content": _results(results, family)}
            results = []
        content = _user(message) if message["role"] == "user" else _assistant(message, family, names)
        if content:
            yield {"role": message["role"], "content": content}
    if results:
        yield {"role": "user", "content": _results(results, family)}


def _user(message: UserMessage) -> list[Wire]:
    content = message["content"]
    if isinstance(content, str):
        return _text(content)
    return [wire for block in content for wire in _user_block(block)]


def _user_block(block: TextContent | ImageContent) -> list[Wire]:
    return _image(block) if block["type"] == "image" else _text(block["text"])


def _assistant(message: AssistantMessage, family: Family, names: ToolNames) -> list[Wire]:
    return [wire for block in message["content"] for wire in _assistant_block(block, family, names)]


def _assistant_block(block: AssistantContent, family: Family, names: ToolNames) -> list[Wire]:
    match block["type"]:
        case "text":
            return _text(block["text"])
        case "thinking":
            return _thought(block, family)
        case "toolCall":
            name, arguments = names.sent(block["name"]), _document(block["arguments"])
            return [{"toolUse": {"toolUseId": block["id"], "name": name, "input": arguments}}]


def _thought(block: ThinkingContent, family: Family) -> list[Wire]:
    """Return a thinking block for its own model: signed ones are Claude's alone, others refuse a signature."""
    signature, thinking = block.get("thinkingSignature", ""), block["thinking"]
    if block.get("redacted"):
        return [{"reasoningContent": {"redactedContent": signature}}] if _is_base64(signature) else []
    if _is_blank(thinking):
        return []
    if not family.is_claude:
        return [{"reasoningContent": {"reasoningText": {"text": thinking}}}]
    if not signature.strip():
        return _text(thinking)
    return [{"reasoningContent": {"reasoningText": {"text": thinking, "signature": signature}}}]


def _results(results: Sequence[ToolResultMessage], family: Family) -> list[Wire]:
    """Return results, followed by the images that an error of Claude's must not contain."""
    images = [
        image
        for result in results
        if result["isError"] and family.is_claude
        for block in result["content"]
        if block["type"] == "image"
        for image in _image(block)
    ]
    lead = _text(_IMAGES_LEAD) if images else []
    return [*(_result(result, family) for result in results), *lead, *images]


def _result(message: ToolResultMessage, family: Family) -> Wire:
    blocks = message["content"]
    has_images = any(block["type"] == "image" for block in blocks)
    if message["isError"] and family.is_claude:
        blocks = [block for block in blocks if block["type"] == "text"]
    content = [wire for block in blocks for wire in _user_block(block)]
    return {
        "toolResult": {
            "toolUseId": message["toolCallId"],
            "content": content or _text(SEE_IMAGE if has_images else NO_OUTPUT),
            "status": "error" if message["isError"] else "success",
        }
    }


def _text(text: str) -> list[Wire]:
    """Return a block of text; none of a blank one, which is refused."""
    return [] if _is_blank(text) else [{"text": text}]


def _image(image: ImageContent) -> list[Wire]:
    kind = image["mimeType"].lower()
    if kind not in _FORMATS:
        return _text(_NO_FORMAT.format(kind=kind))
    return [{"image": {"format": _FORMATS[kind], "source": {"bytes": image["data"]}}}]


def _document(value: object) -> object:
    """Return arguments without members of an empty name, which Amazon's documents cannot have."""
    if (members := as_object(value)) is not None:
        return {name: _document(member) for name, member in members.items() if name}
    if (items := as_list(value)) is not None:
        return [_document(item) for item in items]
    return value


def _is_blank(text: str) -> bool:
    """Return whether a text is blank after unpaired surrogates were removed."""
    return not without_halves(text).strip()


def _is_base64(text: str) -> bool:
    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False


def mark_end(messages: Sequence[Wire], marker: Mapping[str, object]) -> None:
    """Put a cache point at the end of a conversation, if a user's message is its last."""
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"] = [*as_array(messages[-1]["content"]), marker]
