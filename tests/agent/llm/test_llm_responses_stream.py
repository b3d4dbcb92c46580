"""The events of a response. Every stream is constructed after the published format, never recorded."""

import json
from typing import Any

import pytest
from tests.agent.llm import recording
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.openai_responses.stream import ResponseReader
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.records.messages import AssistantMessage, Model

Event = dict[str, Any]

MODEL = served_model(id="gpt-1", api="openai-responses", provider="openai", reasoning=True, cost=prices(1, 2, 0.5, 4))


class Reading(recording.Reading):
    """A reader and what came of it."""

    def __init__(self, model: Model = MODEL) -> None:
        super().__init__(model)
        self.texts = FailureTexts(Secrets("sk-secret-key"))
        self.reader = ResponseReader(self.builder, self.texts)


def event(kind: str, index: int | None = 0, **fields: object) -> Event:
    place = {} if index is None else {"output_index": index}
    return {"type": f"response.{kind}", **place, **fields}


def added(kind: str, index: int | None = 0, **item: object) -> Event:
    return event("output_item.added", index, item={"type": kind, **item})


def done(kind: str, index: int | None = 0, **item: object) -> Event:
    return event("output_item.done", index, item={"type": kind, **item})


def said(delta: str, index: int | None = 0, **fields: object) -> Event:
    return event("output_text.delta", index, **{"content_index": 0, "delta": delta, **fields})


def part(text: str) -> Event:
    return {"type": "output_text", "text": text, "annotations": []}


def summary(*texts: str) -> list[Event]:
    return [{"type": "summary_text", "text": text} for text in texts]


def thought(delta: str, part_index: int = 0, index: int | None = 0) -> Event:
    return event("reasoning_summary_text.delta", index, summary_index=part_index, delta=delta)


def call(index: int | None = 0, name: str = "read", **item: object) -> Event:
    return added("function_call", index, **{"id": f"fc_{index}", "call_id": f"call_{index}", "name": name, **item})


def arguments(delta: str, index: int | None = 0, **fields: object) -> Event:
    return event("function_call_arguments.delta", index, delta=delta, **fields)


def call_done(text: str, index: int | None = 0, **item: object) -> Event:
    ids = {"id": f"fc_{index}", "call_id": f"call_{index}", "name": "read"}
    return done("function_call", index, **{**ids, "arguments": text, **item})


def ended(status: str = "completed", **response: object) -> Event:
    return {"type": f"response.{status}", "response": {"status": status, **response}}


def message_of(*events: object, model: Model = MODEL) -> AssistantMessage:
    return Reading(model).read(*events, ended()).finish()


def content_of(*events: object) -> list[Any]:
    return list(message_of(*events)["content"])


# Text


def test_text_arrives_in_deltas_and_is_signed_with_its_item() -> None:
    reading = Reading().read(
        added("message", id="msg_1", content=[]),
        event("content_part.added", content_index=0, part=part("")),
        said("Hel"),
        said("lo"),
        event("output_text.done", content_index=0, text="Hello"),
        event("content_part.done", content_index=0, part=part("Hello")),
        done("message", id="msg_1", content=[part("Hello")], phase="final_answer"),
        ended(),
    )
    message = reading.finish()

    assert reading.recorder.words == ["text_start 0", "text_delta 0 Hel", "text_delta 0 lo", "text_end 0 Hello"]
    signature = '{"v":1,"id":"msg_1","phase":"final_answer"}'
    assert message["content"] == [{"type": "text", "text": "Hello", "textSignature": signature}]


def test_a_refusal_is_text() -> None:
    refusal = {"type": "refusal", "refusal": "No."}

    assert content_of(
        added("message"), event("refusal.delta", content_index=0, delta="No."), done("message", content=[refusal])
    ) == [{"type": "text", "text": "No."}]


@pytest.mark.parametrize(
    "events",
    [
        [done("message", id="m", content=[part("a"), part("b")])],
        [added("message", id="m"), done("message", id="m", content=[part("a"), part("b")])],
        [added("message", id="m"), said("a"), done("message", id="m", content=[part("a"), part("b")])],
        [said("a"), said("b", content_index=1), done("message", id="m", content=[part("a"), part("b")])],
        [said("a"), said("b"), done("message", id="m", content=[])],
        [added("message", id="m"), event("output_text.done", content_index=0, text="ab"), done("message", id="m")],
        [added("message", id="m"), said("a"), said("b"), ended(output=[{"type": "message", "id": "m"}])],
        [added("message", id="m"), ended(output=[{"type": "message", "id": "m", "content": [part("ab")]}])],
        [ended(output=[{"type": "message", "id": "m", "content": [part("ab")]}])],
    ],
)
def test_a_text_is_whole_whatever_part_of_its_events_is_missing(events: list[Event]) -> None:
    signature = '{"v":1,"id":"m"}'

    assert content_of(*events) == [{"type": "text", "text": "ab", "textSignature": signature}]


def test_what_was_shown_stays_when_the_end_contradicts_it() -> None:
    assert content_of(said("shown"), done("message", content=[part("other")])) == [{"type": "text", "text": "shown"}]


def test_nothing_is_added_to_an_item_that_is_done() -> None:
    assert content_of(said("a"), done("message"), said("b"), done("message", content=[part("ac")])) == [
        {"type": "text", "text": "a"}
    ]


def test_a_character_cut_over_two_events_is_joined() -> None:
    """Escapes of half a character are no JSON for strict parsers, but servers cut tokens there."""
    reading = Reading()
    for piece in (rb"a\ud83d", rb"\ude00b"):
        data = b'{"type":"response.output_text.delta","output_index":0,"delta":"' + piece + b'"}'
        reading.reader.read(SseEvent(b"", data))

    assert reading.read(ended()).finish()["content"] == [{"type": "text", "text": "a\U0001f600b"}]


# Thoughts


def test_a_summarys_parts_are_paragraphs_and_the_item_is_kept_whole() -> None:
    item: Event = {"id": "rs_1", "summary": summary("One.", "Two."), "encrypted_content": "gAAA="}
    reading = Reading().read(
        added("reasoning", id="rs_1", summary=[]),
        event("reasoning_summary_part.added", summary_index=0, part={}),
        thought("On"),
        thought("e."),
        event("reasoning_summary_text.done", summary_index=0, text="One."),
        event("reasoning_summary_part.done", summary_index=0, part={}),
        thought("Two.", 1),
        event("reasoning_summary_part.done", summary_index=1, part={}),
        done("reasoning", **item),
        ended(),
    )
    (block,) = reading.finish()["content"]

    assert block["type"] == "thinking"
    assert block["thinking"] == "One.\n\nTwo."
    assert json.loads(block.get("thinkingSignature", "")) == {"type": "reasoning", **item}
    assert reading.recorder.words[2:4] == ["thinking_delta 0 e.", "thinking_delta 0 \n\nTwo."]


def test_parts_without_an_index_are_distinguished_by_their_ends() -> None:
    delta = {"type": "response.reasoning_summary_text.delta"}
    (block,) = content_of(
        {**delta, "delta": "One."}, {"type": "response.reasoning_summary_part.done"}, {**delta, "delta": "Two."}
    )

    assert block["thinking"] == "One.\n\nTwo."


def test_thoughts_themselves_are_shown_where_there_is_no_summary() -> None:
    content = [{"type": "reasoning_text", "text": "hm!"}]
    (block,) = content_of(
        added("reasoning", id="rs_1"),
        event("reasoning_text.delta", content_index=0, delta="hm"),
        done("reasoning", id="rs_1", content=content, summary=[]),
    )

    assert block["thinking"] == "hm!"


@pytest.mark.parametrize(
    "events",
    [
        [done("reasoning", id="rs_1", summary=summary("One.", "Two."))],
        [thought("One."), done("reasoning", id="rs_1", summary=summary("One.", "Two."))],
        [
            event("reasoning_summary_text.done", summary_index=0, text="One."),
            event("reasoning_summary_text.done", summary_index=1, text="Two."),
            done("reasoning", id="rs_1", summary=[]),
        ],
        [ended(output=[{"type": "reasoning", "id": "rs_1", "summary": summary("One.", "Two.")}])],
    ],
)
def test_thoughts_are_whole_whatever_part_of_their_events_is_missing(events: list[Event]) -> None:
    (block,) = content_of(*events)

    assert block["thinking"] == "One.\n\nTwo."
    assert json.loads(block["thinkingSignature"])["id"] == "rs_1"


def test_encrypted_thoughts_have_a_place() -> None:
    first, second = content_of(
        done("reasoning", 0, id="rs_1", summary=[], encrypted_content="x"), done("message", 1, content=[part("a")])
    )

    assert (first["type"], first["thinking"], second["text"]) == ("thinking", "", "a")


@pytest.mark.parametrize("has_index", [True, False])
def test_encrypted_thoughts_may_come_in_the_final_response_only(has_index: bool) -> None:
    index = 0 if has_index else None
    late = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "late="}
    reading = Reading().read(
        done("reasoning", index, id="rs_1", summary=summary("hm"), encrypted_content=None), ended(output=[late])
    )
    (block,) = reading.finish()["content"]

    assert block["type"] == "thinking"
    assert json.loads(block.get("thinkingSignature", "")) == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": summary("hm"),
        "encrypted_content": "late=",
    }


def test_encrypted_thoughts_that_came_in_time_stay() -> None:
    (block,) = content_of(
        done("reasoning", id="rs_1", encrypted_content="first"),
        ended(output=[{"type": "reasoning", "id": "rs_1", "encrypted_content": "second"}]),
    )

    assert json.loads(block["thinkingSignature"])["encrypted_content"] == "first"


# Calls


def test_a_call_is_put_together_from_its_deltas() -> None:
    text = '{"path":"a"}'
    reading = Reading().read(
        call(),
        arguments(text[:5]),
        arguments(text[5:]),
        event("function_call_arguments.done", arguments=text),
        call_done(text),
        ended(),
    )
    message = reading.finish()

    assert message["content"] == [{"type": "toolCall", "id": "call_0|fc_0", "name": "read", "arguments": {"path": "a"}}]
    assert message["stopReason"] == "toolUse"
    assert reading.recorder.words == [
        "toolcall_start 0 read call_0|fc_0",
        f"toolcall_delta 0 {text[:5]}",
        f"toolcall_delta 0 {text[5:]}",
        "toolcall_end 0",
    ]


def calls_of(*events: object) -> list[tuple[str, str, dict[str, object]]]:
    return [(block["id"], block["name"], block["arguments"]) for block in content_of(*events)]


@pytest.mark.parametrize(
    "events",
    [
        [call_done('{"a":1}')],
        [call_done('{"a":1}', arguments={"a": 1})],
        [call(), call_done('{"a":1}')],
        [call(), arguments('{"a'), call_done('{"a":1}')],
        [call(), arguments("rubbish"), call_done('{"a":1}')],
        [call(), arguments('{"a":1}'), call_done("")],
        [call(arguments='{"a":1}'), call_done("")],
        [call(), arguments('{"a":1}'), event("function_call_arguments.done", arguments='{"a":1}')],
        [arguments('{"a"'), arguments(":1}"), call_done("", arguments=None)],
        [arguments('{"a":1}'), call(), call_done("")],
        [call(), call(), arguments('{"a":1}'), call_done(""), call_done('{"b":2}')],
        [call(), arguments('{"a":1}'), ended(output=[{"type": "function_call", "id": "fc_0", "status": "completed"}])],
        [ended(output=[call_done('{"a":1}')["item"]])],
    ],
)
def test_a_call_is_whole_whatever_part_of_its_events_is_missing(events: list[Event]) -> None:
    assert calls_of(*events) == [("call_0|fc_0", "read", {"a": 1})]


def test_parallel_calls_may_arrive_interleaved() -> None:
    assert calls_of(
        call(1),
        call(0),
        arguments('{"x"', 0),
        arguments('{"y"', 1),
        arguments(":1}", 0),
        call_done('{"x":1}', 0),
        arguments(":2}", 1),
        call_done('{"y":2}', 1),
    ) == [("call_1|fc_1", "read", {"y": 2}), ("call_0|fc_0", "read", {"x": 1})]


def test_items_without_an_index_are_distinguished_by_their_ids() -> None:
    assert calls_of(
        call(None, id="fc_a", call_id="a"),
        call(None, id="fc_b", call_id="b"),
        arguments('{"x":1}', None, item_id="fc_a"),
        arguments('{"y":2}', None, item_id="fc_b"),
        call_done("", None, id="fc_a", call_id="a"),
        call_done("", None, id="fc_b", call_id="b"),
    ) == [("a|fc_a", "read", {"x": 1}), ("b|fc_b", "read", {"y": 2})]


def test_a_server_may_name_a_calls_item_by_the_calls_id() -> None:
    """As llama.cpp does, which gives no index and no other id either."""
    item = {"type": "function_call", "call_id": "fc_x", "name": "read"}
    assert calls_of(
        {"type": "response.output_item.added", "item": {**item, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_x", "delta": '{"a":1}'},
        {"type": "response.output_item.done", "item": {**item, "arguments": '{"a":1}'}},
    ) == [("fc_x", "read", {"a": 1})]


def test_the_index_counts_where_a_gateway_makes_up_the_ids() -> None:
    assert calls_of(
        call(0, id="id-1"), arguments('{"a"', 0, item_id="id-2"), arguments(":1}", 0, item_id="id-3"), call_done("", 0)
    ) == [("call_0|id-1", "read", {"a": 1})]


def test_an_index_that_every_item_has_is_ignored() -> None:
    content = content_of(
        done("reasoning", 0, id="rs_1", summary=summary("hm")),
        added("message", 0, id="msg_1"),
        said("a", 0, item_id="msg_1"),
        done("message", 0, id="msg_1", content=[part("a")]),
        *(call_done('{"a":1}', 0, id=f"fc_{number}", call_id=f"call_{number}") for number in range(2)),
    )

    assert [block["type"] for block in content] == ["thinking", "text", "toolCall", "toolCall"]


def test_calls_that_share_an_id_get_ids_of_their_own() -> None:
    first, second = calls_of(*(call_done("{}", index, id="fc_1", call_id="same") for index in range(2)))

    assert first[0] == "same|fc_1"
    assert second[0] != first[0]


def test_a_call_without_any_id_gets_one() -> None:
    (only,) = calls_of({"type": "response.output_item.done", "item": {"type": "function_call", "name": "read"}})

    assert only[0]


def test_a_call_without_a_name_is_reported_at_its_end() -> None:
    """The user and the model learn that there is no such tool; nothing is lost in silence."""
    assert calls_of(call(name=""), arguments("{}"), call_done("{}", name="")) == [("call_0|fc_0", "unnamed", {})]


@pytest.mark.parametrize("text", ["", " "])
def test_a_call_may_have_no_arguments(text: str) -> None:
    assert calls_of(call(), call_done(text)) == [("call_0|fc_0", "read", {})]


def test_broken_arguments_are_the_models_error_not_the_streams() -> None:
    (only,) = content_of(call(), call_done('{"path": '))

    assert only["arguments"] == {}
    assert "not valid JSON" in only["argumentsError"]


def test_arguments_cut_inside_of_an_escape_are_whole_in_the_end() -> None:
    text = r'{"a":"\n\ud83d\ude00"}'

    assert calls_of(call(), *(arguments(letter) for letter in text), call_done("")) == [
        ("call_0|fc_0", "read", {"a": "\n\U0001f600"})
    ]


# Names and counts


def test_the_responses_id_and_another_model_are_kept() -> None:
    created = {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-1-2026"}}
    message = Reading().read(created, ended(id="resp_2", model="gpt-2")).finish()

    assert (message.get("responseId"), message.get("responseModel")) == ("resp_1", "gpt-1-2026")


def test_the_model_that_was_asked_for_is_not_named_again() -> None:
    assert "responseModel" not in Reading().read(ended(id="resp_1", model="gpt-1")).finish()


USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 30},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 15},
    "total_tokens": 120,
}


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_cached_tokens_are_no_input_and_thoughts_are_output(status: str) -> None:
    usage = Reading().read(ended(status, usage=USAGE)).finish()["usage"]

    assert [usage[name] for name in ("input", "output", "cacheRead", "cacheWrite", "totalTokens")] == [
        *(20, 20, 50, 30, 120)
    ]
    assert usage.get("reasoning") == 15
    assert usage["cost"]["total"] == pytest.approx(20e-6 + 40e-6 + 25e-6 + 120e-6)


@pytest.mark.parametrize(("tier", "factor"), [("flex", 0.5), ("priority", 2), ("default", 1), (None, 1), ([], 1)])
def test_the_service_tier_makes_the_price(tier: object, factor: float) -> None:
    cost = Reading().read(ended(usage=USAGE, service_tier=tier)).finish()["usage"]["cost"]

    assert cost["input"] == pytest.approx(20e-6 * factor)
    assert cost["total"] == pytest.approx(205e-6 * factor)
    assert cost["total"] == pytest.approx(cost["input"] + cost["output"] + cost["cacheRead"] + cost["cacheWrite"])


@pytest.mark.parametrize("count", [None, -1, "12", True, [], {}, 1e300])
def test_a_count_that_is_none_is_zero(count: object) -> None:
    usage = {"input_tokens": count, "output_tokens": count, "input_tokens_details": count}

    assert Reading().read(ended(usage=usage)).finish()["usage"]["totalTokens"] == 0


def test_more_cached_than_input_tokens_is_no_negative_input() -> None:
    usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 500}}

    assert Reading().read(ended(usage=usage)).finish()["usage"]["input"] == 0
