"""Which prompt of a session was cut, from the entries of its branch."""

from typing import Any

import pytest

from pinnace_agent.session.interruption import find_interruption

Message = dict[str, Any]  # the edge of JSON


def entry(number: int, message: Message) -> Message:
    if "type" in message:
        return {"id": f"e{number}", "parentId": None, **message}
    return {"type": "message", "id": f"e{number}", "parentId": None, "message": {"timestamp": 1, **message}}


def answer(*calls: str, stop: str = "toolUse") -> Message:
    content = [{"type": "toolCall", "id": call, "name": "bash", "arguments": {}} for call in calls]
    usage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": {}}
    names = {"api": "a", "provider": "p", "model": "m"}
    return {"role": "assistant", "content": content, "usage": usage, "stopReason": stop, **names}


def result(call: str, text: str = "ok", *, is_error: bool = False) -> Message:
    content = [{"type": "text", "text": text}]
    return {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": content, "isError": is_error}


def shell() -> Message:
    return {"role": "bashExecution", "command": "c", "output": "", "cancelled": False, "truncated": False}


USER: Message = {"role": "user", "content": [{"type": "text", "text": "go"}]}
DONE = answer(stop="stop")
FAILED = answer(stop="error")
ENDED: Message = {"type": "custom", "customType": "pinnace.run-ended", "data": {}}
RETRYING: Message = {"type": "custom", "customType": "pinnace.retrying", "data": {}}


def hides(number: int) -> Message:
    return {"type": "context_edit", "targetId": f"e{number}", "replacement": None}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], None),
        ([USER, DONE], None),
        ([USER, answer(stop="error")], None),
        ([USER, answer("a", stop="aborted")], None),
        ([USER], ("e0", "answer", [])),
        ([USER, DONE, USER, shell()], ("e2", "answer", [])),
        ([USER, answer("a", "b")], ("e0", "tools", ["a", "b"])),
        ([USER, answer("a", "b"), result("a")], ("e0", "tools", ["b"])),
        ([USER, answer("a"), result("a")], ("e0", "answer", [])),
        ([USER, answer("a"), result("a"), answer("b")], ("e0", "tools", ["b"])),
        ([USER, answer("a"), result("a"), ENDED], None),
        ([USER, answer("a"), result("a"), ENDED, USER, answer("b")], ("e4", "tools", ["b"])),
        ([USER, answer("a"), result("a"), ENDED, USER, DONE], None),
        ([USER, FAILED, RETRYING], ("e0", "answer", [])),
        ([USER, FAILED, RETRYING, hides(1)], ("e0", "answer", [])),
        ([USER, FAILED, RETRYING, hides(1), FAILED], None),
        ([USER, FAILED, RETRYING, hides(1), DONE], None),
        ([USER, FAILED, RETRYING, ENDED], None),
        ([USER, answer("a"), result("a"), FAILED, RETRYING], ("e0", "answer", [])),
    ],
)
def test_a_prompt_without_its_end_was_interrupted(messages: list[Message], expected: object) -> None:
    found = find_interruption([entry(number, message) for number, message in enumerate(messages)][::-1])

    assert expected == (found and (found["entryId"], found["during"], [call["id"] for call in found["cutCalls"]]))
    assert found is None or found["text"] == "go"
