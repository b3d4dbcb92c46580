"""The scripted server's Gemini: built after the published format of `streamGenerateContent`."""

import json
import urllib.request
from typing import Any

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.google_wire import GoogleContent
from pinnace_fuzz.script import Content, Finish, Raw, Reasoning, SseEvent, Text, TokenUsage, ToolArguments, ToolStart


def stream_of(*pieces: Content) -> bytes:
    wire = GoogleContent("m")
    return wire.head() + b"".join(map(wire.piece, pieces)) + wire.tail()


def events_of(*pieces: Content) -> list[dict[str, Any]]:
    blocks = stream_of(*pieces).decode().removesuffix("\n\n").split("\n\n")
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def parts_of(*pieces: Content) -> list[dict[str, Any]]:
    return [
        part
        for event in events_of(*pieces)
        for candidate in event.get("candidates", ())
        for part in candidate["content"]["parts"]
    ]


def test_texts_and_thoughts_are_parts_and_a_call_is_one_with_all_of_its_arguments() -> None:
    found = parts_of(
        Reasoning("hm"),
        Text("a"),
        ToolStart(0, "c1", "bash"),
        ToolStart(1, "c2", "read"),
        ToolArguments(1, '{"path"'),
        ToolArguments(0, "{}"),
        ToolArguments(1, ': "x"}'),
        Finish("tool_calls"),
    )

    assert found == [
        {"text": "hm", "thought": True},
        {"text": "a"},
        {"functionCall": {"id": "c1", "name": "bash", "args": {}}},
        {"functionCall": {"id": "c2", "name": "read", "args": {"path": "x"}}},
    ]


def test_the_end_has_its_reason_and_counts_the_tokens() -> None:
    *_, ended, counted = events_of(Text("a"), Finish("length"), TokenUsage(10, 5, 2, 1, 3))
    usage = counted["usageMetadata"]

    assert ended["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert (usage["promptTokenCount"], usage["candidatesTokenCount"], usage["totalTokenCount"]) == (13, 5, 21)
    assert (usage["cachedContentTokenCount"], usage["thoughtsTokenCount"]) == (2, 3)


def test_a_call_without_an_end_is_written_at_the_end_of_the_stream() -> None:
    assert [{"functionCall": {"id": "c1", "name": "bash", "args": "{"}}] == parts_of(
        ToolStart(0, "c1", "bash"), ToolArguments(0, "{")
    )


def test_bytes_and_events_are_written_as_they_are() -> None:
    assert stream_of(Raw(b": hi\n\n"), SseEvent({"a": 1})) == b': hi\n\ndata: {"a":1}\n\n'


def test_the_server_answers_by_the_path_of_the_request() -> None:
    with FakeLlm([{"text": "hello"}]) as llm:
        path = "/v1beta/models/m1:streamGenerateContent?alt=sse"
        request = urllib.request.Request(llm.base_url + path, data=b'{"contents": []}')
        with urllib.request.urlopen(request) as response:
            body = response.read().decode()

    assert '{"text":"hello"}' in body
    assert '"finishReason":"STOP"' in body
