"""The fake LLM's answers as Anthropic's messages: the same scripts, in the events of that API."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import pytest

from pinnace_fuzz.harness.model_server.anthropic_wire import AnthropicMessages
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Content, Finish, Scripted, ScriptError, Text, ToolArguments, ToolStart

BODY = {"model": "m1", "max_tokens": 10, "stream": True, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60, trust_env=False) as client:
        yield client


def run(script: Iterable[Scripted], client: httpx.Client) -> str:
    with FakeLlm(script) as llm:
        return client.post(f"{llm.base_url}/v1/messages", json=BODY).text


def events(stream: str) -> list[dict[str, Any]]:
    """Read the events of a stream; each has the name of its type."""
    read: list[dict[str, Any]] = []
    for part in stream.split("\n\n")[:-1]:
        name, data = part.split("\n")
        read.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {read[-1]['type']}"
    return read


def briefly(stream: str) -> list[str]:
    """Name the events of a stream: blocks by their kind and index, deltas by what they say."""
    words: list[str] = []
    for event in events(stream):
        kind = event["type"]
        delta = {**event.get("content_block", {}), **event.get("delta", {})}
        said = next((delta[key] for key in ("text", "thinking", "partial_json", "signature", "id") if key in delta), "")
        words.append(f"{kind.removeprefix('content_block_')} {event.get('index', '')} {said}".strip())
    return words


def test_every_block_is_closed_before_the_next_and_before_the_end(client: httpx.Client) -> None:
    calls = [{"name": "bash", "args": {"a": 1}, "id": "c1"}, {"name": "bash", "args": {}, "id": "c2", "pieces": 1}]
    stream = run([{"reasoning": ["hm", "m"], "text": "so", "tool_calls": calls}], client)

    assert briefly(stream) == [
        *("message_start", "ping"),
        *("start 0", "delta 0 hm", "delta 0 m", "delta 0 c2lnbmVk", "stop 0"),
        *("start 1", "delta 1 so", "stop 1"),
        *("start 2 c1", 'delta 2 {"a"', "delta 2 : 1}", "stop 2"),
        *("start 3 c2", "delta 3 {}", "stop 3"),
        *("message_delta", "message_delta", "message_stop"),
    ]
    assert events(stream)[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("pause_turn", "pause_turn")],
)
def test_the_word_for_the_end_is_the_apis_own(finish: str, reason: str, client: httpx.Client) -> None:
    assert events(run([{"text": "a", "finish": finish}], client))[-2]["delta"]["stop_reason"] == reason


def test_usage_is_reported_with_the_stop_reason(client: httpx.Client) -> None:
    usage = {"input": 100, "output": 20, "cacheRead": 40, "cacheWrite": 3, "reasoning": 7}

    assert events(run([{"text": "a", "usage": usage}], client))[-2]["usage"] == {
        "input_tokens": 100,
        "output_tokens": 20,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 7},
    }


def test_what_is_left_out_of_the_end_is_not_written(client: httpx.Client) -> None:
    stream = run([{"text": "a", "finish": None, "usage": None, "done": False}], client)

    assert briefly(stream) == ["message_start", "ping", "start 0", "delta 0 a"]


def test_many_deltas_are_one_block(client: httpx.Client) -> None:
    stream = run([{"gen": {"n": 5_000, "size": 20}}, {"gen": {"n": 1, "size": 5, "kind": "reasoning"}}], client)

    assert [word[:7] for word in briefly(stream)].count("delta 0") == 5_000
    assert [word[:7] for word in briefly(stream)].count("start 0") == 1


def test_other_events_are_named_by_their_type() -> None:
    stream = run_one({"chunks": [{"event": {"type": "ping", "x": 1}}], "finish": None, "usage": None})

    assert events(stream)[2] == {"type": "ping", "x": 1}


def run_one(response: Scripted) -> str:
    with httpx.Client(timeout=60, trust_env=False) as client:
        return run([response], client)


def test_calls_in_turns_are_a_fault_of_the_script() -> None:
    wire = AnthropicMessages("m1")
    for piece in (ToolStart(0, "c1", "bash"), ToolStart(1, "c2", "bash"), ToolArguments(1, "{}")):
        wire.piece(piece)

    with pytest.raises(ScriptError):
        wire.piece(ToolArguments(0, "{}"))


def test_a_new_block_of_the_same_kind_follows_the_end_of_another() -> None:
    wire = AnthropicMessages("m1")
    pieces: list[Content] = [Text("a"), ToolStart(0, "c1", "bash"), Text("b"), Finish("stop")]
    stream = b"".join(map(wire.piece, pieces))

    assert briefly(stream.decode())[-4:] == ["start 2", "delta 2 b", "stop 2", "message_delta"]
