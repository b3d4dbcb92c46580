"""A conversation as text, for a model that is to summarise it and not to continue it.

Pure. A paragraph for each message, call and result, which begins with its author. What is long and can be had again is
cut: results, the output of shells, the arguments of calls. Thoughts are left out, and pictures are only mentioned.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pinnace_agent.core.json_access import compact_json
from pinnace_agent.llm.context import user_text
from pinnace_spec.records.messages import AssistantMessage, BashExecutionMessage, Message, ToolCall, UserContent

# DEVIATION D-56: of a result, an argument or the output of a shell. Enough to see what came of it; the whole would be
# most of the request.
MAX_RESULT_CHARS: Final = 2000
_NO_TEXT: Final = "(no text)"
# The tags around what is sent. A conversation that holds them, such as one about this program, must not end them.
_TAG: Final = re.compile(r"<(?=/?(?:conversation|previous-summary)>)")


def paragraphs(messages: Iterable[Message]) -> list[str]:
    """Write messages down, oldest first."""
    return [without_tags(paragraph) for message in messages for paragraph in _paragraphs(message)]


def without_tags(text: str) -> str:
    """Escape the tags in a text, so that it can be put between tags."""
    return _TAG.sub("<\\\\", text)


def _paragraphs(message: Message) -> Iterator[str]:
    match message["role"]:
        case "user" | "custom":
            yield f"[User]: {_text(message['content'])}"
        case "bashExecution":
            if not message.get("excludeFromContext"):
                yield f"[User]: {user_text(_cut_output(message))}"
        case "branchSummary":
            yield f"[User]: Another branch of this conversation was left. Its summary: {message['summary']}"
        case "compactionSummary":
            yield f"[User]: Earlier conversation, summarised: {message['summary']}"
        case "assistant":
            yield from _answer(message)
        case "toolResult":
            head = "Tool error" if message["isError"] else "Tool result"
            yield f"[{head}]: {_cut(_text(message['content']))}"


def _answer(message: AssistantMessage) -> Iterator[str]:
    # Half an answer is none to a reader.
    if message["stopReason"] in {"error", "aborted"}:
        return
    text = "\n".join(block["text"] for block in message["content"] if block["type"] == "text")
    if text.strip():
        yield f"[Assistant]: {text}"
    calls = [_call(block) for block in message["content"] if block["type"] == "toolCall"]
    if calls:
        yield f"[Assistant tool calls]: {'; '.join(calls)}"


def _call(call: ToolCall) -> str:
    arguments = (f"{name}={_cut(compact_json(value))}" for name, value in call["arguments"].items())
    return f"{call['name']}({', '.join(arguments)})"


def _text(content: str | list[UserContent]) -> str:
    if isinstance(content, str):
        return content or _NO_TEXT
    texts = [block["text"] for block in content if block["type"] == "text" and block["text"]]
    images = sum(block["type"] == "image" for block in content)
    if images:  # DEVIATION D-56: which are not sent, but readers of the summary should know of them
        texts.append("(an image)" if images == 1 else f"({images} images)")
    return "\n".join(texts) or _NO_TEXT


def _cut_output(message: BashExecutionMessage) -> BashExecutionMessage:
    return {**message, "output": _cut(message["output"])}


def _cut(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]}\n\n[... {len(text) - MAX_RESULT_CHARS} more characters truncated]"
