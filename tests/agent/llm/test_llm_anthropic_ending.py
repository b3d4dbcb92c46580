"""How an Anthropic message ends: stop reasons, errors inside of the stream, what is counted.

The streams were constructed after the published format, never recorded.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from tests.agent.llm import recording
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.anthropic.stream import EventReader
from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.outcomes import OutcomeKind, classify_failure
from pinnace_agent.llm.transport.exchange import StreamBroken
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.records.messages import AssistantMessage

MODEL = served_model(api="anthropic-messages", reasoning=True, cost=prices(1, 2, 0.5, 4))
Event = Mapping[str, object]


class Reading(recording.Reading):
    """A reader and what came of it."""

    def __init__(self) -> None:
        super().__init__(MODEL)
        self.texts = FailureTexts(Secrets("sk-secret-key"), RefusalForm("{status} ", True))
        self.reader = EventReader(self.builder, ToolNames(), self.texts)


def begin(**fields: object) -> Event:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m1", "content": [], "usage": usage}
    return {"type": "message_start", "message": {**message, **fields}}


def end(reason: object = "end_turn", usage: object = None, **fields: object) -> Event:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None, **fields}, "usage": usage}


STOP: Event = {"type": "message_stop"}
TEXT: tuple[Event, ...] = (
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
    {"type": "content_block_stop", "index": 0},
)


def message_of(*events: Event, reason: str = "end_turn") -> AssistantMessage:
    return Reading().read(begin(), *events, end(reason), STOP).finish()


# How it ends


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", "stop"),
        ("pause_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "toolUse"),
        ("END_TURN", "stop"),
        ("stop", "stop"),
        ("tool_calls", "toolUse"),
    ],
)
def test_a_stop_reason_is_translated(reason: str, expected: str) -> None:
    call = {"type": "tool_use", "id": "c1", "name": "bash", "input": {}}
    calls = [{"type": "content_block_start", "index": 1, "content_block": call}] if expected == "toolUse" else []
    reading = Reading().read(begin(), *TEXT, *calls, end(reason), STOP)
    message = reading.finish()

    assert (message["stopReason"], reading.builder.raw_stop_reason) == (expected, reason)
    assert "errorMessage" not in message


def test_an_unknown_stop_reason_is_a_success_if_there_is_content() -> None:
    reading, empty = Reading().read(begin(), *TEXT, end("compaction"), STOP), Reading()

    assert (reading.finish()["stopReason"], reading.builder.unknown_stop_reason) == ("stop", "compaction")
    assert empty.read(begin(), end("compaction"), STOP).finish()["stopReason"] == "error"


@pytest.mark.parametrize("reason", ["refusal", "sensitive", "model_context_window_exceeded"])
def test_a_stop_reason_of_a_failure_is_an_error_that_keeps_what_came(reason: str) -> None:
    message = message_of(*TEXT, reason=reason)

    assert (message["stopReason"], message.get("errorMessage")) == ("error", f"Provider stop_reason: {reason}")
    assert message["content"] == [{"type": "text", "text": "a"}]
    kind = OutcomeKind.OVERFLOW if "window" in reason else OutcomeKind.FATAL
    assert classify_failure(message.get("errorMessage", ""), "local").kind is kind


def test_a_refusal_says_why_if_the_provider_does() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not with sk-secret-key."}
    message = Reading().read(begin(), end("refusal", stop_details=details), STOP).finish()

    assert (message["stopReason"], message.get("errorMessage")) == ("error", "Not with [redacted].")


def test_a_window_that_is_full_is_an_overflow() -> None:
    text = message_of(reason="model_context_window_exceeded").get("errorMessage", "")

    assert classify_failure(text, "local").kind is OutcomeKind.OVERFLOW


@pytest.mark.parametrize("events", [(begin(),), (begin(), *TEXT[:-1]), (begin(), *TEXT, end()), ()])
def test_a_stream_that_ends_before_its_last_event_is_an_error_worth_another_try(events: Iterable[Event]) -> None:
    reading = Reading().read(*events)
    message = reading.finish()

    assert (message["stopReason"], message.get("errorMessage")) == (
        "error",
        "Anthropic stream ended before message_stop",
    )
    assert classify_failure(message.get("errorMessage", ""), "local").kind is OutcomeKind.TRANSIENT


def test_a_block_that_the_end_of_the_stream_cut_has_no_end() -> None:
    reading = Reading().read(begin(), *TEXT[:-1])
    reading.finish()

    assert reading.recorder.kinds == ["text_start", "text_delta"]


def test_the_last_event_without_a_stop_reason_is_an_error_worth_another_try() -> None:
    text = Reading().read(begin(), *TEXT, end(None), STOP).finish().get("errorMessage", "")

    assert text == "Anthropic stream ended without stop_reason"
    assert classify_failure(text, "local").kind is OutcomeKind.TRANSIENT


def test_a_stream_that_never_began_may_end_with_its_stop_reason() -> None:
    assert Reading().read(*TEXT, end()).finish()["stopReason"] == "stop"


def test_the_last_stop_reason_counts_and_none_takes_it_back() -> None:
    assert Reading().read(begin(), end("tool_use"), end("max_tokens"), end(None), STOP).finish()["stopReason"] == (
        "length"
    )


# Errors inside of a stream


@pytest.mark.parametrize(
    ("kind", "words", "outcome"),
    [
        ("overloaded_error", "Overloaded", OutcomeKind.TRANSIENT),
        ("api_error", "Internal server error", OutcomeKind.TRANSIENT),
        ("rate_limit_error", "Number of request tokens has exceeded your rate limit", OutcomeKind.TRANSIENT),
        ("timeout_error", "Request timed out", OutcomeKind.TRANSIENT),
        ("overloaded_error", "", OutcomeKind.TRANSIENT),
        ("rate_limit_error", "x", OutcomeKind.TRANSIENT),
        ("authentication_error", "invalid x-api-key", OutcomeKind.FATAL),
        ("permission_error", "no", OutcomeKind.FATAL),
        ("billing_error", "Your credit balance is too low", OutcomeKind.FATAL),
        ("invalid_request_error", "messages: text content blocks must be non-empty", OutcomeKind.FATAL),
        ("invalid_request_error", "prompt is too long: 205000 tokens > 200000 maximum", OutcomeKind.OVERFLOW),
        ("request_too_large", "Request exceeds the maximum size", OutcomeKind.OVERFLOW),
    ],
)
def test_an_error_event_ends_the_stream_with_its_data_and_is_known_for_what_it_is(
    kind: str, words: str, outcome: OutcomeKind
) -> None:
    data = json.dumps({"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_1"})
    reading = Reading().read(begin(), *TEXT[:-1])

    with pytest.raises(StreamBroken) as caught:
        reading.reader.read(SseEvent(b"error", data.encode()))
    assert str(caught.value) == data
    assert reading.texts.signs.codes == (kind,)
    assert classify_failure(str(caught.value), "local", reading.texts.signs).kind is outcome
    assert classify_failure(str(caught.value), "local").kind is outcome  # of a session that was read again
    assert not reading.builder.is_finished


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        (b"error", b"overloaded", "overloaded"),
        (b"error", b'{"message": "overloaded"}', '{"message": "overloaded"}'),
        (b"", b'{"type":"error","error":{"message":"x"}}', '{"type":"error","error":{"message":"x"}}'),
        (b"", b'{"error":{"message":"x"}}', '{"error":{"message":"x"}}'),
        (b"error", b'{"error":{"message":"key sk-secret-key"}}', '{"error":{"message":"key [redacted]"}}'),
    ],
)
def test_an_error_is_reported_however_it_is_written(name: bytes, data: bytes, text: str) -> None:
    with pytest.raises(StreamBroken) as caught:
        Reading().reader.read(SseEvent(name, data))

    assert str(caught.value) == text


# Names and usage


def test_the_id_and_another_model_are_kept_from_the_first_event_that_has_them() -> None:
    message = Reading().read(begin(model="m1-2026"), begin(id="msg_2", model="m3"), end(), STOP).finish()

    assert (message.get("responseId"), message.get("responseModel")) == ("msg_1", "m1-2026")
    assert "responseModel" not in message_of()


def usage_of(*events: Event) -> dict[str, Any]:
    return dict(Reading().read(*events, end(), STOP).finish()["usage"])


def counts(usage: Mapping[str, object]) -> list[object]:
    return [usage[name] for name in ("input", "output", "cacheRead", "cacheWrite", "totalTokens")]


FULL = {
    "input_tokens": 100,
    "output_tokens": 1,
    "cache_read_input_tokens": 50,
    "cache_creation_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
}


def test_the_end_adds_to_the_beginning_and_takes_back_nothing() -> None:
    late = {"output_tokens": 20, "input_tokens": None, "cache_read_input_tokens": None}
    usage = usage_of(begin(usage=FULL), end(usage=late))

    assert counts(usage) == [100, 20, 50, 30, 200]
    assert usage["cacheWrite1h"] == 20


def test_what_the_end_says_counts() -> None:
    late = {"input_tokens": 7, "output_tokens": 20, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}

    assert counts(usage_of(begin(usage=FULL), end(usage=late))) == [7, 20, 0, 0, 27]


def test_usage_may_be_absent_or_come_late_only() -> None:
    assert counts(usage_of(begin(usage=None))) == [0, 0, 0, 0, 0]
    assert counts(usage_of(begin(usage=None), end(usage={"output_tokens": 5}))) == [0, 5, 0, 0, 5]


def test_thinking_is_a_part_of_the_output() -> None:
    usage = usage_of(begin(), end(usage={"output_tokens": 20, "output_tokens_details": {"thinking_tokens": 15}}))

    assert (usage["output"], usage["reasoning"], usage["totalTokens"]) == (20, 15, 30)


def test_an_hour_in_the_cache_has_its_own_price() -> None:
    cost = usage_of(begin(usage=FULL))["cost"]

    parts = [cost[name] for name in ("input", "output", "cacheRead", "cacheWrite")]
    assert parts == pytest.approx([100e-6, 2e-6, 25e-6, 10 * 4e-6 + 20 * 2 * 1e-6])
    assert cost["total"] == pytest.approx(sum(parts))


@pytest.mark.parametrize("count", [None, -1, "12", True, [], {}, 1e300])
def test_a_count_that_is_none_is_zero(count: object) -> None:
    odd = dict.fromkeys((*FULL, "output_tokens_details"), count)

    assert counts(usage_of(begin(usage=odd))) == [0, 0, 0, 0, 0]
