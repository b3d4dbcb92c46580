"""The chunks of a generated content. All streams here are constructed after the published format, never recorded."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.llm import recording
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.google.stream import ChunkReader
from pinnace_agent.llm.transport.exchange import StreamBroken, UnreadableEvent
from pinnace_agent.llm.transport.sse import SseEvent, SseReader
from pinnace_agent.redaction.secrets import Secrets
from pinnace_campaigns.trials.stream_witness import StreamWitness
from pinnace_spec.records.messages import AssistantMessage, Model

MODEL = served_model(
    id="gemini-3-flash-preview",
    api="google-generative-ai",
    provider="google",
    reasoning=True,
    cost=prices(1, 2, 0.5, 4),
)
SIGNATURE = "c2lnbmVk"
STOP = {"candidates": [{"finishReason": "STOP"}]}


class Reading:
    """A reader and what came of it."""

    def __init__(self, model: Model = MODEL) -> None:
        self.witness = StreamWitness()
        self.builder = MessageBuilder(model, self.witness, 0)
        self.builder.start()
        texts = FailureTexts(Secrets("sk-secret-key"), RefusalForm("", is_whole=True))
        self.reader = ChunkReader(self.builder, texts)

    def read(self, *chunks: object) -> "Reading":
        for chunk in chunks:
            self.reader.read(SseEvent(b"", json.dumps(chunk).encode()))
        return self

    def finish(self) -> AssistantMessage:
        self.reader.finish()
        assert self.witness.judge(self.builder.message) == []
        return self.builder.message


def parts(*each: object, **more: object) -> dict[str, object]:
    return {"candidates": [{"content": {"role": "model", "parts": list(each)}, "index": 0, **more}]}


def candidates(value: object) -> dict[str, object]:
    return {"candidates": value}


def text(what: str, signature: str | None = None) -> dict[str, object]:
    return {"text": what} if signature is None else {"text": what, "thoughtSignature": signature}


def thought(what: str, signature: str | None = None) -> dict[str, object]:
    return {"thought": True, **text(what, signature)}


def call(name: str = "bash", args: object = None, **more: object) -> dict[str, object]:
    given_args = {} if args is None else {"args": args}
    outside = {"thoughtSignature": more.pop("signature")} if "signature" in more else {}
    return {"functionCall": {"name": name, **given_args, **more}, **outside}


def message_of(*chunks: object) -> AssistantMessage:
    return Reading().read(*chunks, STOP).finish()


def content_of(*chunks: object) -> Sequence[Mapping[str, object]]:
    return message_of(*chunks)["content"]


# Text and thoughts


def test_text_arrives_in_deltas() -> None:
    reading = Reading().read(parts(text("Hel")), parts(text("lo")), STOP)
    message = reading.finish()

    assert reading.witness.words == ["text_start 0", "text_delta 0 Hel", "text_delta 0 lo", "text_end 0 Hello"]
    assert (message["content"], message["stopReason"]) == ([{"type": "text", "text": "Hello"}], "stop")


def test_a_switch_between_thoughts_and_text_closes_the_block_before() -> None:
    reading = Reading().read(parts(thought("a")), parts(thought("b"), text("c")), parts(thought("d")), STOP)
    reading.finish()

    assert reading.witness.words == [
        *("thinking_start 0", "thinking_delta 0 a", "thinking_delta 0 b", "thinking_end 0 ab"),
        *("text_start 1", "text_delta 1 c", "text_end 1 c"),
        *("thinking_start 2", "thinking_delta 2 d", "thinking_end 2 d"),
    ]


def test_each_block_keeps_the_last_signature_that_is_one() -> None:
    assert content_of(
        parts(thought("a", "AAAA"), thought("b", "BBBB"), thought("c"), thought("d", "")),
        parts(text("e", "EEEE"), text("f", "FFFF"), text("g", None)),
        parts(call(signature="CCCC", id="c1")),
    ) == [
        {"type": "thinking", "thinking": "abcd", "thinkingSignature": "BBBB"},
        {"type": "text", "text": "efg", "textSignature": "FFFF"},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}, "thoughtSignature": "CCCC"},
    ]


def test_an_empty_text_that_is_signed_is_kept() -> None:
    """The signature of an answer often comes in a part of its own at the end."""
    assert content_of(parts(text("a")), parts(text("", SIGNATURE))) == [
        {"type": "text", "text": "a", "textSignature": SIGNATURE}
    ]
    assert content_of(parts(thought("a")), parts(text("", SIGNATURE))) == [
        {"type": "thinking", "thinking": "a"},
        {"type": "text", "text": "", "textSignature": SIGNATURE},
    ]


def test_a_signature_that_comes_alone_is_kept_too() -> None:
    assert content_of(parts(text("a")), parts({"thoughtSignature": SIGNATURE})) == [
        {"type": "text", "text": "a", "textSignature": SIGNATURE}
    ]


def test_an_empty_text_without_a_signature_opens_and_closes_nothing() -> None:
    reading = Reading().read(parts(thought("a")), parts(text("")), parts(thought("b")), STOP)

    assert reading.finish()["content"] == [{"type": "thinking", "thinking": "ab"}]


def test_parts_of_other_kinds_are_passed_over() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": SIGNATURE}
    code = {"executableCode": {"code": "1"}}

    assert content_of(parts(text("a"), picture, code, text("b"))) == [{"type": "text", "text": "ab"}]


def test_text_with_fields_that_are_not_known_is_text() -> None:
    assert content_of(parts({"text": "a", "mediaResolution": {}})) == [{"type": "text", "text": "a"}]


def test_a_character_cut_over_two_chunks_is_joined() -> None:
    """Escapes of half a character are no JSON for strict parsers, but servers cut tokens there."""
    reading = Reading()
    for piece in (b"a\\ud83d", b"\\ude00b"):
        reading.reader.read(SseEvent(b"", b'{"candidates":[{"content":{"parts":[{"text":"' + piece + b'"}]}}]}'))

    assert reading.read(STOP).finish()["content"] == [{"type": "text", "text": "a\U0001f600b"}]


# Calls


def test_a_call_is_complete_at_once() -> None:
    reading = Reading().read(parts(call(args={"command": "ls"}, id="c1", signature=SIGNATURE)), STOP)
    message = reading.finish()

    assert reading.witness.words == ["toolcall_start 0", 'toolcall_delta 0 {"command":"ls"}', "toolcall_end 0"]
    assert message["stopReason"] == "toolUse"
    assert message["content"] == [
        {
            "type": "toolCall",
            "id": "c1",
            "name": "bash",
            "arguments": {"command": "ls"},
            "thoughtSignature": SIGNATURE,
        }
    ]


def test_a_call_closes_the_block_before_it() -> None:
    reading = Reading().read(parts(text("a"), call(id="c1"), text("b"), call(id="c2")), STOP)
    reading.finish()

    assert [word.split(" ")[:2] for word in reading.witness.words if "delta" not in word] == [
        *(["text_start", "0"], ["text_end", "0"], ["toolcall_start", "1"], ["toolcall_end", "1"]),
        *(["text_start", "2"], ["text_end", "2"], ["toolcall_start", "3"], ["toolcall_end", "3"]),
    ]


def test_several_calls_may_come_in_one_chunk_or_in_several() -> None:
    content = content_of(parts(call(args={"n": 1}, id="a"), call(args={"n": 2}, id="b")), parts(call(id="c")))

    assert [(each["id"], each["arguments"]) for each in content] == [("a", {"n": 1}), ("b", {"n": 2}), ("c", {})]


def test_a_call_without_an_id_or_with_one_that_was_given_gets_another() -> None:
    content = content_of(parts(call(), call(id=""), call(id="same"), call(id="same"), call(name="read", id=None)))
    ids = [str(each["id"]) for each in content]

    assert len(set(ids)) == 5
    assert ids[2] == "same"
    assert all(re.fullmatch(r"bash_\d{13,}_\d+", call_id) for call_id in (ids[0], ids[1], ids[3]))
    assert re.fullmatch(r"read_\d{13,}_\d+", ids[4])


@pytest.mark.parametrize("args", [None, {}, ""])
def test_a_call_may_have_no_arguments(args: object) -> None:
    (only,) = content_of({"candidates": [{"content": {"parts": [{"functionCall": {"name": "list", "args": args}}]}}]})

    assert only["arguments"] == {}
    assert "argumentsError" not in only


@pytest.mark.parametrize("args", [["a"], 3, True, '{"a":', "words"])
def test_arguments_that_are_no_object_are_the_models_error_not_the_streams(args: object) -> None:
    message = message_of(parts(call(args=args)))
    (only,) = message["content"]

    assert only["type"] == "toolCall"
    assert only["arguments"] == {}
    assert "not valid JSON" in only.get("argumentsError", "")
    assert message["stopReason"] == "toolUse"


def test_arguments_may_come_as_text() -> None:
    (only,) = content_of(parts(call(args='{"path": "é"}')))

    assert only["arguments"] == {"path": "é"}


def test_a_call_without_a_name_is_reported_all_the_same() -> None:
    """The user and the model learn that there is no such tool; nothing is lost in silence."""
    (only,) = content_of(parts({"functionCall": {"args": {"a": 1}, "id": "c1"}}))

    assert (only["name"], only["arguments"]) == ("", {"a": 1})


# Chunks that say little or nothing


@pytest.mark.parametrize(
    "chunk",
    [
        *(None, 17, "text", [], {}),
        *map(candidates, [None, [], [None], ["x"], {"0": 1}, [{}]]),
        *(candidates([{"content": value}]) for value in [None, "x", {}, {"parts": None}, {"parts": ["x", 3, {}]}]),
        parts({"text": None}, {"text": 5}, {"text": {"a": 1}}, {"functionCall": None}, {"functionCall": "x"}),
        parts({"text": "", "thought": True}, {"thoughtSignature": 5}, {"thoughtSignature": ""}),
        *({"candidates": [{"finishReason": reason}]} for reason in (None, "", 3, "FINISH_REASON_UNSPECIFIED")),
        *({"usageMetadata": usage} for usage in (None, "many", {}, {"promptTokenCount": None})),
        {"responseId": 5, "modelVersion": ["x"], "promptFeedback": None, "error": None},
        {"promptFeedback": {"safetyRatings": []}},
        {"something": "else"},
    ],
)
def test_a_chunk_that_says_nothing_changes_nothing(chunk: object) -> None:
    reading = Reading().read(chunk)

    assert reading.witness.words == []
    assert not reading.reader.is_complete
    assert reading.read(parts(text("a")), STOP).finish()["content"] == [{"type": "text", "text": "a"}]


KEYS = (
    "candidates content parts text thought thoughtSignature functionCall name args id finishReason usageMetadata "
    "promptTokenCount cachedContentTokenCount candidatesTokenCount thoughtsTokenCount responseId modelVersion "
    "promptFeedback blockReason error message"
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


PARTS = st.one_of(
    st.builds(text, st.text(max_size=5), st.sampled_from([None, "", "AAAA", "BBBB"])),
    st.builds(thought, st.text(max_size=5), st.sampled_from([None, "", "AAAA", "BBBB"])),
    st.builds(call, st.sampled_from(["bash", "read"]), st.sampled_from([None, {"a": "\ud83d"}, {"b": [1]}])),
)


@given(st.lists(PARTS, max_size=12), st.lists(st.integers(0, 2_000), max_size=6))
def test_an_answer_is_the_same_however_its_bytes_are_cut(each: list[object], cuts: list[int]) -> None:
    stream = b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in [*map(parts, each), STOP])
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})

    def answer(pieces: Sequence[bytes]) -> list[object]:
        reading, sse = Reading(), SseReader()
        for event in [event for piece in pieces for event in sse.feed(piece)]:
            reading.reader.read(event)
        content = reading.finish()["content"]
        return [{key: value for key, value in block.items() if key != "id"} for block in content]

    pieces = [stream[begin:end] for begin, end in pairwise(edges)]
    assert answer(pieces) == answer([stream]) == answer([stream[at : at + 1] for at in range(len(stream))])


def test_blank_data_says_nothing() -> None:
    reading = Reading()
    reading.reader.read(SseEvent(b"", b""))
    reading.reader.read(SseEvent(b"", b"  "))

    assert reading.witness.words == []


def test_what_is_no_json_is_refused_and_shown() -> None:
    with pytest.raises(UnreadableEvent) as caught:
        Reading().reader.read(SseEvent(b"", b'{"candidates": oops sk-secret-key'))

    assert "oops [redacted]" in str(caught.value)


def test_the_end_marker_of_other_apis_is_an_end() -> None:
    assert Reading().reader.read(SseEvent(b"", b"[DONE]"))
    assert not Reading().reader.read(SseEvent(b"", b"{}"))


def test_an_error_inside_of_the_stream_ends_it_with_its_message() -> None:
    error = {"code": 503, "message": "The model is overloaded, sk-secret-key.", "status": "UNAVAILABLE"}
    for name, chunk in ((b"", {"error": error}), (b"error", {"error": error}), (b"error", error)):
        reading = Reading().read(parts(text("a")))
        with pytest.raises(StreamBroken, match=r"^The model is overloaded, \[redacted\]\.$"):
            reading.reader.read(SseEvent(name, json.dumps(chunk).encode()))
        assert not reading.builder.is_finished


# Ends


@pytest.mark.parametrize(("reason", "stop"), [("STOP", "stop"), ("stop", "stop"), ("MAX_TOKENS", "length")])
def test_a_finish_reason_is_translated(reason: str, stop: str) -> None:
    reading = Reading().read(parts(text("a"), finishReason=reason))

    assert reading.reader.is_complete
    assert reading.finish()["stopReason"] == stop
    assert reading.builder.raw_stop_reason == reason


def test_calls_make_a_stop_a_use_of_tools_but_not_an_answer_that_was_too_long() -> None:
    assert Reading().read(parts(call(), finishReason="STOP")).finish()["stopReason"] == "toolUse"
    assert Reading().read(parts(call(), finishReason="MAX_TOKENS")).finish()["stopReason"] == "length"


@pytest.mark.parametrize(
    "reason",
    "SAFETY RECITATION LANGUAGE OTHER BLOCKLIST PROHIBITED_CONTENT SPII MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL "
    "MISSING_THOUGHT_SIGNATURE".split(),
)
def test_a_reason_of_a_failure_is_an_error_that_keeps_the_text(reason: str) -> None:
    message = Reading().read(parts(text("a"), call(), finishReason=reason)).finish()

    assert (message["stopReason"], message.get("errorMessage")) == ("error", f"Provider stopped with: {reason}")
    assert len(message["content"]) == 2


def test_an_unknown_reason_is_a_success_if_there_is_content() -> None:
    reading = Reading().read(parts(text("a"), call(), finishReason="NEW_ONE"))

    assert (reading.finish()["stopReason"], reading.builder.unknown_stop_reason) == ("toolUse", "NEW_ONE")


def test_a_refused_prompt_is_an_error_that_says_why() -> None:
    reading = Reading().read({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {}})
    message = reading.finish()

    assert (message["stopReason"], message["content"]) == ("error", [])
    assert message.get("errorMessage") == "Provider blocked the prompt: PROHIBITED_CONTENT"
    assert reading.builder.raw_stop_reason == "PROHIBITED_CONTENT"


def test_a_stream_without_a_finish_reason_is_an_error_that_keeps_the_text() -> None:
    message = Reading().read(parts(text("a"))).finish()

    assert (message["stopReason"], message.get("errorMessage")) == ("error", "Stream ended without finish_reason")
    assert message["content"] == [{"type": "text", "text": "a"}]


def test_what_follows_an_early_finish_reason_still_counts() -> None:
    """Earlier models said it with each chunk."""
    message = Reading().read(parts(text("a"), finishReason="STOP"), parts(text("b"), finishReason="STOP")).finish()

    assert message["content"] == [{"type": "text", "text": "ab"}]


# Names and counts


def test_the_id_and_another_model_are_kept() -> None:
    message = message_of({"responseId": "r1", "modelVersion": "gemini-3.5-flash"}, {"responseId": "r2"})

    assert (message.get("responseId"), message.get("responseModel")) == ("r1", "gemini-3.5-flash")


@pytest.mark.parametrize("version", ["gemini-3-flash-preview", "models/gemini-3-flash-preview"])
def test_the_model_that_was_asked_for_is_not_named_again(version: str) -> None:
    assert "responseModel" not in message_of({"modelVersion": version})


USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 15,
    "totalTokenCount": 135,
}


def usage_of(*usages: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", message_of(*({"usageMetadata": usage} for usage in usages))["usage"])


def counts(usage: Mapping[str, object]) -> list[object]:
    return [usage.get(name) for name in ("input", "output", "cacheRead", "cacheWrite", "totalTokens", "reasoning")]


def test_cached_tokens_are_no_input_and_thoughts_are_output() -> None:
    assert counts(usage_of(USAGE)) == [40, 35, 60, 0, 135, 15]


def test_of_each_count_the_last_one_stays() -> None:
    early = {"promptTokenCount": 90, "totalTokenCount": 90, "promptTokensDetails": []}

    assert counts(usage_of(early, USAGE, {"trafficType": "ON_DEMAND"}, {"candidatesTokenCount": 25})) == [
        *(40, 40, 60, 0, 140, 15)
    ]


def test_what_tools_of_the_server_brought_is_input() -> None:
    assert counts(usage_of({"promptTokenCount": 10, "toolUsePromptTokenCount": 5})) == [15, 0, 0, 0, 15, None]


def test_usage_may_come_before_a_refusal_or_behind_the_finish_reason() -> None:
    message = Reading().read(STOP, {"usageMetadata": USAGE}).finish()

    assert message["usage"]["totalTokens"] == 135


def test_without_usage_everything_is_zero() -> None:
    assert counts(usage_of()) == [0, 0, 0, 0, 0, None]


def test_more_cached_than_prompt_tokens_is_no_negative_input() -> None:
    assert counts(usage_of({"promptTokenCount": 5, "cachedContentTokenCount": 7})) == [0, 0, 7, 0, 7, None]


@pytest.mark.parametrize("count", [None, -1, "12", True, [], {}, 1e300])
def test_a_count_that_is_none_is_zero(count: object) -> None:
    assert counts(usage_of(dict.fromkeys(USAGE, count))) == [0, 0, 0, 0, 0, None]


def test_the_cost_is_the_sum_of_its_parts() -> None:
    cost = cast("dict[str, float]", usage_of(USAGE)["cost"])

    assert [cost[name] for name in ("input", "output", "cacheRead", "cacheWrite")] == pytest.approx(
        [40e-6, 70e-6, 30e-6, 0]
    )
    assert cost["total"] == pytest.approx(140e-6)


# Cost in time


@pytest.mark.parametrize("is_thought", [False, True])
def test_a_delta_costs_the_same_in_a_long_answer_as_in_a_short_one(is_thought: bool) -> None:
    piece = thought("abcdefg ") if is_thought else text("abcdefg ")
    event = b"data: " + json.dumps({**parts(piece), "usageMetadata": USAGE}).encode() + b"\n\n"

    def seconds_each(count: int) -> float:
        reading, sse = Reading(), SseReader()
        reading.witness.update = lambda event, builder: None  # type: ignore[method-assign]
        start_s = time.process_time()
        for _ in range(count // 8):
            for each in sse.feed(event * 8):
                reading.reader.read(each)
        return (time.process_time() - start_s) / count

    assert recording.cost_ratio(seconds_each, 2_000, 32_000) < 4
