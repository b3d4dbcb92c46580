"""Converts the messages of a session to a form that every provider can be sent.

Pure. Three roles remain: user, assistant, toolResult. Content that only another model can read is left out; every tool
call is followed by its result, and every result has its call. No text has a control character that a server could
refuse, whatever the session holds. The history itself is never changed. Must not know any API; providers map the three
roles to theirs. Rule R-TOL-11.
"""

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    Model,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserContent,
    UserMessage,
)

ContextMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage

USER_IMAGE_OMITTED: Final = "(image omitted: model does not support images)"
TOOL_IMAGE_OMITTED: Final = "(tool image omitted: model does not support images)"
IMAGE_BLOCKED: Final = "(image omitted: the settings keep images from models)"
NO_RESULT: Final = "No result provided"
# For results without text, where an API wants one.
NO_OUTPUT: Final = "(no tool output)"
SEE_IMAGE: Final = "(see attached image)"

# The id of a call without one, and the length to which an id is cut for a number, so that it is short enough for every
# API.
_NO_ID: Final = "call"
_KEPT_ID_CHARS: Final = 32

_HASH_CHARS: Final = 8
_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")

_BRANCH_LEAD: Final = "Another branch of this conversation was left; it is summarised here:"
_COMPACTION_LEAD: Final = "The earlier part of this conversation was compacted; it is summarised here:"


def provider_messages(
    messages: Sequence[Message], model: Model, normal_id: Callable[[str], str]
) -> list[ContextMessage]:
    """Convert a session's messages for one model.

    Args:
        messages: In order; not changed.
        model: The model that receives them.
        normal_id: Makes an id of a tool call that another model gave acceptable to this one's API. The same
            for calls and their results.
    """
    from pinnace_agent.llm.clean_messages import without_controls  # not at start

    readable = [without_controls(_for_model(message, model)) for message in _with_three_roles(messages)]
    return list(_paired(readable, model, normal_id))


def without_images(messages: Iterable[Message]) -> list[Message]:
    """Return messages without images, for models that must not be sent any."""
    return [_unillustrated(message) for message in messages]


def user_text(message: BashExecutionMessage) -> str:
    """Return the text that describes a shell command of the user and its result to a model."""
    output = message["output"]
    parts = [f"Ran `{message['command']}`\n", f"```\n{output}\n```" if output else "(no output)"]
    exit_code = message.get("exitCode")
    if message["cancelled"]:
        parts.append("\n\n(command cancelled)")
    elif exit_code:
        parts.append(f"\n\nCommand exited with code {exit_code}")
    path = message.get("fullOutputPath")
    if message["truncated"] and path:
        parts.append(f"\n\n[Output truncated. Full output: {path}]")
    return "".join(parts)


def _with_three_roles(messages: Iterable[Message]) -> Iterator[ContextMessage]:
    """Convert roles. Messages of other programs with unknown roles are left out."""
    for message in messages:
        match message["role"]:
            case "user":
                if _has_content(message):
                    yield message
            case "toolResult":
                if not _has_content(message):
                    message = message.copy()
                    message["content"] = []
                yield message
            case "assistant":
                # An incomplete answer is left out: models would treat it as complete and imitate it.
                if message["stopReason"] not in {"error", "aborted"} and _has_content(message):
                    yield message
            case "bashExecution":
                if not message.get("excludeFromContext"):
                    yield _user(user_text(message), message["timestamp"])
            case "custom":
                if _has_content(message):
                    yield _user(message["content"], message["timestamp"])
            case "branchSummary":
                yield _user(_summary(_BRANCH_LEAD, message["summary"]), message["timestamp"])
            case "compactionSummary":
                yield _user(_summary(_COMPACTION_LEAD, message["summary"]), message["timestamp"])


def llm_text(message: Mapping[str, object]) -> object:
    """Return the content that a model gets for a message with a role of the agent's own: a text, or blocks."""
    lead = {"branchSummary": _BRANCH_LEAD, "compactionSummary": _COMPACTION_LEAD}.get(str(message["role"]))
    return message.get("content", "") if lead is None else _summary(lead, str(message["summary"]))


def _has_content(message: Mapping[str, object]) -> bool:
    """Return whether there is a content at all: other programs have written null, and none."""
    return message.get("content") is not None


def _user(content: str | list[UserContent], timestamp: int) -> UserMessage:
    blocks: list[UserContent] = [_text(content)] if isinstance(content, str) else content
    return {"role": "user", "content": blocks, "timestamp": timestamp}


def _summary(lead: str, summary: str) -> str:
    return f"{lead}\n\n<summary>\n{summary}\n</summary>"


def _text(text: str) -> TextContent:
    return {"type": "text", "text": text}


def _for_model(message: ContextMessage, model: Model) -> ContextMessage:
    """Remove the content that the model can't read from one message."""
    match message["role"]:
        case "user":
            content = message["content"]
            if isinstance(content, str) or "image" in model["input"]:
                return message
            user: UserMessage = {**message, "content": _without_images(content, USER_IMAGE_OMITTED)}
            return user
        case "toolResult":
            if "image" in model["input"]:
                return message
            blocks = _without_images(message["content"], TOOL_IMAGE_OMITTED)
            result: ToolResultMessage = {**message, "content": blocks}
            return result
        case "assistant":
            is_own = _is_from(message, model)
            kept = [block for each in message["content"] if (block := _readable(each, is_own)) is not None]
            assistant: AssistantMessage = {**message, "content": kept}
            return assistant


def _without_images(content: Sequence[UserContent], notice: str) -> list[UserContent]:
    """Put one notice in the place of each row of images."""
    blocks: list[UserContent] = []
    was_image = False
    for block in content:
        if block["type"] == "text":
            blocks.append(block)
        elif not was_image:
            blocks.append(_text(notice))
        was_image = block["type"] == "image"
    return blocks


def _unillustrated(message: Message) -> Message:
    if not _has_content(message) or message["role"] not in {"user", "custom", "toolResult"}:
        return message
    match message["role"]:
        case "user" if isinstance(message["content"], list):
            user: UserMessage = {**message, "content": _without_images(message["content"], IMAGE_BLOCKED)}
            return user
        case "custom" if isinstance(message["content"], list):
            custom: CustomMessage = {**message, "content": _without_images(message["content"], IMAGE_BLOCKED)}
            return custom
        case "toolResult":
            result: ToolResultMessage = {**message, "content": _without_images(message["content"], IMAGE_BLOCKED)}
            return result
        case _:
            return message


def _is_from(message: AssistantMessage, model: Model) -> bool:
    return (message["provider"], message["api"], message["model"]) == (
        model["provider"],
        model["api"],
        model["id"],
    )


def _readable(block: AssistantContent, is_own: bool) -> AssistantContent | None:
    """Return a block for a model: signatures are only for the model that made them."""
    match block["type"]:
        case "text":
            return block if is_own else _text(block["text"])
        case "thinking":
            # Another model's thoughts are left out: as plain text they would make this one think aloud.
            is_kept = is_own and (block.get("thinkingSignature") or block.get("redacted") or block["thinking"].strip())
            return block if is_kept else None
        case "toolCall":
            if is_own or "thoughtSignature" not in block:
                return block
            return {"type": "toolCall", "id": block["id"], "name": block["name"], "arguments": block["arguments"]}


def _paired(
    messages: Sequence[ContextMessage], model: Model, normal_id: Callable[[str], str]
) -> Iterator[ContextMessage]:
    """Put every result right behind its call, make up those that are missing, drop those without a call."""
    # DEVIATION D-59: servers refuse a history in which calls and results do not match.
    for index, message in enumerate(messages):
        match message["role"]:
            case "user":
                yield message
            case "assistant":
                calls = [block for block in message["content"] if block["type"] == "toolCall"]
                ids = _distinct([call["id"] if _is_from(message, model) else normal_id(call["id"]) for call in calls])
                yield _renamed(message, ids)
                yield from _results(calls, ids, messages, index)
            case "toolResult":
                continue  # came with its call


def _distinct(ids: Sequence[str]) -> list[str]:
    """Make the ids of one message's calls distinct: some gateways send equal or empty ones, servers refuse them."""
    taken = dict[str, None]()  # in order
    numbers = dict[str, int]()  # all numbers up to this one are taken
    for call_id in ids:
        name = call_id or _NO_ID
        kept = name[:_KEPT_ID_CHARS]
        while name in taken:
            numbers[kept] = number = numbers.get(kept, 1) + 1
            name = f"{kept}_{number}"
        taken[name] = None
    return list(taken)


def _renamed(message: AssistantMessage, ids: Sequence[str]) -> AssistantMessage:
    """Return a message whose calls have these ids."""
    left = iter(ids)
    content: list[AssistantContent] = []
    for block in message["content"]:
        if block["type"] == "toolCall":
            call: ToolCall = {**block, "id": next(left)}
            content.append(call)
        else:
            content.append(block)
    return {**message, "content": content} if ids else message


def _results(
    calls: Sequence[ToolCall], ids: Sequence[str], messages: Sequence[ContextMessage], index: int
) -> Iterator[ToolResultMessage]:
    """Find the results of the calls of message `index` among what follows, up to the next answer."""
    if not calls:
        return
    found = defaultdict[str, deque[ToolResultMessage]](deque)
    for position in range(index + 1, len(messages)):
        message = messages[position]
        if message["role"] == "assistant":
            break
        if message["role"] == "toolResult":
            found[message["toolCallId"]].append(message)
    timestamp = messages[index]["timestamp"]
    for call, call_id in zip(calls, ids, strict=True):
        results = found[call["id"]]
        # Of the same id twice, each call has a result of its own.
        yield {**(results.popleft() if results else _missing(call, timestamp)), "toolCallId": call_id}


def _missing(call: ToolCall, timestamp: int) -> ToolResultMessage:
    role: Literal["toolResult"] = "toolResult"
    return {
        "role": role,
        "toolCallId": call["id"],
        "toolName": call["name"],
        "content": [_text(NO_RESULT)],
        "isError": True,
        "timestamp": timestamp,
    }


def plain_id(call_id: str, max_chars: int) -> str:
    """Return an id of plain characters, at most `max_chars` of them; one that is cut ends with a digest of it all."""
    plain = _NOT_IN_IDS.sub("_", call_id)
    if len(plain) <= max_chars:
        return plain
    from hashlib import sha256  # brings OpenSSL, which a start does without

    digest = sha256(call_id.encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{plain[: max_chars - _HASH_CHARS - 1]}_{digest}"
