"""A model that speaks Anthropic's messages, from models.json to the session file, and in turns with another API."""

import json
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest

from pinnace_agent.llm.failures import provider_words
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

SETTLED: Final = {"type": "agent_settled"}
SIGNATURE: Final = "c2lnbmVk"
QUICK: Final = {"retry": {"baseDelayMs": 1}}
KEY: Final = "sk-ant-api03-0123456789abcdef"
CALLING: Final = {
    "reasoning": ["I should ", "look."],
    "tool_calls": [{"name": "bash", "args": {"command": "echo found"}, "id": "toolu_1", "pieces": 3}],
    "usage": {"input": 100, "output": 20, "cacheRead": 40},
}


def models(base_url: str) -> Record:
    """Describe a model for each of two APIs at one server."""
    shared = {"reasoning": True, "contextWindow": 128_000, "maxTokens": 4096, "input": ["text"]}
    cost = {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1.25}
    return {
        "providers": {
            "fake": {
                "baseUrl": base_url,
                "api": "anthropic-messages",
                "apiKey": KEY,
                "models": [{"id": "m1", "cost": cost, **shared}],
            },
            "other": {
                "baseUrl": f"{base_url}/v1",
                "api": "openai-completions",
                "apiKey": "sk-other",
                "models": [{"id": "m2", "cost": cost, **shared}],
            },
        }
    }


@pytest.fixture
def start(
    llm: Callable[[Iterable[Scripted]], FakeLlm], agent: AgentStarter
) -> Callable[[Iterable[Scripted]], HomedAgent]:
    """Starts agents whose model speaks Anthropic's messages, thinks, and is remembered in a session file."""

    def with_script(script: Iterable[Scripted]) -> HomedAgent:
        server = llm(script)
        pi = agent(server, "--thinking", "low", models=models(server.base_url), settings=QUICK, has_session=True)
        assert pi.ask("get_state")["model"]["api"] == "anthropic-messages"
        return pi

    return with_script


def say(pi: HomedAgent, text: str) -> list[Record]:
    """Send a prompt, wait until it is done with, and return the records since."""
    mark = pi.mark()
    pi.ask("prompt", message=text)
    pi.wait(SETTLED, since=mark)
    return [each.record for each in pi.records[mark:]]


def updates_of(records: Iterable[Record]) -> list[tuple[str, int, str]]:
    """Return type, index and text of the updates; successive deltas as one, since they may be written so."""
    events = [each["assistantMessageEvent"] for each in records if each["type"] == "message_update"]
    return [
        (kind, index, "".join(event.get("delta", "") for event in group))
        for (kind, index), group in groupby(events, lambda event: (event["type"], event["contentIndex"]))
    ]


def sent(pi: HomedAgent, number: int) -> list[Record]:
    """Return the messages of a request, without cache marks and the system prompt."""
    messages = pi.llm.requests[number].body["messages"]
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            block.pop("cache_control", None)
    return [message for message in messages if message["role"] not in {"system", "developer"}]


def saved(pi: HomedAgent) -> list[Record]:
    """Return the messages in the session file."""
    path = Path(pi.ask("get_state")["sessionFile"])
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [row["message"] for row in rows if row["type"] == "message"]


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def answers(messages: Iterable[Record]) -> list[Any]:
    return [message["content"] for message in messages if message["role"] == "assistant"]


def test_a_prompt_with_a_call_streams_block_by_block_and_is_saved_with_its_signature(
    start: Callable[[Iterable[Scripted]], HomedAgent],
) -> None:
    pi = start([CALLING, {"text": ["It is ", "there."]}])
    records = say(pi, "Look.")

    assert updates_of(records) == [
        ("thinking_start", 0, ""),
        ("thinking_delta", 0, "I should look."),
        ("thinking_end", 0, ""),
        ("toolcall_start", 1, ""),
        ("toolcall_delta", 1, '{"command": "echo found"}'),
        ("toolcall_end", 1, ""),
        ("text_start", 0, ""),
        ("text_delta", 0, "It is there."),
        ("text_end", 0, ""),
    ]
    call = {"type": "toolCall", "id": "toolu_1", "name": "bash", "arguments": {"command": "echo found"}}
    thought = {"type": "thinking", "thinking": "I should look.", "thinkingSignature": SIGNATURE}
    assert answers(saved(pi)) == [[thought, call], [text("It is there.")]]
    first = next(message for message in saved(pi) if message["role"] == "assistant")
    assert (first["api"], first["stopReason"], first["responseId"]) == ("anthropic-messages", "toolUse", "msg_fake")
    assert (first["usage"]["input"], first["usage"]["cacheRead"], first["usage"]["totalTokens"]) == (100, 40, 160)

    asked, second = pi.llm.requests
    assert (asked.path, asked.headers["x-api-key"]) == ("/v1/messages", KEY)
    assert asked.body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert [tool["name"] for tool in second.body["tools"]] == ["read", "bash", "edit", "write"]
    assert sent(pi, 1) == [
        {"role": "user", "content": [text("Look.")]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I should look.", "signature": SIGNATURE},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "echo found"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found\n", "is_error": False},
            ],
        },
    ]


def test_the_conversation_goes_on_with_another_api_and_back_and_each_gets_its_own_thoughts(
    start: Callable[[Iterable[Scripted]], HomedAgent],
) -> None:
    pi = start(
        [
            CALLING,
            {"text": "It is there."},
            {
                "reasoning": "Me too.",
                "tool_calls": [{"name": "bash", "args": {"command": "echo more"}, "id": "call|other/1="}],
            },
            {"text": "More."},
            {"text": "Enough."},
        ]
    )
    say(pi, "Look.")
    pi.ask("set_model", provider="other", modelId="m2")
    say(pi, "And you?")
    pi.ask("set_model", provider="fake", modelId="m1")
    say(pi, "Again?")

    assert [request.path for request in pi.llm.requests] == [
        *("/v1/messages", "/v1/messages"),
        *("/v1/chat/completions", "/v1/chat/completions"),
        "/v1/messages",
    ]
    _, call, result, answer, _ = sent(pi, 2)
    assert (call["tool_calls"][0]["id"], result["tool_call_id"]) == ("toolu_1", "toolu_1")
    assert answer["content"] == "It is there."
    assert "I should look." not in pi.llm.requests[2].text
    assert SIGNATURE not in pi.llm.requests[2].text

    back = sent(pi, 4)
    assert answers(back) == [
        [
            {"type": "thinking", "thinking": "I should look.", "signature": SIGNATURE},
            {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "echo found"}},
        ],
        [text("It is there.")],
        [{"type": "tool_use", "id": "call_other_1_", "name": "bash", "input": {"command": "echo more"}}],
        [text("More.")],
    ]
    assert [block["tool_use_id"] for message in back for block in message["content"] if "tool_use_id" in block] == [
        *("toolu_1", "call_other_1_")
    ]
    assert "Me too." not in pi.llm.requests[4].text
    assert [blocks[0].get("thinkingSignature") for blocks in answers(saved(pi))] == [
        *(SIGNATURE, None, "reasoning_content", None, None)
    ]


def test_an_overloaded_server_is_asked_again_though_its_stream_began_well(
    start: Callable[[Iterable[Scripted]], HomedAgent],
) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    broken = {"chunks": [{"text": "half"}, {"event": error}], "finish": None, "usage": None, "done": False}
    pi = start([broken, {"text": "whole"}])
    records = say(pi, "Hello")

    (retry,) = [each for each in records if each["type"] == "auto_retry_start"]
    assert json.loads(provider_words(retry["errorMessage"])) == error
    assert sent(pi, 1) == [{"role": "user", "content": [text("Hello")]}]
    assert answers(saved(pi))[-1] == [text("whole")]
