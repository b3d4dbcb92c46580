"""The answers of the offline model without a script, derived from the prompt.

Pure and deterministic. A prompt can make it call tools, think, count and fail, so that a client can be tried
without a script. Independent of how a turn is played.
"""

import re
from collections.abc import Sequence
from typing import Final

from pinnace_agent.llm.context import ContextMessage
from pinnace_agent.llm.offline.script import ScriptedAnswer, ScriptedCall, ScriptedError, pieces
from pinnace_spec.records.messages import ToolCall, ToolResultMessage, UserMessage

# The instruction in a prompt, and what it makes the model do.
_RUN: Final = re.compile(r"\brun\s+`([^`]+)`", re.IGNORECASE)
_READ: Final = re.compile(r"\bread\s+`([^`]+)`", re.IGNORECASE)
_COUNT: Final = re.compile(r"\bcount\s+to\s+(\d{1,6})\b", re.IGNORECASE)
_FAIL: Final = re.compile(r"\bfail\s+with\s+([45]\d\d)\b", re.IGNORECASE)
_THINK: Final = re.compile(r"\bthink\b", re.IGNORECASE)
_SUMMARY: Final = re.compile(r"\A\s*<conversation>")

# An answer quotes only so many lines of a prompt or an output.
_QUOTED_CHARS: Final = 200
_QUOTED_LINES: Final = 10
_MAX_CALLS: Final = 8


def is_summary_request(prompt: str) -> bool:
    """Recognise a request for a summary of the conversation, which no turn of a script is meant for."""
    return _SUMMARY.match(prompt) is not None


def prompt_of(messages: Sequence[ContextMessage]) -> str:
    """Return the last message of the user."""
    for message in reversed(messages):
        if message["role"] == "user":
            return _text_of(message)
    return ""


def rehearse(messages: Sequence[ContextMessage], tools: Sequence[str], *, has_failed: bool) -> ScriptedAnswer:
    """Compose an answer.

    Args:
        messages: The conversation.
        tools: Names of the tools that may be called.
        has_failed: This prompt was answered with a failure before; now it succeeds.
    """
    prompt = prompt_of(messages)
    if is_summary_request(prompt):
        lines = prompt.count("\n") + 1
        return ScriptedAnswer(text=pieces(f"Rehearsal summary: {lines} lines of conversation were left out here."))
    results = _trailing_results(messages)
    if results:
        return ScriptedAnswer(text=pieces(_about_results(messages, results)))
    if (failure := _FAIL.search(prompt)) and not has_failed:
        status = int(failure[1])
        return ScriptedAnswer(error=ScriptedError(f"The rehearsal fails with {status}, as asked", status))
    thinking = pieces(_thoughts(prompt)) if _THINK.search(prompt) else ()
    calls = _calls(prompt)
    if calls:
        missing = sorted({call.name for call in calls if call.name not in tools})
        if missing:
            text = f"I would call the tool {' and '.join(missing)}, but this session does not have it."
            return ScriptedAnswer(thinking=thinking, text=pieces(text))
        return ScriptedAnswer(thinking=thinking, text=pieces(_announcement(calls)), tools=calls)
    if count := _COUNT.search(prompt):
        numbers = tuple(f"{number} " for number in range(1, int(count[1]) + 1))
        return ScriptedAnswer(thinking=thinking, text=numbers)
    return ScriptedAnswer(thinking=thinking, text=pieces(_echo(messages, prompt, has_failed)))


def _calls(prompt: str) -> tuple[ScriptedCall, ...]:
    calls = [ScriptedCall("bash", {"command": command}) for command in _RUN.findall(prompt)]
    calls += [ScriptedCall("read", {"path": path}) for path in _READ.findall(prompt)]
    return tuple(calls[:_MAX_CALLS])


def _announcement(calls: Sequence[ScriptedCall]) -> str:
    if len(calls) == 1:
        return f"I call {calls[0].name}."
    return f"I make {len(calls)} calls at once: {', '.join(call.name for call in calls)}."


def _thoughts(prompt: str) -> str:
    words = len(prompt.split())
    return f"The prompt has {words} word{'' if words == 1 else 's'}. It asks me to think, so I think before I answer."


def _echo(messages: Sequence[ContextMessage], prompt: str, has_failed: bool) -> str:
    last = messages[-1] if messages else None
    images = 0
    if last is not None and last["role"] == "user" and not isinstance(last["content"], str):
        images = sum(block["type"] == "image" for block in last["content"])
    again = "This time it works. " if has_failed else ""
    said = f'You said: "{_short(prompt)}"' if prompt.strip() else "You said nothing"
    seen = f", with {images} image{'' if images == 1 else 's'}" if images else ""
    return (
        f"{again}{said}{seen}. I am the offline rehearsal model: no network was used. "
        "Ask me to run `date`, to think, to count to 100, or to fail with 503."
    )


def _about_results(messages: Sequence[ContextMessage], results: Sequence[ToolResultMessage]) -> str:
    calls = _last_calls(messages)
    return "\n\n".join(_about_result(result, calls.get(result["toolCallId"])) for result in results)


def _about_result(result: ToolResultMessage, call: ToolCall | None) -> str:
    subject = result["toolName"]
    if call is not None:
        first = next((value for value in call["arguments"].values() if isinstance(value, str)), None)
        subject = f"`{first}`" if first else subject
    lines = "\n".join(block["text"] for block in result["content"] if block["type"] == "text").splitlines()
    shown = "\n".join(lines[:_QUOTED_LINES])
    rest = f"\n({len(lines) - _QUOTED_LINES} more lines)" if len(lines) > _QUOTED_LINES else ""
    verb = "failed" if result["isError"] else "is done"
    if not shown.strip():
        return f"{subject} {verb}; it said nothing."
    return f"{subject} {verb}. It said:\n\n{shown}{rest}"


def _trailing_results(messages: Sequence[ContextMessage]) -> list[ToolResultMessage]:
    results: list[ToolResultMessage] = []
    for message in reversed(messages):
        if message["role"] != "toolResult":
            break
        results.append(message)
    return results[::-1]


def _last_calls(messages: Sequence[ContextMessage]) -> dict[str, ToolCall]:
    for message in reversed(messages):
        if message["role"] == "assistant":
            return {block["id"]: block for block in message["content"] if block["type"] == "toolCall"}
    return {}


def _text_of(message: UserMessage) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _QUOTED_CHARS else f"{text[:_QUOTED_CHARS]}…"
