"""Messages, blocks, usage and models: closed shapes that cost nothing to import."""

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from pinnace_fuzz.records import objects
from pinnace_spec.records import messages
from pinnace_spec.records.messages import Message, UserMessage, zero_usage
from pinnace_spec.records.outputs import validate_output

# The edge of JSON: examples are changed at any place.
Json = Any

USAGE: Json = {
    "input": 1,
    "output": 2,
    "cacheRead": 3,
    "cacheWrite": 4,
    "totalTokens": 10,
    "reasoning": 1,
    "cacheWrite1h": 0,
}
USAGE |= {"cost": {"input": 0.1, "output": 0.2, "cacheRead": 0, "cacheWrite": 0, "total": 0.3}}
TEXT: Json = {"type": "text", "text": "hello", "textSignature": "s"}
IMAGE: Json = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
THOUGHT: Json = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s", "redacted": True}
CALL: Json = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}}
CALL |= {"argumentsError": "cut", "thoughtSignature": "s"}
# Every message with every field that it may have.
MESSAGES: dict[str, Json] = {
    "user": {"role": "user", "content": [TEXT, IMAGE], "timestamp": 1},
    "assistant": {
        "role": "assistant",
        "content": [TEXT, THOUGHT, CALL],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": USAGE,
        "stopReason": "toolUse",
        "timestamp": 1,
        "errorMessage": "e",
        "errorCode": "timeout",
        "status": 504,
        "attempts": 2,
        "responseId": "r",
        "responseModel": "n",
        "rawStopReason": "tool_calls",
        "thinkingLevel": "max",
        "providerThinkingLevel": "max",
        "durationMs": 5,
    },
    "toolResult": {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "read",
        "content": [TEXT, IMAGE],
        "details": {"any": ["thing", None]},
        "isError": False,
        "structuredContent": {"any": 1},
        "timestamp": 1,
        "usage": USAGE,
        "durationMs": 5,
    },
    "bashExecution": {
        "role": "bashExecution",
        "command": "ls",
        "output": "a",
        "exitCode": 0,
        "cancelled": False,
        "truncated": True,
        "fullOutputPath": "/tmp/x",
        "timestamp": 1,
        "excludeFromContext": True,
    },
    "custom": {
        "role": "custom",
        "customType": "t",
        "content": [TEXT],
        "display": True,
        "details": {"any": "thing"},
        "timestamp": 1,
    },
    "branchSummary": {"role": "branchSummary", "summary": "s", "fromId": "e1", "timestamp": 1},
    "compactionSummary": {"role": "compactionSummary", "summary": "s", "tokensBefore": 5, "timestamp": 1},
}
MODEL: Json = {
    "id": "m",
    "name": "M",
    "api": "a",
    "provider": "p",
    "baseUrl": "http://localhost",
    "reasoning": True,
    "input": ["text", "image"],
    "cost": {
        "input": 1.5,
        "output": 2,
        "cacheRead": 0,
        "cacheWrite": 0,
        "tiers": [{"inputTokensAbove": 100, "input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}],
    },
    "contextWindow": 100,
    "maxTokens": 10,
    "compat": {"any": "thing"},
    "thinkingLevelMap": {"off": None},
    "inputLimits": {},
    "promptCache": {},
    "samplingParams": {},
    "samplingParamsByThinkingLevel": {},
}
# What is open on purpose: whatever tools, models and providers put there.
OPEN = {"arguments", "details", "compat", "thinkingLevelMap", "inputLimits", "promptCache"}
OPEN |= {"samplingParams", "samplingParamsByThinkingLevel", "structuredContent"}


def problems(message: Json) -> list[str]:
    return validate_output({"type": "message_end", "message": message}, "pi")


def model_problems(model: Json) -> list[str]:
    return validate_output({"type": "response", "command": "set_model", "success": True, "data": model}, "pi")


@pytest.mark.parametrize("role", MESSAGES)
def test_a_message_with_every_field_is_valid(role: str) -> None:
    assert [] == problems(MESSAGES[role])


def test_every_field_of_every_message_stands_in_the_examples() -> None:
    """Else the tests that go through them would pass over a new field."""
    for message_type in get_args(Message):
        hints = get_type_hints(message_type)
        (role,) = get_args(hints["role"])
        assert set(hints) == set(MESSAGES[role]), role
    assert set(get_type_hints(messages.Model)) == set(MODEL)
    assert set(get_type_hints(messages.Usage)) == set(USAGE)
    for block, example in {"Text": TEXT, "Image": IMAGE, "Thinking": THOUGHT}.items():
        assert set(get_type_hints(getattr(messages, f"{block}Content"))) == set(example)
    assert set(get_type_hints(messages.ToolCall)) == set(CALL)


@pytest.mark.parametrize("role", MESSAGES)
def test_an_unknown_key_anywhere_in_a_message_is_found(role: str) -> None:
    for number, _ in enumerate(objects(MESSAGES[role], OPEN)):
        message = copy.deepcopy(MESSAGES[role])
        list(objects(message, OPEN))[number]["unheard"] = 1
        assert any("unheard" in problem for problem in problems(message)), (role, number)


@pytest.mark.parametrize("role", MESSAGES)
def test_null_for_a_field_of_a_message_is_found(role: str) -> None:
    """Absent means absent; only what is open, and one path, may be null."""
    for number, example in enumerate(objects(MESSAGES[role], OPEN)):
        for key in example:
            message = copy.deepcopy(MESSAGES[role])
            list(objects(message, OPEN))[number][key] = None
            assert problems(message) or key in {"details", "structuredContent", "fullOutputPath"}, (role, key)


@pytest.mark.parametrize("role", MESSAGES)
def test_a_required_field_that_lacks_is_found(role: str) -> None:
    (message_type,) = [each for each in get_args(Message) if role in get_args(get_type_hints(each)["role"])]
    for key in message_type.__required_keys__ - {"role"}:
        message = {name: value for name, value in MESSAGES[role].items() if name != key}
        assert any(key in problem for problem in problems(message)), key
    for key in message_type.__optional_keys__:
        assert [] == problems({name: value for name, value in MESSAGES[role].items() if name != key}), key


@pytest.mark.parametrize(
    ("role", "changed"),
    [
        ("assistant", {"stopReason": "pending"}),
        ("assistant", {"timestamp": "2026-01-01T00:00:00Z"}),
        ("assistant", {"timestamp": 1.5}),
        ("assistant", {"content": "text"}),
        ("assistant", {"content": [IMAGE]}),
        ("assistant", {"thinkingLevel": "ultra"}),
        ("toolResult", {"content": [THOUGHT]}),
        ("toolResult", {"isError": "no"}),
        ("user", {"content": [CALL]}),
        ("user", {"role": "system"}),
        ("bashExecution", {"exitCode": "0"}),
    ],
)
def test_a_value_of_the_wrong_kind_is_found(role: str, changed: Json) -> None:
    assert problems(MESSAGES[role] | changed)


def test_a_user_s_content_may_be_a_text_in_old_sessions() -> None:
    assert [] == problems({"role": "user", "content": "hello", "timestamp": 1})


def test_a_model_is_closed() -> None:
    """R-MSG-04: a key or a header can't slip out with it."""
    assert [] == model_problems(MODEL)
    for secret in ("apiKey", "headers"):
        assert [f"data.{secret}: Extra inputs are not permitted"] == model_problems(MODEL | {secret: "x"})
    assert model_problems(MODEL | {"cost": MODEL["cost"] | {"currency": "USD"}})
    assert model_problems(MODEL | {"input": ["text", "audio"]})


def test_thinking_levels_go_from_least_to_most() -> None:
    assert ("off", "minimal", "low", "medium", "high", "xhigh", "max") == messages.THINKING_LEVELS


def test_closed_sets_are_reported_as_tuples_too() -> None:
    assert messages.STOP_REASONS == ("stop", "length", "toolUse", "error", "aborted")
    assert messages.QUEUE_MODES == ("all", "one-at-a-time")


def test_zero_usage_is_everyone_s_own() -> None:
    first, second = zero_usage(), zero_usage()
    first["cost"]["total"] = 1
    first["input"] = 1

    assert 0 == second["cost"]["total"] == second["input"]
    assert [] == problems(MESSAGES["assistant"] | {"usage": second})


def test_messages_are_plain_dicts() -> None:
    message: UserMessage = {"role": "user", "content": "x", "timestamp": 1}

    assert type(message) is dict


def test_importing_messages_does_not_load_pydantic() -> None:
    """The agent's start would pay for it."""
    code = "import sys, pinnace_spec.records.messages; sys.exit('pydantic' in sys.modules)"
    root = Path(__file__).parents[3] / "spec"

    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(root)})
