"""Removes from the messages for a model what strict servers refuse: control characters, whatever a session holds.

Pure; returns what is clean as it is, not a copy. Loaded with the first request. Rule R-TOL-11.
"""

from operator import is_
from typing import TYPE_CHECKING

from pinnace_agent.core.control_text import clean_text, visible_controls
from pinnace_agent.core.json_access import as_object, map_strings
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserContent,
    UserMessage,
)

if TYPE_CHECKING:  # it loads this module
    from pinnace_agent.llm.context import ContextMessage


def without_controls(message: "ContextMessage") -> "ContextMessage":
    """Return a message whose texts every server accepts; the same one if they are, as nearly always."""
    match message["role"]:
        case "user":
            content = message["content"]
            clean = clean_text(content) if isinstance(content, str) else clean_blocks(content)
            if clean is not content:
                user: UserMessage = {**message, "content": clean}
                return user
        case "toolResult":
            blocks = clean_blocks(message["content"])
            if blocks is not message["content"]:
                result: ToolResultMessage = {**message, "content": blocks}
                return result
        case "assistant":
            answer = [_clean_answer(block) for block in message["content"]]
            if not all(map(is_, answer, message["content"])):
                assistant: AssistantMessage = {**message, "content": answer}
                return assistant
    return message


def clean_blocks(content: list[UserContent]) -> list[UserContent]:
    """Return content whose texts every server accepts; the same list if they are."""
    clean = [_clean_block(block) for block in content]
    return content if all(map(is_, clean, content)) else clean


def _clean_block(block: UserContent) -> UserContent:
    if block["type"] != "text" or (text := clean_text(block["text"])) is block["text"]:
        return block
    clean: TextContent = {**block, "text": text}
    return clean


def _clean_answer(block: AssistantContent) -> AssistantContent:
    match block["type"]:
        case "text" if (text := clean_text(block["text"])) is not block["text"]:
            clean: TextContent = {**block, "text": text}
            return clean
        case "thinking":
            # What is signed must come back as it was.
            is_signed = block.get("thinkingSignature") or block.get("redacted")
            if not is_signed and (thinking := clean_text(block["thinking"])) is not block["thinking"]:
                thought: ThinkingContent = {**block, "thinking": thinking}
                return thought
        case "toolCall":
            # Visible, since a call without them would be another one.
            arguments = as_object(map_strings(block["arguments"], visible_controls)) or {}
            if arguments != block["arguments"]:
                call: ToolCall = {**block, "arguments": arguments}
                return call
        case _:
            pass
    return block
