"""The scripted server's OpenAI Responses: built after the published format."""

import json
from typing import Any

from pinnace_fuzz.harness.model_server.responses_wire import OpenAiResponses
from pinnace_fuzz.script import Content, Finish, Raw, Reasoning, SseEvent, Text, TokenUsage, ToolArguments, ToolStart


def events_of(*pieces: Content) -> list[dict[str, Any]]:
    wire = OpenAiResponses("m")
    stream = wire.head() + b"".join(map(wire.piece, pieces)) + wire.tail()
    events: list[dict[str, Any]] = []
    for block in stream.decode().removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


RICH = (
    Reasoning("hm"),
    Text("a"),
    Text("b"),
    ToolStart(0, "c1", "bash"),
    ToolStart(1, "c2", "read"),
    ToolArguments(1, "{"),
    ToolArguments(0, "{}"),
    ToolArguments(1, "}"),
    TokenUsage(10, 5, 2, 1, 3),
)


def test_every_item_is_announced_and_reported_as_a_whole() -> None:
    events = events_of(*RICH)
    added = [event["item"]["type"] for event in events if event["type"] == "response.output_item.added"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]

    assert added == ["reasoning", "message", "function_call", "function_call"]
    assert events[-1]["response"]["output"] == done
    assert [item.get("arguments") for item in done] == [None, None, "{}", "{}"]
    assert done[1]["content"][0]["text"] == "ab"


def test_events_are_numbered_and_the_last_one_counts_the_tokens() -> None:
    events = events_of(*RICH)
    usage = events[-1]["response"]["usage"]

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (13, 5, 18)
    assert usage["input_tokens_details"] == {"cached_tokens": 2, "cache_write_tokens": 1}


def test_a_response_that_is_cut_says_why() -> None:
    response = events_of(Text("a"), Finish("length"))[-1]["response"]

    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_bytes_and_events_are_written_as_they_are() -> None:
    wire = OpenAiResponses("m")

    assert wire.piece(Raw(b": ping\n\n")) == b": ping\n\n"
    assert wire.piece(SseEvent({"type": "x"})) == b'data: {"type":"x"}\n\n'
