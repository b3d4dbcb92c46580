"""The chunks of a chat completion: what servers and gateways really send."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.llm import recording
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.openai_chat.compat import compat_of
from pinnace_agent.llm.openai_chat.stream import ChunkReader
from pinnace_agent.llm.outcomes import OutcomeKind, classify_response
from pinnace_agent.llm.transport.exchange import StreamBroken, UnreadableEvent
from pinnace_agent.llm.transport.sse import SseEvent, SseReader
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.records.messages import AssistantMessage, Model, ToolCall
from pinnace_spec.rules.errors import EMPTY_ANSWER, NO_ANNOUNCED_CALL

MODEL = served_model(reasoning=True, cost=prices(1, 2, 0.5, 4))
STOP = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


class Reading(recording.Reading):
    """A reader and what came of it."""

    reader: ChunkReader

    def __init__(self, model: Model = MODEL, /, **compat: object) -> None:
        super().__init__({**model, "compat": compat})
        texts = FailureTexts(Secrets("sk-secret-key"))
        self.reader = ChunkReader(self.builder, compat_of(self.builder.model), texts)


def delta(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def call(arguments: object = None, **fields: object) -> dict[str, object]:
    """Make a delta of one tool call: `name` and `arguments` go into its function."""
    function = {"name": fields.pop("name")} if "name" in fields else {}
    if arguments is not None:
        function["arguments"] = arguments
    return delta(tool_calls=[{**fields, "function": function}])


def message_of(*chunks: object, **compat: object) -> AssistantMessage:
    return Reading(**compat).read(*chunks, STOP).finish()


def calls_of(*chunks: object) -> list[ToolCall]:
    message = message_of(*chunks)
    return [block for block in message["content"] if block["type"] == "toolCall"]


def calls_briefly(*chunks: object) -> list[tuple[str, str, dict[str, object]]]:
    return [(each["id"], each["name"], each["arguments"]) for each in calls_of(*chunks)]


# Text and thoughts


def test_text_arrives_in_deltas() -> None:
    reading = Reading().read(delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), STOP)
    reading.finish()

    assert reading.recorder.words == ["text_start 0", "text_delta 0 Hel", "text_delta 0 lo", "text_end 0 Hello"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thoughts_are_signed_with_the_field_they_came_in(field: str) -> None:
    message = message_of(delta(**{field: "hm"}), delta(**{field: "!"}), delta(content="a"))

    assert message["content"] == [
        {"type": "thinking", "thinking": "hm!", "thinkingSignature": field},
        {"type": "text", "text": "a"},
    ]


def test_thoughts_that_are_sent_twice_count_once() -> None:
    message = message_of(delta(reasoning_content="hm", reasoning="hm"), delta(reasoning_content=None, reasoning="!"))

    assert message["content"] == [{"type": "thinking", "thinking": "hm!", "thinkingSignature": "reasoning_content"}]


def test_one_chunk_may_hold_thoughts_text_and_calls_and_is_read_in_this_order() -> None:
    tool = {"index": 0, "id": "c1", "function": {"name": "bash", "arguments": "{}"}}
    reading = Reading().read(delta(tool_calls=[tool], content="a", reasoning="hm"), STOP)
    reading.finish()

    assert [word for word in reading.recorder.words if "_start" in word] == [
        "thinking_start 0",
        "text_start 1",
        "toolcall_start 2 bash c1",
    ]


def test_content_may_be_a_list_of_parts() -> None:
    message = message_of(delta(content=[{"type": "text", "text": "a"}, {"type": "other"}, "x", {"text": "b"}]))

    assert message["content"] == [{"type": "text", "text": "ab"}]


def test_a_refusal_is_text() -> None:
    assert message_of(delta(refusal="No."))["content"] == [{"type": "text", "text": "No."}]


def test_a_character_cut_over_two_chunks_is_joined() -> None:
    """Escapes of half a character are no JSON for strict parsers, but servers cut tokens there."""
    reading = Reading()
    reading.reader.read(SseEvent(b"", b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}'))
    reading.reader.read(SseEvent(b"", b'{"choices":[{"delta":{"content":"\\ude00b"}}]}'))
    reading.finish()

    assert reading.recorder.words[1:3] == ["text_delta 0 a", "text_delta 0 \U0001f600b"]


# Chunks that say little or nothing


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        17,
        "text",
        [],
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": ["x"]},
        {"choices": {"0": 1}},
        {"choices": [{}]},
        {"choices": [{"delta": None, "finish_reason": None}]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None, "reasoning": None}}]},
        {"choices": [{"delta": {"content": 5, "reasoning": {"a": 1}, "refusal": 3, "reasoning_details": "x"}}]},
        {"choices": [{"delta": {"tool_calls": ["x", None, 3]}}]},
        {"choices": [{"delta": {"content": {"text": "x"}}}]},
        {"choices": [{"finish_reason": ""}]},
        {"choices": [{"finish_reason": 3}]},
        {"usage": None},
        {"usage": "many"},
        {"id": 5, "model": ["x"]},
        {"error": None},
        {"error": ""},
        {"object": "something else", "foo": {"bar": []}},
    ],
)
def test_a_chunk_that_says_nothing_changes_nothing(chunk: object) -> None:
    reading = Reading().read(chunk)

    assert reading.recorder.words == []
    assert reading.reader.finish_reason is None
    assert reading.read(delta(content="a"), STOP).finish()["content"] == [{"type": "text", "text": "a"}]


KEYS = (
    "choices delta message content tool_calls function name arguments index id usage prompt_tokens completion_tokens "
    "prompt_tokens_details cached_tokens cost finish_reason reasoning reasoning_details data model error object text"
).split()
JSON_VALUES = recording.json_values(KEYS)


@given(st.lists(JSON_VALUES, max_size=5))
def test_any_json_is_read_or_refused(chunks: list[object]) -> None:
    reading = Reading()
    try:
        reading.read(*chunks)
    except StreamBroken:
        return
    assert reading.finish()["stopReason"] in {"stop", "length", "toolUse", "error"}


@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(UnreadableEvent):
        Reading().reader.read(SseEvent(b"", data))


def test_blank_data_says_nothing() -> None:
    reading = Reading()
    reading.reader.read(SseEvent(b"", b""))
    reading.reader.read(SseEvent(b"", b"  "))

    assert reading.recorder.words == []


def test_what_is_no_json_is_refused_and_shown() -> None:
    with pytest.raises(UnreadableEvent) as caught:
        Reading().reader.read(SseEvent(b"", b'{"choices": oops sk-secret-key'))

    assert "oops [redacted]" in str(caught.value)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"message": "Overloaded", "code": 529}, "Overloaded"),
        ("plain words", "plain words"),
        ({"code": 500}, '{"code":500}'),
        ({"message": "no", "metadata": {"raw": '{"why":"limit"}'}}, 'no\n{"why":"limit"}'),
        ({"message": "the key sk-secret-key is bad"}, "the key [redacted] is bad"),
    ],
)
def test_an_error_inside_of_the_stream_ends_it_with_its_message(error: object, text: str) -> None:
    reading = Reading().read(delta(content="a"))

    with pytest.raises(StreamBroken) as caught:
        reading.read({"error": error, "choices": []})
    assert str(caught.value) == text
    assert not reading.builder.is_finished


def test_an_error_object_without_an_envelope_ends_the_stream_too() -> None:
    with pytest.raises(StreamBroken, match=r"^out of memory$"):
        Reading().read({"object": "error", "message": "out of memory", "type": "ServerError"})


# Names of the answer


def test_the_id_and_another_model_are_kept_from_the_first_chunk_that_has_them() -> None:
    message = message_of({"choices": []}, {"id": "r1", "model": "m1-2024"}, {"id": "r2", "model": "m2"})

    assert (message.get("responseId"), message.get("responseModel")) == ("r1", "m1-2024")


def test_the_model_that_was_asked_for_is_not_named_again() -> None:
    assert "responseModel" not in message_of({"id": "r1", "model": "m1"})


# Finish reasons


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        *(
            ("stop", "stop"),
            ("end", "stop"),
            ("STOP", "stop"),
            ("eos", "stop"),
            ("end_turn", "stop"),
            ("Complete", "stop"),
        ),
        *(("length", "length"), ("max_tokens", "length"), ("MAX_TOKENS", "length")),
        *(("tool_calls", "toolUse"), ("function_call", "toolUse"), ("tool-use", "toolUse"), ("TOOL_CALL", "toolUse")),
    ],
)
def test_a_finish_reason_is_translated(reason: str, stop: str) -> None:
    """Servers have words of their own, in any case."""
    calls = [call("{}", index=0, id="c1", name="bash")] if stop == "toolUse" else []
    reading = Reading().read(delta(content="a"), *calls, {"choices": [{"delta": {}, "finish_reason": reason}]})

    message = reading.finish()
    assert message["stopReason"] == stop
    assert "errorMessage" not in message
    assert reading.builder.raw_stop_reason == reason


@pytest.mark.parametrize("reason", ["content_filter", "error", "network_error", "Content-Filter", "SAFETY"])
def test_a_finish_reason_of_a_failure_is_an_error(reason: str) -> None:
    for content in ([], [delta(content="a")]):
        message = Reading().read(*content, {"choices": [{"delta": {}, "finish_reason": reason}]}).finish()

        assert (message["stopReason"], message.get("errorMessage")) == ("error", f"Provider finish_reason: {reason}")


def test_an_unknown_finish_reason_is_a_success_if_there_is_content() -> None:
    end = {"choices": [{"delta": {}, "finish_reason": "ran_dry"}]}
    text, called, nothing = Reading(), Reading(), Reading()

    assert text.read(delta(content="a"), end).finish()["stopReason"] == "stop"
    assert called.read(call("{}", index=0, id="c1", name="bash"), end).finish()["stopReason"] == "toolUse"
    assert nothing.read(delta(content=" "), end).finish().get("errorMessage") == "Provider finish_reason: ran_dry"
    assert [each.builder.unknown_stop_reason for each in (text, called, nothing)] == ["ran_dry", "ran_dry", None]


@pytest.mark.parametrize(
    ("content", "reason", "error"),
    [
        ("", "stop", EMPTY_ANSWER),
        (" \n", "stop", EMPTY_ANSWER),
        ("", "tool_calls", NO_ANNOUNCED_CALL),
        ("I will call it.", "tool_calls", NO_ANNOUNCED_CALL),
    ],
)
def test_an_answer_that_lacks_what_it_claims_is_a_failure_to_be_tried_again(
    content: str, reason: str, error: str
) -> None:
    """R-RTY-04."""
    reading = Reading().read(delta(content=content), {"choices": [{"delta": {}, "finish_reason": reason}]})
    message = reading.finish()

    assert (message["stopReason"], message.get("errorMessage")) == ("error", error)
    assert classify_response(message, reading.builder.model).kind is OutcomeKind.TRANSIENT


def test_an_empty_answer_to_more_than_the_window_is_an_overflow() -> None:
    """A server that leaves out the beginning of a request that is too long may answer nothing to the rest."""
    usage = {"choices": [], "usage": {"prompt_tokens": 10**9, "completion_tokens": 0}}
    reading = Reading().read({"choices": [{"delta": {}, "finish_reason": "stop"}]}, usage)

    assert classify_response(reading.finish(), reading.builder.model).kind is OutcomeKind.OVERFLOW


def test_a_stream_without_a_finish_reason_is_an_error_that_keeps_the_text() -> None:
    message = Reading().read(delta(content="a")).finish()

    assert (message["stopReason"], message.get("errorMessage")) == ("error", "Stream ended without finish_reason")
    assert message["content"] == [{"type": "text", "text": "a"}]


def test_a_server_that_gives_no_finish_reasons_is_taken_at_its_calls() -> None:
    tool = call("{}", index=0, id="c1", name="bash")

    assert Reading(supportsFinishReason=False).read(delta(content="a")).finish()["stopReason"] == "stop"
    assert Reading(supportsFinishReason=False).read(tool).finish()["stopReason"] == "toolUse"


def test_the_finish_reason_may_come_with_the_last_delta() -> None:
    chunk = {"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}]}
    message = Reading().read(chunk, delta(content="b")).finish()

    assert message["stopReason"] == "length"
    assert message["content"] == [{"type": "text", "text": "ab"}]


def test_an_answer_that_did_not_stream_is_read_from_its_message() -> None:
    tool = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
    answer = {"choices": [{"message": {"content": "a", "tool_calls": [tool]}, "finish_reason": "tool_calls"}]}
    message = Reading().read(answer).finish()

    assert [block["type"] for block in message["content"]] == ["text", "toolCall"]


# Tool calls


def test_a_call_is_put_together_from_its_deltas() -> None:
    reading = Reading().read(
        call("", index=0, id="c1", type="function", name="bash"),
        call('{"comm', index=0),
        call('and": "ls"}', index=0),
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    )

    message = reading.finish()
    assert message["content"] == [{"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}]
    assert reading.recorder.words == [
        "toolcall_start 0 bash c1",
        "toolcall_delta 0",
        'toolcall_delta 0 {"comm',
        'toolcall_delta 0 and": "ls"}',
        "toolcall_end 0",
    ]


def test_parallel_calls_are_distinguished_by_index() -> None:
    assert calls_briefly(
        call("", index=1, id="b", name="bash"),
        call("", index=0, id="a", name="read"),
        call('{"x"', index=0),
        call('{"y"', index=1),
        call(":1}", index=0),
        call(":2}", index=1),
    ) == [("b", "bash", {"y": 2}), ("a", "read", {"x": 1})]


def test_parallel_calls_without_an_index_are_distinguished_by_id() -> None:
    assert calls_briefly(
        call("", id="a", name="read"),
        call("", id="b", name="bash"),
        call('{"x"', id="a"),
        call('{"y"', id="b"),
        call(":1}", id="a"),
        call(":2}"),
    ) == [("a", "read", {"x": 1}), ("b", "bash", {"y": 2})]


def test_several_calls_may_come_in_one_chunk() -> None:
    tools = [{"index": n, "id": f"c{n}", "function": {"name": "read", "arguments": f'{{"n":{n}}}'}} for n in range(3)]

    assert calls_briefly(delta(tool_calls=tools)) == [(f"c{n}", "read", {"n": n}) for n in range(3)]


def test_the_first_id_and_name_win() -> None:
    assert calls_briefly(
        call("{", index=0, id="c1", name="bash"),
        call('"a":', index=0, id="c2", name="other"),
        call("1}", index=0, id="", name=""),
    ) == [("c1", "bash", {"a": 1})]


def test_an_id_that_changes_with_every_delta_is_one_call_without_an_index_too() -> None:
    assert calls_briefly(call("{", id="x1", name="bash"), call('"a":', id="x2"), call("1}", id="x3")) == [
        ("x1", "bash", {"a": 1})
    ]


def test_an_index_that_appears_late_belongs_to_the_call_with_the_id() -> None:
    assert calls_briefly(call("{", id="c1", name="bash"), call('"a":', id="c1", index=0), call("1}", index=0)) == [
        ("c1", "bash", {"a": 1})
    ]


def test_a_call_is_reported_when_its_name_is_known() -> None:
    reading = Reading().read(call('{"a"', index=0, id="c1"))
    assert reading.recorder.words == []

    reading.read(call(":1}", index=0, name="bash"))
    assert reading.recorder.words == ["toolcall_start 0 bash c1", 'toolcall_delta 0 {"a"', "toolcall_delta 0 :1}"]


def test_a_call_without_a_name_is_reported_at_the_end() -> None:
    """The user and the model learn that there is no such tool; nothing is lost in silence."""
    assert calls_briefly(call('{"a":1}', index=0, id="c1")) == [("c1", "", {"a": 1})]


def test_calls_that_all_have_the_same_index_are_distinguished_when_complete() -> None:
    assert calls_briefly(
        call('{"a":1}', index=0, id="a", name="read"),
        call('{"b":2}', index=0, id="b", name="read"),
        call("", index=0, id="c", name="bash"),
        call('{"c":3}', index=0),
    ) == [("a", "read", {"a": 1}), ("b", "read", {"b": 2}), ("c", "bash", {"c": 3})]


def test_whole_calls_without_index_and_id_are_distinguished() -> None:
    calls = calls_of(call('{"a":1}', name="read"), call('{"b":2}', name="read"), call('{"c":3}', name="bash"))

    assert [each["arguments"] for each in calls] == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_a_name_that_is_repeated_with_every_delta_begins_no_new_call() -> None:
    calls = calls_of(call("{", name="read"), call('"a":', name="read"), call("1}", name="read"))

    assert [each["arguments"] for each in calls] == [{"a": 1}]


def test_a_call_without_an_id_gets_one() -> None:
    first, second = calls_of(call("{}", index=0, name="read"), call("{}", index=1, id="", name="read"))

    assert first["id"]
    assert second["id"]
    assert first["id"] != second["id"]


def test_of_calls_with_the_same_id_each_later_one_gets_another() -> None:
    calls = calls_of(*(call("{}", index=index, id="same", name="read") for index in range(3)))

    assert calls[0]["id"] == "same"
    assert len({each["id"] for each in calls}) == 3


def test_the_id_that_was_reported_stays_when_another_comes_late() -> None:
    reading = Reading().read(call("{", index=0, name="read"), call("}", index=0, id="late"), STOP)
    (only,) = reading.finish()["content"]

    assert only["type"] == "toolCall"
    assert reading.recorder.words[0] == f"toolcall_start 0 read {only['id']}"


def test_arguments_may_come_as_an_object() -> None:
    assert calls_briefly(call({"path": "é"}, index=0, id="c1", name="read")) == [("c1", "read", {"path": "é"})]


@pytest.mark.parametrize("arguments", [None, "", " "])
def test_a_call_may_have_no_arguments(arguments: object) -> None:
    (only,) = calls_of(call(arguments, index=0, id="c1", name="list"))

    assert only["arguments"] == {}
    assert "argumentsError" not in only


def test_broken_arguments_are_the_models_error_not_the_streams() -> None:
    (only,) = calls_of(call('{"path": ', index=0, id="c1", name="read"))

    assert only["arguments"] == {}
    assert "not valid JSON" in only.get("argumentsError", "")


def test_arguments_cut_inside_of_an_escape_or_a_character_are_whole_in_the_end() -> None:
    reading = Reading()
    reading.read(call("", index=0, id="c1", name="write"))
    for piece in (r'{"a":"\\', r"n\\ud8", r"3d\\ude00\ud83d", r'\ude00"}'):
        chunk = '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"' + piece.replace('"', '\\"')
        reading.reader.read(SseEvent(b"", (chunk + '"}}]}}]}').encode()))
    (only,) = reading.read(STOP).finish()["content"]

    assert only["type"] == "toolCall"
    assert only["arguments"] == {"a": "\n\U0001f600\U0001f600"}


@given(st.lists(st.integers(0, 2), max_size=20), st.booleans())
def test_deltas_of_parallel_calls_may_come_in_any_order(order: list[int], has_index: bool) -> None:
    texts = [f'{{"text": "{"abc"[n] * 12}"}}' for n in range(3)]
    names: Sequence[Mapping[str, object]] = [{"index": n} if has_index else {"id": f"c{n}"} for n in range(3)]
    left = [[text[at : at + 3] for at in range(0, len(text), 3)] for text in texts]
    chunks = [call("", id=f"c{n}", name="read", **({"index": n} if has_index else {})) for n in range(3)]
    for n in [*order, *(n for n in range(3) for _ in range(99))]:
        if left[n]:
            chunks.append(call(left[n].pop(0), **names[n]))

    assert calls_briefly(*chunks) == [(f"c{n}", "read", json.loads(texts[n])) for n in range(3)]


def test_the_gateways_record_of_thoughts_is_kept_with_its_call() -> None:
    detail = {"type": "reasoning.encrypted", "id": "c1", "data": "AbC=", "format": "x"}
    (only,) = calls_of(call("{}", index=0, id="c1", name="read"), delta(reasoning_details=[detail, {"id": "c9"}]))

    assert json.loads(only.get("thoughtSignature", "")) == detail


def detail(kind: str, **fields: object) -> dict[str, object]:
    return delta(reasoning_details=[{"type": f"reasoning.{kind}", "index": 0, **fields}])


ROUTER: Model = {**MODEL, "provider": "openrouter"}


def test_the_routers_record_of_thoughts_is_put_together_and_signs_them() -> None:
    reading = Reading(ROUTER).read(
        delta(reasoning="hm"),
        detail("text", text="h", format="x"),
        detail("text", text="m", signature=None),
        detail("text", signature="sig"),
        detail("summary", summary="s"),
        delta(reasoning_details=[{"type": "reasoning.summary", "index": 1, "summary": "t"}]),
        detail("encrypted", data="AbC="),
        detail("encrypted", data="dEf="),
        delta(content="a"),
        STOP,
    )
    thought, _ = reading.finish()["content"]

    assert thought["type"] == "thinking"
    assert json.loads(thought.get("thinkingSignature", "")) == [
        {"type": "reasoning.text", "index": 0, "text": "hm", "format": "x", "signature": "sig"},
        {"type": "reasoning.summary", "index": 0, "summary": "s"},
        {"type": "reasoning.summary", "index": 1, "summary": "t"},
        {"type": "reasoning.encrypted", "index": 0, "data": "AbC="},
        {"type": "reasoning.encrypted", "index": 0, "data": "dEf="},
    ]


def test_a_record_that_says_no_more_than_the_thoughts_is_not_kept_twice() -> None:
    message = Reading(ROUTER).read(delta(reasoning="hm"), detail("text", text="hm"), STOP).finish()

    assert message["content"] == [{"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning"}]


def test_encrypted_thoughts_have_a_place() -> None:
    message = Reading(ROUTER).read(detail("encrypted", data="x"), delta(content="a"), STOP).finish()

    assert [block["type"] for block in message["content"]] == ["thinking", "text"]


def test_a_record_of_anybody_else_is_not_kept() -> None:
    assert message_of(detail("encrypted", data="x"), delta(content="a"))["content"] == [{"type": "text", "text": "a"}]


# Usage

USAGE = {"prompt_tokens": 100, "completion_tokens": 20}


def usage_of(*chunks: object, model: Model = MODEL) -> dict[str, object]:
    return cast("dict[str, object]", Reading(model).read(*chunks, STOP).finish()["usage"])


def counts(usage: Mapping[str, object]) -> list[object]:
    return [usage[name] for name in ("input", "output", "cacheRead", "cacheWrite", "totalTokens")]


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [], "usage": USAGE},
        {"usage": USAGE},
        {"choices": None, "usage": USAGE},
        {"choices": [{"delta": {}, "usage": USAGE}]},
        {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}], "usage": USAGE},
    ],
)
def test_usage_is_taken_from_wherever_it_is(chunk: object) -> None:
    assert counts(usage_of(chunk)) == [100, 20, 0, 0, 120]


def test_usage_may_come_after_the_finish_reason() -> None:
    message = Reading().read(STOP, {"choices": [], "usage": USAGE}).finish()

    assert message["usage"]["totalTokens"] == 120


def test_the_last_usage_counts() -> None:
    assert counts(usage_of({"usage": {"prompt_tokens": 1}}, {"usage": USAGE}, {"usage": None})) == [100, 20, 0, 0, 120]


def test_without_usage_everything_is_zero() -> None:
    assert counts(usage_of(delta(content="a"))) == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "more",
    [
        {"prompt_tokens_details": {"cached_tokens": 60}, "prompt_cache_hit_tokens": 1, "cached_tokens": 2},
        {"prompt_cache_hit_tokens": 60, "cached_tokens": 2},
        {"cached_tokens": 60},
        {"prompt_tokens_details": None, "cached_tokens": 60},
    ],
)
def test_cached_tokens_are_no_input_under_any_name(more: Mapping[str, object]) -> None:
    assert counts(usage_of({"usage": {**USAGE, **more}})) == [40, 20, 60, 0, 120]


def test_tokens_written_to_a_cache_are_no_input_either() -> None:
    details = {"cached_tokens": 50, "cache_write_tokens": 30}

    assert counts(usage_of({"usage": {**USAGE, "prompt_tokens_details": details}})) == [20, 20, 50, 30, 120]


def test_more_cached_than_prompt_tokens_is_no_negative_input() -> None:
    assert counts(usage_of({"usage": {**USAGE, "cached_tokens": 500}})) == [0, 20, 500, 0, 520]


def test_thinking_is_a_part_of_the_output() -> None:
    usage = usage_of({"usage": {**USAGE, "completion_tokens_details": {"reasoning_tokens": 15}}})

    assert (usage["output"], usage["reasoning"], usage["totalTokens"]) == (20, 15, 120)


@pytest.mark.parametrize("count", [None, -1, "12", True, [], {}, 1e300])
def test_a_count_that_is_none_is_zero(count: object) -> None:
    usage = usage_of({"usage": {"prompt_tokens": count, "completion_tokens": count, "prompt_tokens_details": count}})

    assert counts(usage) == [0, 0, 0, 0, 0]


def test_the_cost_is_the_sum_of_its_parts() -> None:
    details = {"cached_tokens": 50, "cache_write_tokens": 30}
    cost = cast("dict[str, float]", usage_of({"usage": {**USAGE, "prompt_tokens_details": details}})["cost"])

    parts = [cost[name] for name in ("input", "output", "cacheRead", "cacheWrite")]
    assert parts == pytest.approx([20e-6, 40e-6, 25e-6, 120e-6])
    assert cost["total"] == pytest.approx(sum(parts))


def test_what_the_router_charged_is_the_total() -> None:
    router: Model = {**MODEL, "provider": "openrouter"}
    own_key = {"is_byok": True, "cost_details": {"upstream_inference_cost": 0.25}}

    def total(usage: Mapping[str, object], model: Model) -> float:
        return cast("dict[str, float]", usage_of({"usage": {**USAGE, **usage}}, model=model)["cost"])["total"]

    assert total({"cost": 0.5}, router) == 0.5
    assert total({"cost": 0.5, **own_key}, router) == 0.75
    assert total({"cost": 0.5}, MODEL) == pytest.approx(140e-6)
    assert total({"cost": None}, router) == pytest.approx(140e-6)


# Cost in time


def sse_stream(count: int, field: str) -> Iterator[bytes]:
    for _ in range(count):
        yield b"data: " + json.dumps({"id": "x", "model": "m1", **delta(**{field: "abcdefg "})}).encode() + b"\n\n"


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_a_delta_costs_the_same_in_a_long_answer_as_in_a_short_one(field: str) -> None:
    """From bytes to the message, in the pieces in which a network brings them."""

    def seconds_each(count: int) -> float:
        stream = b"".join(sse_stream(count, field))
        pieces = [stream[at : at + 1400] for at in range(0, len(stream), 1400)]
        reading = Reading()
        reading.recorder.update = lambda event, builder: None  # type: ignore[method-assign]
        sse = SseReader()
        start_s = time.process_time()
        for piece in pieces:
            for _, data in sse.feed(piece):
                reading.reader.read(SseEvent(b"", data))
        return (time.process_time() - start_s) / count

    assert recording.cost_ratio(seconds_each, 2_000, 64_000) < 4
