"""The events of an Anthropic message. The streams were constructed after the published format, never recorded."""

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.llm import recording
from tests.agent.samples import prices, served_model

from pinnace_agent.core.json_access import as_object
from pinnace_agent.llm.anthropic.stream import LATE_FALLBACK, EventReader
from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.failures import FailureTexts, RefusalForm
from pinnace_agent.llm.transport.exchange import StreamBroken, UnreadableEvent
from pinnace_agent.llm.transport.sse import SseEvent, SseReader
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.records.messages import Model

MODEL = served_model(api="anthropic-messages", reasoning=True, cost=prices(1, 2, 0.5, 4))
Event = Mapping[str, object]


class Reading(recording.Reading):
    """A reader and what came of it."""

    def __init__(self, names: ToolNames | None = None, model: Model = MODEL) -> None:
        super().__init__(model)
        self.texts = FailureTexts(Secrets("sk-secret-key"), RefusalForm("{status} ", True))
        self.reader = EventReader(self.builder, names or ToolNames(), self.texts)

    def read(self, *events: object) -> "Reading":
        """Read events under the names that their types give them; bytes as they are, without one."""
        for event in events:
            if isinstance(event, bytes):
                super().read(event)
            else:
                name = str((as_object(event) or {}).get("type", ""))
                self.reader.read(SseEvent(name.encode(), json.dumps(event).encode()))
        return self


def begin(**fields: object) -> Event:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m1", "content": [], "usage": usage}
    return {"type": "message_start", "message": {**message, **fields}}


def start(index: object, kind: str, **fields: object) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: object, kind: str, **fields: object) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: object) -> Event:
    return {"type": "content_block_stop", "index": index}


def end(reason: object = "end_turn", usage: object = None, **fields: object) -> Event:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None, **fields}, "usage": usage}


STOP: Event = {"type": "message_stop"}
TEXT = (start(0, "text", text=""), delta(0, "text_delta", text="a"), stop(0))


def text_block(index: int, *pieces: str) -> list[Event]:
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [start(index, "text", text=""), *deltas, stop(index)]


def thinking_block(index: int, *pieces: str, signature: Sequence[str] = ("sig",)) -> list[Event]:
    deltas = [delta(index, "thinking_delta", thinking=piece) for piece in pieces]
    signatures = [delta(index, "signature_delta", signature=piece) for piece in signature]
    return [start(index, "thinking", thinking="", signature=""), *deltas, *signatures, stop(index)]


def tool_block(index: int, *pieces: str, call_id: str = "c1", name: str = "bash", **fields: object) -> list[Event]:
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [start(index, "tool_use", id=call_id, name=name, **{"input": {}, **fields}), *deltas, stop(index)]


def content_of(*events: Event) -> list[Any]:
    return list(Reading().read(begin(), *events, end(), STOP).finish()["content"])


# Blocks


def test_text_arrives_in_deltas_and_ends_with_its_block() -> None:
    reading = Reading().read(begin(), *text_block(0, "Hel", "lo"))

    assert reading.recorder.words == ["text_start 0", "text_delta 0 Hel", "text_delta 0 lo", "text_end 0 Hello"]
    message = reading.read(end(), STOP).finish()
    assert len(reading.recorder.words) == 4
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert message["stopReason"] == "stop"


def test_thoughts_are_signed_in_silence_in_one_piece_or_several() -> None:
    reading = Reading().read(begin(), *thinking_block(0, "I th", "ink", signature=("si", "gn", "ed")), end(), STOP)

    assert reading.finish()["content"] == [{"type": "thinking", "thinking": "I think", "thinkingSignature": "signed"}]
    assert reading.recorder.words == [
        *("thinking_start 0", "thinking_delta 0 I th"),
        *("thinking_delta 0 ink", "thinking_end 0 I think"),
    ]


def test_thoughts_may_be_withheld_and_are_signed_all_the_same() -> None:
    assert content_of(*thinking_block(0)) == [{"type": "thinking", "thinking": "", "thinkingSignature": "sig"}]


def test_redacted_thoughts_are_kept_for_their_model_behind_a_notice() -> None:
    reading = Reading().read(begin(), start(0, "redacted_thinking", data="encrypted"), stop(0), end(), STOP)

    assert reading.finish()["content"] == [
        {
            "type": "thinking",
            "thinking": "[Reasoning redacted]",
            "thinkingSignature": "encrypted",
            "redacted": True,
        }
    ]
    assert reading.recorder.words == [
        *("thinking_start 0", "thinking_delta 0 [Reasoning redacted]"),
        "thinking_end 0 [Reasoning redacted]",
    ]


def test_a_call_is_put_together_from_its_deltas() -> None:
    reading = Reading().read(begin(), *tool_block(0, "", '{"comm', 'and": "ls"}'), end("tool_use"), STOP)

    assert reading.finish()["content"] == [
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    ]
    assert reading.recorder.words == [
        "toolcall_start 0 bash c1",
        'toolcall_delta 0 {"comm',
        'toolcall_delta 0 and": "ls"}',
        "toolcall_end 0",
    ]


@pytest.mark.parametrize("pieces", [(), ("",), (" ",), ("{}",)])
def test_a_call_may_have_no_arguments(pieces: Sequence[str]) -> None:
    assert content_of(*tool_block(0, *pieces)) == [{"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}]


def test_arguments_that_come_whole_with_the_start_count_unless_deltas_follow() -> None:
    whole, repaired = content_of(
        *tool_block(0, input={"path": "é"}), *tool_block(1, '{"b":2}', call_id="c2", input={"a": 1})
    )

    assert (whole["arguments"], repaired["arguments"]) == ({"path": "é"}, {"b": 2})


def test_broken_arguments_are_the_models_error_not_the_streams() -> None:
    (only,) = content_of(*tool_block(0, '{"path": '))

    assert only["arguments"] == {}
    assert "not valid JSON" in only["argumentsError"]


def test_arguments_cut_inside_of_an_escape_or_a_character_are_whole_in_the_end() -> None:
    (only,) = content_of(*tool_block(0, '{"a":"\\', "n\\ud8", "3d\\ude00\ud83d", '\ude00\n"}'))

    assert only["arguments"] == {"a": "\n\U0001f600\U0001f600\n"}


def test_a_call_without_an_id_or_with_one_that_was_used_gets_its_own() -> None:
    calls = content_of(*tool_block(0), *tool_block(1), *tool_block(2, call_id=""))

    assert calls[0]["id"] == "c1"
    assert len({each["id"] for each in calls}) == 3
    assert all(each["id"] for each in calls)


def test_a_tool_gets_the_name_that_it_has_here() -> None:
    reading = Reading(ToolNames(["bash"], is_login=True)).read(begin(), *tool_block(0, name="Bash"), end(), STOP)
    (only,) = reading.finish()["content"]

    assert only["type"] == "toolCall"
    assert only["name"] == "bash"


def test_a_block_may_begin_with_words() -> None:
    assert content_of(
        start(0, "text", text="a"),
        delta(0, "text_delta", text="b"),
        stop(0),
        start(1, "thinking", thinking="h", signature="s"),
        delta(1, "thinking_delta", thinking="m"),
        stop(1),
    ) == [{"type": "text", "text": "ab"}, {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}]


def test_a_block_that_is_never_ended_ends_with_the_message() -> None:
    content = content_of(*thinking_block(0, "hm")[:-1], *tool_block(1, "{}")[:-1])

    assert [block["type"] for block in content] == ["thinking", "toolCall"]
    assert content[0]["thinkingSignature"] == "sig"


def test_an_index_that_is_used_again_ends_the_block_that_had_it() -> None:
    reading = Reading().read(begin(), start(0, "text", text="a"), start(0, "text", text="b"), stop(0))

    assert reading.recorder.words == [
        *("text_start 0", "text_delta 0 a", "text_end 0 a"),
        *("text_start 1", "text_delta 1 b", "text_end 1 b"),
    ]


def test_words_whose_block_was_never_begun_are_not_lost() -> None:
    assert content_of(delta(0, "text_delta", text="a"), delta(None, "thinking_delta", thinking="hm")) == [
        {"type": "text", "text": "a"},
        {"type": "thinking", "thinking": "hm"},
    ]


BLOCKS = [
    text_block(0, "a", "b", "c"),
    thinking_block(1, "d", "e", "f", signature=("s", "t")),
    tool_block(2, '{"x"', ":", "1}"),
    tool_block(7, '{"y"', ":", "2}", call_id="c2"),
]


@given(st.lists(st.integers(0, 3), max_size=24))
def test_blocks_may_come_in_any_turns(order: list[int]) -> None:
    left = [list(block) for block in BLOCKS]
    events = [left[n].pop(0) for n in [*order, *(n for n in range(4) for _ in range(9))] if left[n]]
    reading = Reading().read(begin(), *events, end(), STOP)
    content = [
        {key: value for key, value in block.items() if key not in {"type", "id", "name"}}
        for block in reading.finish()["content"]
    ]

    assert len(content) == 4
    for expected in (
        {"text": "abc"},
        {"thinking": "def", "thinkingSignature": "st"},
        {"arguments": {"x": 1}},
        {"arguments": {"y": 2}},
    ):
        assert expected in content
    assert_reported_in_order(reading)


def assert_reported_in_order(reading: Reading) -> None:
    """Check what holds of every stream: each block begins, grows and ends, in content order of their beginnings."""
    pieces: dict[str, str] = {}
    ended: set[str] = set()
    for word in reading.recorder.words:
        kind, index, *rest = word.split(" ", 2)
        if kind.endswith("_start"):
            assert int(index) == len(pieces)
            pieces[index] = ""
        elif kind.endswith("_delta"):
            assert index not in ended
            pieces[index] += rest[0] if rest else ""
        else:
            assert index not in ended
            ended.add(index)
            assert kind == "toolcall_end" or pieces[index] == (rest[0] if rest else "")
    assert len(pieces) == len(reading.builder.message["content"])
    assert ended == set(pieces) or reading.builder.message["stopReason"] == "error"


# What is passed over


@pytest.mark.parametrize(
    "event",
    [
        {"type": "ping"},
        {"type": "content_block_start", "index": 5},
        {"type": "content_block_start", "index": 5, "content_block": None},
        start(5, "server_tool_use", id="s1", name="web_search", input={}),
        start(5, "web_search_tool_result", tool_use_id="s1", content=[]),
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_delta", "index": 0, "delta": "x"},
        delta(0, "citations_delta", citation={"type": "char_location"}),
        delta(0, "input_json_delta", partial_json="{}"),
        delta(0, "thinking_delta", thinking="x"),
        delta(0, "signature_delta", signature="x"),
        delta(0, "text_delta", text=None),
        delta(0, "text_delta", text=5),
        delta(9, "input_json_delta", partial_json="{}"),
        {"type": "content_block_stop"},
        {"type": "content_block_stop", "index": 9},
        {"type": "message_delta"},
        {"type": "message_delta", "delta": None, "usage": None},
        {"type": "something_new", "index": 0},
        {"no": "type"},
    ],
)
def test_what_says_nothing_changes_nothing(event: Event) -> None:
    reading = Reading().read(begin(), start(0, "text", text=""), event, delta(0, "text_delta", text="a"), event)

    assert reading.read(stop(0), end(), STOP).finish()["content"] == [{"type": "text", "text": "a"}]


def test_the_words_of_a_block_of_an_unknown_kind_belong_to_nothing() -> None:
    search = start(0, "server_tool_use", id="s1", name="web_search", input={})
    arguments = delta(0, "input_json_delta", partial_json='{"query":"x"}')

    assert content_of(search, arguments, delta(0, "text_delta", text="x"), stop(0), *text_block(1, "a")) == [
        {"type": "text", "text": "a"}
    ]


PRICES = prices(5, 25, 0.5, 6.25)


@pytest.mark.parametrize(
    ("answering", "fallback", "cost"),
    [
        ("m2", {"provider": MODEL["provider"], "model": "m2", "cost": PRICES}, 5e-6 * 10 + 25e-6),
        ("m1", {"provider": MODEL["provider"], "model": "m2", "cost": PRICES}, 1e-6 * 10 + 2e-6),
        ("m2", {"provider": "another", "model": "m2", "cost": PRICES}, 1e-6 * 10 + 2e-6),
        ("m2", {"provider": MODEL["provider"], "model": "m2", "cost": {**PRICES, "input": "5"}}, 1e-6 * 10 + 2e-6),
    ],
)
def test_the_answer_of_another_model_has_its_prices(answering: str, fallback: Event, cost: float) -> None:
    model: Model = {**MODEL, "compat": {"allowedFallbackModels": [fallback]}}
    events = begin(model=answering), start(0, "fallback"), stop(0), *text_block(1, "a"), end(), STOP

    message = Reading(model=model).read(*events).finish()
    assert message["usage"]["cost"]["total"] == pytest.approx(cost)
    assert (message["model"], message.get("responseModel")) == ("m1", None if answering == "m1" else answering)
    assert message["content"] == [{"type": "text", "text": "a"}]


def test_an_answer_that_passes_to_another_model_when_it_has_begun_is_an_error() -> None:
    with pytest.raises(StreamBroken, match=LATE_FALLBACK):
        Reading().read(begin(), *text_block(0, "a"), start(1, "fallback"))


@pytest.mark.parametrize("data", [b"", b"  ", b"[DONE]", b"null", b"17", b"[]", b'"x"'])
def test_data_without_an_object_says_nothing(data: bytes) -> None:
    assert Reading().read(begin(), data, *TEXT, end(), STOP).finish()["content"] == [{"type": "text", "text": "a"}]


def test_an_event_with_a_name_of_its_own_need_not_be_json() -> None:
    reading = Reading()

    assert reading.reader.read(SseEvent(b"ping", b"not json")) is False
    assert reading.reader.read(SseEvent(b"vendor_note", b"{")) is False


def test_events_without_names_are_read_by_their_type_and_those_without_types_by_their_name() -> None:
    reading = Reading()
    for event in (begin(), *TEXT, end()):
        reading.reader.read(SseEvent(b"", json.dumps(event).encode()))
    assert reading.reader.read(SseEvent(b"message_stop", b"{}")) is True

    assert reading.finish()["stopReason"] == "stop"


def test_the_last_event_is_the_last_that_is_read() -> None:
    reading = Reading().read(begin(), *TEXT, end())

    assert not reading.reader.is_complete
    assert reading.reader.read(SseEvent(b"message_stop", b'{"type":"message_stop"}')) is True
    assert reading.reader.is_complete


# Data that is broken


def test_strings_with_control_characters_and_odd_escapes_are_mended() -> None:
    line = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\nb\\q\\ud83d"}}'
    reading = Reading().read(begin(), start(0, "text", text=""), line, stop(0), end(), STOP)

    assert reading.finish()["content"] == [{"type": "text", "text": "a\nb\\q\ufffd"}]


def test_a_character_cut_over_two_events_is_joined() -> None:
    lead = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'
    reading = Reading().read(begin(), lead + b'a\\ud83d"}}', lead + b'\\ude00b"}}', end(), STOP)

    assert reading.finish()["content"] == [{"type": "text", "text": "a\U0001f600b"}]


def test_what_is_no_json_is_refused_and_shown() -> None:
    with pytest.raises(UnreadableEvent) as caught:
        Reading().reader.read(SseEvent(b"message_delta", b'{"type": oops sk-secret-key'))

    assert "oops [redacted]" in str(caught.value)


KEYS = (
    "type index message content_block delta usage text thinking signature partial_json input id name model error data "
    "stop_reason stop_details explanation input_tokens output_tokens cache_creation ephemeral_1h_input_tokens"
).split()
TYPES = (
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop text "
    "thinking redacted_thinking tool_use text_delta thinking_delta input_json_delta signature_delta end_turn refusal"
).split()
JSON_VALUES = recording.json_values(KEYS, st.integers(0, 3) | st.sampled_from(TYPES))


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), JSON_VALUES, max_size=6), max_size=8))
def test_any_json_is_read_or_refused(events: list[Event]) -> None:
    reading = Reading()
    with suppress(StreamBroken):
        for event in events:
            if reading.reader.read(SseEvent(b"", json.dumps(event).encode())):
                break
        message = reading.finish()
        assert message["stopReason"] in {"stop", "length", "toolUse", "error"}
        assert_reported_in_order(reading)


@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(UnreadableEvent):
        Reading().reader.read(SseEvent(b"", data))


WHOLE = b"".join(
    f"event: {event['type']}\r\ndata: {json.dumps(event)}\r\n\r\n".encode()
    for event in (begin(), *BLOCKS[1], *BLOCKS[0], {"type": "ping"}, *BLOCKS[2], *BLOCKS[3], end("tool_use"), STOP)
)
WHOLE_CONTENT = [
    {"type": "thinking", "thinking": "def", "thinkingSignature": "st"},
    {"type": "text", "text": "abc"},
    {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"x": 1}},
    {"type": "toolCall", "id": "c2", "name": "bash", "arguments": {"y": 2}},
]


@given(st.lists(st.integers(0, len(WHOLE)), max_size=6), st.integers(0, len(WHOLE)) | st.just(len(WHOLE)))
def test_a_stream_is_the_same_however_it_is_cut_and_an_end_before_its_end_is_an_error(
    cuts: list[int], last: int
) -> None:
    sse, reading = SseReader(), Reading()
    places = [0, *sorted(cut for cut in cuts if cut < last), last]
    events = [event for at, to in itertools.pairwise(places) for event in sse.feed(WHOLE[at:to])]
    with suppress(UnreadableEvent):
        for event in (*events, *sse.finish()):
            reading.reader.read(event)
    message = reading.finish()

    assert_reported_in_order(reading)
    is_whole = last >= len(WHOLE) - len(b"\r\n\r\n")
    assert (message["stopReason"] == "toolUse") == is_whole
    assert is_whole == ("errorMessage" not in message)
    assert not is_whole or message["content"] == WHOLE_CONTENT


# Cost in time


@pytest.mark.parametrize(
    ("kind", "field"), [("text_delta", "text"), ("thinking_delta", "thinking"), ("signature_delta", "signature")]
)
def test_a_delta_costs_the_same_in_a_long_answer_as_in_a_short_one(kind: str, field: str) -> None:
    """From bytes to the message, in the pieces in which a network brings them."""
    event = f"event: content_block_delta\ndata: {json.dumps(delta(0, kind, **{field: 'abcdefg '}))}\n\n".encode()

    def seconds_each(count: int) -> float:
        stream = event * count
        reading = Reading()
        reading.recorder.update = lambda event, builder: None  # type: ignore[method-assign]
        sse = SseReader()
        start_s = time.process_time()
        for at in range(0, len(stream), 1400):
            for each in sse.feed(stream[at : at + 1400]):
                reading.reader.read(each)
        return (time.process_time() - start_s) / count

    assert recording.cost_ratio(seconds_each, 2_000, 64_000) < 4
