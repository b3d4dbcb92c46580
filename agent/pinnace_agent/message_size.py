"""How much text a message is, in characters: what estimates of tokens start from.

Pure. Characters are code points; an image counts as a fixed number. How many characters make a token is the caller's to
know.
"""

from collections.abc import Iterable
from typing import Final

from pinnace_agent.llm.json_edge import compact_json
from pinnace_spec.messages import AssistantMessage, Message

# What an image costs at the providers that tell, at four characters a token.
IMAGE_CHARS: Final = 4800


def message_chars(message: Message) -> int:
    """Count the characters of a message that a model reads."""
    match message["role"]:
        case "bashExecution":
            return len(message["command"]) + len(message["output"])
        case "branchSummary" | "compactionSummary":
            return len(message["summary"])
        case "assistant":
            return sum(_assistant_chars(message))
        case _:
            content = message["content"]
            if isinstance(content, str):
                return len(content)
            return sum(len(block["text"]) if block["type"] == "text" else IMAGE_CHARS for block in content)


def _assistant_chars(message: AssistantMessage) -> Iterable[int]:
    for block in message["content"]:
        match block["type"]:
            case "text":
                yield len(block["text"])
            case "thinking":
                yield len(block["thinking"])
            case "toolCall":
                yield len(block["name"]) + len(compact_json(block["arguments"]))
