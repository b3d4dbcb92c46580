"""How a response ends, well or not, and whatever else a stream may hold.

Every stream is constructed after the published format, never recorded.
"""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.llm import recording
from tests.agent.llm.recording import Recorder
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.failures import FailureTexts, RefusedResponse
from pinnace_agent.llm.openai_responses.provider import refusal_form
from pinnace_agent.llm.openai_responses.stream import ResponseReader
from pinnace_agent.llm.outcomes import OutcomeKind, classify_failure
from pinnace_agent.llm.transport.exchange import StreamBroken, UnreadableEvent
from pinnace_agent.llm.transport.sse import SseEvent, SseReader
from pinnace_agent.redaction.secrets import Secrets
from pinnace_fuzz.harness.model_server.responses_wire import OpenAiResponses
from pinnace_fuzz.script import Content, Finish, Reasoning, Text, TokenUsage, ToolArguments, ToolStart
from pinnace_spec.records.messages import AssistantMessage
from pinnace_spec.rules.errors import EMPTY_ANSWER

Event = dict[str, Any]

MODEL = served_model(id="gpt-1", api="openai-responses", provider="openai", reasoning=True, cost=prices(1, 2, 0.5, 4))
TEXT: Event = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "half"}
CALL: Event = {
    "type": "response.output_item.added",
    "output_index": 1,
    "item": {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": ""},
}


class Reading(recording.Reading):
    """A reader and what came of it."""

    def __init__(self, provider: str = "openai") -> None:
        super().__init__(MODEL)
        self.texts = FailureTexts(Secrets("sk-secret-key"), refusal_form(provider))
        self.reader = ResponseReader(self.builder, self.texts)

    def broken(self, event: object, name: bytes = b"") -> str:
        """Return how an event is worded that breaks the stream."""
        with pytest.raises(StreamBroken) as caught:
            self.reader.read(SseEvent(name, json.dumps(event).encode()))
        return str(caught.value)


def ended(status: str = "completed", **response: object) -> Event:
    return {"type": f"response.{status}", "response": {"status": status, **response}}


def ending_of(*events: object) -> tuple[str, str | None]:
    message = Reading().read(*events).finish()
    return message["stopReason"], message.get("errorMessage")


# Stop reasons


def test_a_response_that_is_complete_stops_or_calls() -> None:
    call = {**CALL, "type": "response.output_item.done"}

    assert ending_of(TEXT, ended()) == ("stop", None)
    assert ending_of(TEXT, call, ended()) == ("toolUse", None)
    assert ending_of(ended()) == ("error", EMPTY_ANSWER)


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        ("max_output_tokens", ("length", None)),
        ("MAX_TOKENS", ("length", None)),
        ("content_filter", ("error", "Response incomplete: content_filter")),
        (None, ("error", "Response incomplete: no reason given")),
    ],
)
def test_a_response_that_is_incomplete_says_why(reason: str | None, ending: tuple[str, str | None]) -> None:
    reading = Reading().read(TEXT, ended("incomplete", incomplete_details={"reason": reason}))
    message = reading.finish()

    assert (message["stopReason"], message.get("errorMessage")) == ending
    assert reading.builder.raw_stop_reason == (reason or "incomplete")
    assert reading.recorder.kinds == ["text_start", "text_delta", "text_end"]


def test_a_call_that_the_limit_cut_is_the_models_error() -> None:
    message = Reading().read(CALL, ended("incomplete", incomplete_details={"reason": "max_output_tokens"})).finish()

    assert (message["stopReason"], message["content"][0]["type"]) == ("length", "toolCall")


def test_a_response_that_was_cancelled_is_an_error() -> None:
    assert ending_of(TEXT, ended("cancelled")) == ("error", "Response cancelled")


@pytest.mark.parametrize("kind", ["completed", "done"])
def test_the_responses_own_status_counts_before_the_name_of_the_event(kind: str) -> None:
    said = {"type": f"response.{kind}", "response": {"status": "incomplete"}}

    assert ending_of(TEXT, said)[0] == "error"
    assert ending_of(TEXT, {"type": f"response.{kind}"}) == ("stop", None)
    assert ending_of(TEXT, {"type": f"response.{kind}", "response": {"status": "in_progress"}}) == ("stop", None)


def test_the_end_is_the_last_event_that_is_read() -> None:
    reader = Reading().reader

    assert not reader.read(SseEvent(b"", json.dumps(TEXT).encode()))
    assert not reader.is_complete
    assert reader.read(SseEvent(b"", json.dumps(ended()).encode()))
    assert reader.is_complete


def test_a_stream_without_an_end_is_an_error_that_keeps_the_text_and_closes_no_block() -> None:
    reading = Reading().read(TEXT)
    reading.reader.read(SseEvent(b"", b"[DONE]"))
    message = reading.finish()

    assert message.get("errorMessage") == "Stream ended before the response was complete"
    assert message["content"] == [{"type": "text", "text": "half"}]
    assert reading.recorder.kinds == ["text_start", "text_delta"]


def test_a_complete_response_with_an_incomplete_call_is_an_error() -> None:
    delta = {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{"}

    for events in ((CALL,), (CALL, delta)):
        assert ending_of(*events, ended()) == ("error", "Stream ended before the tool call read was complete")


def test_what_breaks_off_is_tried_again() -> None:
    for events in ((TEXT,), (CALL, ended())):
        _, text = ending_of(*events)
        assert classify_failure(text or "", "openai").kind is OutcomeKind.TRANSIENT


# Errors inside of the stream


@pytest.mark.parametrize(
    ("error", "text", "kind"),
    [
        ({"code": "rate_limit_exceeded", "message": "Slow down"}, "rate_limit_exceeded: Slow down", "TRANSIENT"),
        ({"code": "server_error", "message": "Oops"}, "server_error: Oops", "TRANSIENT"),
        ({"code": "context_length_exceeded", "message": "Too long"}, "context_length_exceeded: Too long", "OVERFLOW"),
        ({"code": "insufficient_quota", "message": "Pay"}, "insufficient_quota: Pay", "FATAL"),
        ({"code": "invalid_prompt", "message": "No"}, "invalid_prompt: No", "FATAL"),
        ({"code": 503, "message": "Later"}, "503: Later", "TRANSIENT"),
        ({"code": "x", "message": "the key sk-secret-key"}, "x: the key [redacted]", "FATAL"),
        ({"message": "Oops"}, "Oops", "FATAL"),
        (None, "Response failed: the provider gave no reason", "FATAL"),
    ],
)
def test_a_response_that_failed_says_code_and_message_and_is_judged_by_them(
    error: object, text: str, kind: str
) -> None:
    reading = Reading().read(TEXT)

    assert reading.broken(ended("failed", error=error, usage={"input_tokens": 7})) == text
    assert classify_failure(text, "openai", reading.texts.signs).kind is OutcomeKind[kind]
    assert not reading.builder.is_finished
    assert reading.builder.usage["input"] == 7


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"type": "error", "code": "server_error", "message": "Oops"}, "Error Code server_error: Oops"),
        ({"type": "error", "code": None, "message": "Oops"}, "Oops"),
        ({"type": "error", "error": {"type": "overloaded", "message": "Busy"}}, "Error Code overloaded: Busy"),
        ({"type": "error", "error": {"code": "429", "type": "x", "message": "Busy"}}, "Error Code 429: Busy"),
        ({"error": {"code": 500, "message": "Oops"}}, "Error Code 500: Oops"),
        ({"error": "plain words"}, "plain words"),
        ({"type": "error"}, '{"type":"error"}'),
    ],
)
def test_an_error_event_says_code_and_message(event: object, text: str) -> None:
    assert Reading().read(TEXT).broken(event) == text


def test_an_event_that_is_only_named_an_error_is_one() -> None:
    assert Reading().broken({"code": "c", "message": "m"}, b"error") == "Error Code c: m"


@pytest.mark.parametrize(
    ("provider", "name"), [("openai", "OpenAI"), ("opencode", "opencode"), ("a{b}", "a{b}"), ("{status}", "{status}")]
)
def test_a_refusal_names_who_refused(provider: str, name: str) -> None:
    texts = FailureTexts(Secrets("sk-secret-key"), refusal_form(provider))
    body = b'{"error":{"message":"bad sk-secret-key","code":"c"}}'

    assert (
        texts.refused(RefusedResponse(401, body))
        == f'{name} API error (401): {{"message":"bad [redacted]","code":"c"}}'
    )


# Anything else


@pytest.mark.parametrize(
    "event",
    [
        None,
        17,
        "text",
        [],
        {},
        {"type": "response.queued"},
        {"type": "response.web_search_call.searching", "output_index": 0},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "web_search_call", "id": "ws_1"}},
        {"type": "response.output_item.done", "item": None},
        {"type": "response.output_item.added", "item": {"type": ["message"]}},
        {"type": "response.created", "response": "x"},
        {"type": "keepalive", "sequence_number": 3},
        {"error": None},
        {"type": None, "error": ""},
    ],
)
def test_an_event_that_says_nothing_changes_nothing(event: object) -> None:
    reading = Reading().read(event)

    assert reading.recorder.events == []
    assert reading.read(TEXT, ended()).finish()["content"] == [{"type": "text", "text": "half"}]


def test_events_may_be_named_instead_of_typed_and_the_type_counts_before_the_name() -> None:
    reading = Reading()
    untyped = {name: value for name, value in TEXT.items() if name != "type"}
    reading.reader.read(SseEvent(b"response.output_text.delta", json.dumps(untyped).encode()))
    reading.reader.read(SseEvent(b"response.failed", json.dumps(TEXT).encode()))

    assert reading.read(ended()).finish()["content"] == [{"type": "text", "text": "halfhalf"}]


def test_blank_data_says_nothing_and_what_is_no_json_is_refused_and_shown() -> None:
    reading = Reading()
    reading.reader.read(SseEvent(b"", b" "))

    with pytest.raises(UnreadableEvent, match=r"oops \[redacted\]"):
        reading.reader.read(SseEvent(b"", b'{"type": oops sk-secret-key'))


NAMES = (
    "response.output_item.added response.output_item.done response.output_text.delta response.output_text.done "
    "response.reasoning_summary_text.delta response.reasoning_summary_part.done response.reasoning_text.done "
    "response.function_call_arguments.delta response.function_call_arguments.done response.refusal.done "
    "response.created response.completed response.incomplete response.failed error message reasoning function_call"
).split()
KEYS = (
    "type output_index item_id item id call_id name arguments delta text summary_index content_index summary content "
    "response status output usage input_tokens input_tokens_details error code message encrypted_content phase model"
).split()
JSON_VALUES = recording.json_values(KEYS, st.integers(0, 2) | st.sampled_from(NAMES))
EVENTS = st.builds(
    lambda name, event, item: {**event, "item": item, "type": name},
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from(KEYS), JSON_VALUES, max_size=6),
    st.builds(
        lambda kind, item: {**item, "type": kind},
        st.sampled_from(["message", "reasoning", "function_call"]),
        st.dictionaries(st.sampled_from(KEYS), JSON_VALUES, max_size=6),
    ),
)


def check_updates(recorder: Recorder, message: AssistantMessage) -> None:
    """Check what holds of every stream: starts in order, deltas that add up, one end where it ended well."""
    texts: dict[int, str] = {}
    closed: set[int] = set()
    for event in recorder.events:
        index = event["contentIndex"]
        match str(event["type"]).rpartition("_")[2]:
            case "start":
                assert index == len(texts)
                texts[index] = ""
            case "delta":
                assert index not in closed
                texts[index] += event["delta"]
            case _:
                assert index not in closed
                closed.add(index)
                assert event.get("content", texts[index]) == texts[index]
    for index, block in enumerate(message["content"]):
        if block["type"] != "toolCall":
            assert texts[index] == (block["text"] if block["type"] == "text" else block["thinking"])
    assert len(texts) == len(message["content"])
    if message["stopReason"] != "error":
        assert len(closed) == len(texts)


@given(st.lists(JSON_VALUES | EVENTS, max_size=8))
def test_any_events_are_read_or_refused_and_the_updates_hold_together(events: list[object]) -> None:
    reading = Reading()
    try:
        reading.read(*events)
    except StreamBroken as broken:
        reading.builder.fail(str(broken))
    else:
        reading.finish()
    check_updates(reading.recorder, reading.builder.message)


@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(UnreadableEvent):
        Reading().reader.read(SseEvent(b"", data))


# Whole streams, as the scripted server of the tests writes them


def stream_of(pieces: Sequence[Content]) -> bytes:
    wire = OpenAiResponses("gpt-1")
    return wire.head() + b"".join(map(wire.piece, pieces)) + wire.tail()


RICH: list[Content] = [
    Reasoning("I th"),
    Reasoning("ink 𝄞"),
    Text("Hé"),
    Text("llo\u2028wo\u0085rld 😀"),
    ToolStart(0, "c1", "bash"),
    ToolStart(1, "c2", "bash"),
    ToolArguments(0, '{"a":'),
    ToolArguments(1, '{"b":'),
    ToolArguments(0, "1}"),
    ToolArguments(1, "2}"),
    TokenUsage(100, 20, 40, 0, 7),
]


@given(st.lists(st.integers(0, len(stream_of(RICH))), max_size=8))
def test_an_answer_is_the_same_however_the_network_cuts_it(cuts: list[int]) -> None:
    stream = stream_of(RICH)
    reading, sse = Reading(), SseReader()
    places = [0, *sorted(cuts), len(stream)]
    for start, end in pairwise(places):
        for event in sse.feed(stream[start:end]):
            reading.reader.read(event)
    message = reading.finish()

    assert [block.get("thinking", block.get("text", block.get("arguments"))) for block in message["content"]] == [
        *("I think 𝄞", "Héllo\u2028wo\u0085rld 😀", {"a": 1}, {"b": 2})
    ]
    assert (message["stopReason"], message["usage"]["totalTokens"]) == ("toolUse", 160)
    check_updates(reading.recorder, message)


@given(st.integers(0, len(stream_of(RICH)) - 1))
def test_an_answer_that_is_cut_anywhere_is_an_error(end: int) -> None:
    reading, sse = Reading(), SseReader()
    for event in sse.feed(stream_of(RICH)[:end]):
        reading.reader.read(event)
    if reading.reader.is_complete:  # only blank lines were cut
        return
    message = reading.finish()

    assert message["stopReason"] == "error"
    check_updates(reading.recorder, message)


@given(st.lists(st.integers(0, 3), max_size=30), st.booleans())
def test_deltas_of_several_items_may_come_in_any_order(order: list[int], has_index: bool) -> None:
    texts = [f'{{"text": "{"abcd"[n] * 12}"}}' for n in range(4)]
    left = [[text[at : at + 3] for at in range(0, len(text), 3)] for text in texts]
    reading = Reading()

    def place(n: int) -> Event:
        return {"output_index": n} if has_index else {}

    items = [
        {"type": "function_call", "id": f"fc_{n}", "call_id": f"c{n}", "name": "read", "arguments": ""}
        for n in range(4)
    ]
    for n, item in enumerate(items):
        reading.read({"type": "response.output_item.added", **place(n), "item": item})
    for n in [*order, *(n for n in range(4) for _ in range(99))]:
        if left[n]:
            kind = "response.function_call_arguments.delta"
            reading.read({"type": kind, **place(n), "item_id": f"fc_{n}", "delta": left[n].pop(0)})
            if not left[n]:
                reading.read({"type": "response.output_item.done", **place(n), "item": items[n]})
    message = reading.read(ended()).finish()

    assert [block.get("arguments") for block in message["content"]] == [json.loads(text) for text in texts]
    check_updates(reading.recorder, message)


def test_a_stream_that_the_limit_ended_gets_that_error() -> None:
    reading, sse = Reading(), SseReader()
    for event in sse.feed(stream_of([Text("half"), Finish("length")])):
        reading.reader.read(event)

    assert reading.finish()["stopReason"] == "length"


# Cost in time


@pytest.mark.parametrize("kind", ["output_text", "reasoning_summary_text", "function_call_arguments"])
def test_a_delta_costs_the_same_in_a_long_answer_as_in_a_short_one(kind: str) -> None:
    """From bytes to the message, in the pieces in which a network brings them."""
    delta = {**TEXT, "type": f"response.{kind}.delta", "output_index": 1, "summary_index": 0, "delta": "abcdefg "}

    def seconds_each(count: int) -> float:
        stream = b"data: " + json.dumps(delta).encode() + b"\n\n"
        stream = b"data: " + json.dumps(CALL).encode() + b"\n\n" + stream * count
        pieces = [stream[at : at + 1400] for at in range(0, len(stream), 1400)]
        reading = Reading()
        reading.recorder.update = lambda event, builder: None  # type: ignore[method-assign]
        sse = SseReader()
        start_s = time.process_time()
        for piece in pieces:
            for each in sse.feed(piece):
                reading.reader.read(each)
        return (time.process_time() - start_s) / count

    assert recording.cost_ratio(seconds_each, 1_000, 16_000) < 4
