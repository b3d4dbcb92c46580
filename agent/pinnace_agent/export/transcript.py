"""The active branch of a session as Markdown, for reviews, issues and other models.

Texts of people and models are copied as they are, since they are Markdown; what tools took and returned is in fenced
blocks, each with a fence that its content does not have. Pure.
"""

import json
import re
from collections.abc import Iterator

from pinnace_agent.export.source import Source
from pinnace_agent.export.trajectory import branch_messages, message_text, plain_text
from pinnace_spec.records.messages import AssistantMessage, Message

_TITLES = {
    "user": "User",
    "assistant": "Assistant",
    "bashExecution": "Command of the user",
    "custom": "Message of an extension",
    "branchSummary": "Summary of another branch",
    "compactionSummary": "Summary of the conversation so far",
}


def transcript(source: Source) -> Iterator[str]:
    """Yield the text in pieces."""
    yield f"# Session {source.header.get('id', '')}\n\nFolder: `{source.header.get('cwd', '')}`\n"
    for message in branch_messages(source):
        yield from _message(message)


def _message(message: Message) -> Iterator[str]:
    if message["role"] == "toolResult":
        title = f"Result of {message['toolName']}" + (" (error)" if message["isError"] else "")
        yield f"\n### {title}\n\n{fenced(plain_text(message['content']))}"
        return
    yield f"\n## {_TITLES.get(message['role'], message['role'])}\n"
    if message["role"] == "assistant":
        yield from _answer(message)
    elif message["role"] == "bashExecution":
        yield "\n" + fenced(message_text(message))
    else:
        yield f"\n{message_text(message)}\n"


def _answer(message: AssistantMessage) -> Iterator[str]:
    for block in message["content"]:
        if block["type"] == "text":
            yield f"\n{block['text']}\n"
        elif block["type"] == "thinking":
            yield "\n" + "".join(f"> {line}\n" for line in block["thinking"].splitlines())
        elif block["type"] == "toolCall":
            arguments = json.dumps(block["arguments"], indent=1, ensure_ascii=False)
            yield f"\n### Call of {block['name']}\n\n{fenced(arguments, 'json')}"
    if "errorMessage" in message:
        yield f"\n**Error:** {message['errorMessage']}\n"


def fenced(text: str, language: str = "") -> str:
    """Return a code block with a longer fence than any in the text."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
