"""The growing message: order of updates, what it says at any moment, how it ends."""

import json
import time
from collections.abc import Callable, Mapping
from typing import cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_spec.records.messages import AssistantMessage
from pinnace_spec.rules.limits import MAX_ANSWER_CHARACTERS

MODEL = served_model(api="an-api", provider="a-provider", reasoning=True, cost=prices(1, 2))


class Recorder:
    """Keeps every update, with the message as it was at that moment."""

    def __init__(self) -> None:
        self.starts: list[AssistantMessage] = []
        self.events: list[dict[str, object]] = []
        self.partials: list[AssistantMessage] = []
        self.rooms = 0

    def started(self, message: AssistantMessage) -> None:
        assert not self.events
        self.starts.append(message)

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        assert self.starts
        assert not builder.is_finished
        self.events.append(dict(event))
        self.partials.append(builder.snapshot())

    async def room(self) -> None:
        self.rooms += 1

    def briefly(self) -> list[str]:
        """Say each event as `text_delta 0 what`."""
        words: list[str] = []
        for event in self.events:
            call = cast("dict[str, object]", event.get("toolCall") or {})
            what = event.get("delta", event.get("content", event.get("id", call.get("id", ""))))
            words.append(f"{event['type']} {event['contentIndex']} {what}".rstrip())
        return words


class Silent:
    def started(self, message: AssistantMessage) -> None: ...

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None: ...

    async def room(self) -> None: ...


def started() -> tuple[MessageBuilder, Recorder]:
    recorder = Recorder()
    builder = MessageBuilder(MODEL, recorder, 1234)
    builder.start()
    return builder, recorder


def test_a_message_that_has_not_begun_to_grow_says_who_speaks() -> None:
    builder, recorder = started()

    zero = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    assert recorder.starts == [
        {
            "role": "assistant",
            "content": [],
            "api": "an-api",
            "provider": "a-provider",
            "model": "m1",
            "usage": {**zero, "totalTokens": 0, "cost": {**zero, "total": 0}},
            "stopReason": "stop",
            "timestamp": 1234,
        }
    ]
    assert builder.has_started
    assert not builder.is_finished


def test_a_block_begins_with_its_first_delta_and_ends_with_the_message() -> None:
    builder, recorder = started()
    builder.text_delta("t", "Hel")
    builder.text_delta("t", "lo")
    builder.finish("stop")

    assert recorder.briefly() == ["text_start 0", "text_delta 0 Hel", "text_delta 0 lo", "text_end 0 Hello"]
    assert builder.message["content"] == [{"type": "text", "text": "Hello"}]


def test_each_update_comes_with_the_message_as_it_is_after_it() -> None:
    builder, recorder = started()
    builder.text_delta("t", "Hel")
    builder.text_delta("t", "lo")
    builder.finish("stop")

    texts = [partial["content"][0] for partial in recorder.partials]
    assert texts == [{"type": "text", "text": text} for text in ("", "Hel", "Hello", "Hello")]


def test_blocks_may_grow_in_turns_and_end_in_the_order_in_which_they_began() -> None:
    builder, recorder = started()
    builder.thinking_delta("h", "hm", "reasoning")
    builder.text_delta("t", "a")
    builder.toolcall_start(1, "c1", "read")
    builder.toolcall_start(2, "c2", "bash")
    builder.toolcall_delta(2, '{"command"')
    builder.toolcall_delta(1, '{"path":"x"}')
    builder.thinking_delta("h", "!")
    builder.toolcall_delta(2, ':"ls"}')
    builder.text_delta("t", "b")
    builder.finish("toolUse")

    assert recorder.briefly() == [
        "thinking_start 0",
        "thinking_delta 0 hm",
        "text_start 1",
        "text_delta 1 a",
        "toolcall_start 2 c1",
        "toolcall_start 3 c2",
        'toolcall_delta 3 {"command"',
        'toolcall_delta 2 {"path":"x"}',
        "thinking_delta 0 !",
        'toolcall_delta 3 :"ls"}',
        "text_delta 1 b",
        "thinking_end 0 hm!",
        "text_end 1 ab",
        "toolcall_end 2 c1",
        "toolcall_end 3 c2",
    ]
    assert builder.message["content"] == [
        {"type": "thinking", "thinking": "hm!", "thinkingSignature": "reasoning"},
        {"type": "text", "text": "ab"},
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "x"}},
        {"type": "toolCall", "id": "c2", "name": "bash", "arguments": {"command": "ls"}},
    ]
    assert builder.message["stopReason"] == "toolUse"


def test_a_call_begins_with_its_id_and_name_and_ends_with_all_of_it() -> None:
    builder, recorder = started()
    builder.toolcall_start(0, "c1", "read")
    builder.toolcall_delta(0, '{"path": "x", "limit": 3}')
    builder.sign_call(0, "signed")
    builder.finish("toolUse")

    assert recorder.events[0] == {"type": "toolcall_start", "contentIndex": 0, "id": "c1", "toolName": "read"}
    call = {
        "type": "toolCall",
        "id": "c1",
        "name": "read",
        "arguments": {"path": "x", "limit": 3},
        "thoughtSignature": "signed",
    }
    assert recorder.events[-1] == {"type": "toolcall_end", "contentIndex": 0, "toolCall": call}
    assert builder.message["content"] == [call]


def test_an_empty_delta_of_arguments_is_reported_and_other_empty_ones_are_not() -> None:
    builder, recorder = started()
    builder.text_delta("t", "")
    builder.thinking_delta("h", "")
    builder.toolcall_start(0, "c1", "read")
    builder.toolcall_delta(0, "")

    assert recorder.briefly() == ["text_start 0", "thinking_start 1", "toolcall_start 2 c1", "toolcall_delta 2"]


def test_arguments_are_a_guess_while_they_grow_and_an_error_when_they_end_broken() -> None:
    builder, recorder = started()
    builder.toolcall_start(0, "c1", "read")
    builder.toolcall_delta(0, '{"path": "x')
    builder.finish("toolUse")

    growing = recorder.partials[1]["content"][0]
    assert growing["type"] == "toolCall"
    assert growing["arguments"] == {"path": "x"}
    assert "argumentsError" not in growing
    (call,) = builder.message["content"]
    assert call["type"] == "toolCall"
    assert call["arguments"] == {}
    assert "not valid JSON" in call.get("argumentsError", "")


def test_the_update_that_ends_a_call_shows_the_call_complete() -> None:
    builder, recorder = started()
    builder.toolcall_start(0, "c1", "read")
    builder.toolcall_delta(0, '{"path": "x')
    builder.end_block(0)

    shown = recorder.partials[-1]["content"][0]
    assert shown == recorder.events[-1]["toolCall"]


def test_a_block_that_its_provider_ends_is_not_ended_again() -> None:
    builder, recorder = started()
    builder.text_delta("t", "a")
    builder.end_block("t")
    builder.end_block("t")
    builder.end_block("never seen")
    builder.text_delta("t", "b")
    builder.finish("stop")

    assert recorder.briefly() == [
        *("text_start 0", "text_delta 0 a", "text_end 0 a"),
        *("text_start 1", "text_delta 1 b", "text_end 1 b"),
    ]


def test_abort_ends_what_is_open_and_keeps_what_came() -> None:
    builder, recorder = started()
    builder.text_delta("t", "Hel")
    builder.toolcall_start(0, "c1", "bash")
    builder.toolcall_delta(0, '{"command": "l')
    builder.abort()

    assert recorder.briefly()[-2:] == ["text_end 0 Hel", "toolcall_end 1 c1"]
    assert builder.message["stopReason"] == "aborted"
    assert builder.message.get("errorMessage") == "Request was aborted"
    assert builder.message["content"][0] == {"type": "text", "text": "Hel"}
    assert builder.is_finished


def test_abort_before_the_start_reports_nothing() -> None:
    recorder = Recorder()
    builder = MessageBuilder(MODEL, recorder, 0)
    builder.abort("because")

    assert (recorder.starts, recorder.events) == ([], [])
    assert not builder.has_started
    assert builder.message["stopReason"] == "aborted"
    assert builder.message.get("errorMessage") == "because"


def test_failure_before_the_start_reports_nothing() -> None:
    recorder = Recorder()
    builder = MessageBuilder(MODEL, recorder, 0)
    builder.fail("no such host")

    assert (recorder.starts, recorder.events) == ([], [])
    assert builder.message["content"] == []
    assert (builder.message["stopReason"], builder.message.get("errorMessage")) == ("error", "no such host")


def test_failure_in_the_middle_leaves_open_blocks_without_an_end() -> None:
    builder, recorder = started()
    builder.text_delta("t", "done")
    builder.end_block("t")
    builder.toolcall_start(0, "c1", "bash")
    builder.toolcall_delta(0, '{"command": "l')
    builder.fail("cut")

    assert recorder.briefly()[-1] == 'toolcall_delta 1 {"command": "l'
    assert builder.message["content"] == [
        {"type": "text", "text": "done"},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "l"}},
    ]


def test_a_message_that_ends_in_failure_but_properly_has_all_its_ends() -> None:
    builder, recorder = started()
    builder.text_delta("t", "x")
    builder.finish("error", "filtered")

    assert recorder.briefly()[-1] == "text_end 0 x"
    assert (builder.message["stopReason"], builder.message.get("errorMessage")) == ("error", "filtered")


def test_a_message_that_ends_before_it_began_is_begun() -> None:
    recorder = Recorder()
    builder = MessageBuilder(MODEL, recorder, 0)
    builder.finish("stop")

    assert len(recorder.starts) == 1
    assert builder.message["content"] == []


@pytest.mark.parametrize(
    "again",
    [
        lambda builder: builder.finish("stop"),
        lambda builder: builder.fail("x"),
        lambda builder: builder.abort(),
        lambda builder: builder.text_delta("new", "x"),
        lambda builder: builder.start(),
    ],
)
def test_nothing_comes_after_the_end(again: Callable[[MessageBuilder], None]) -> None:
    builder, recorder = started()
    builder.finish("stop")

    with pytest.raises(AssertionError):
        again(builder)
    assert (len(recorder.starts), recorder.events) == (1, [])


def test_there_is_no_final_message_before_the_end() -> None:
    builder, _ = started()

    with pytest.raises(AssertionError):
        _ = builder.message


def test_what_the_provider_calls_itself_is_part_of_the_message() -> None:
    builder, _ = started()
    builder.response_id = "r1"
    builder.response_model = "m1-2024"
    builder.raw_stop_reason = "eos"
    builder.finish("stop")

    assert builder.message.get("responseId") == "r1"
    assert builder.message.get("responseModel") == "m1-2024"


def test_a_snapshot_does_not_change_with_the_message() -> None:
    builder, _ = started()
    builder.text_delta("t", "a")
    builder.toolcall_start(0, "c1", "edit")
    builder.toolcall_delta(0, '{"edits": [{"old": "x')
    snapshot = builder.snapshot()
    kept = json.dumps(snapshot)
    builder.text_delta("t", "b")
    builder.toolcall_delta(0, '"}]}')
    builder.usage = usage_of(MODEL, RequestTokens(input=5))
    builder.response_id = "late"
    builder.finish("toolUse")

    assert json.dumps(snapshot) == kept


# Characters


def test_a_character_cut_between_two_deltas_is_reported_whole() -> None:
    builder, recorder = started()
    builder.text_delta("t", "a\ud83d")
    builder.text_delta("t", "\ude00b")
    builder.finish("stop")

    assert recorder.briefly() == [
        "text_start 0",
        "text_delta 0 a",
        "text_delta 0 \U0001f600b",
        "text_end 0 a\U0001f600b",
    ]


def test_a_half_that_stays_alone_is_replaced_when_the_block_ends() -> None:
    builder, recorder = started()
    builder.text_delta("t", "\ud83d")
    builder.thinking_delta("h", "\ude00")
    builder.toolcall_start(0, "c1", "bash")
    builder.toolcall_delta(0, '{"command": "\ud83d')
    builder.toolcall_delta(0, '"}')
    builder.finish("toolUse")

    assert recorder.briefly() == [
        "text_start 0",
        "thinking_start 1",
        "thinking_delta 1 \ufffd",
        "toolcall_start 2 c1",
        'toolcall_delta 2 {"command": "',
        'toolcall_delta 2 \ufffd"}',
        "text_delta 0 \ufffd",
        "text_end 0 \ufffd",
        "thinking_end 1 \ufffd",
        "toolcall_end 2 c1",
    ]


def test_a_half_that_waits_when_the_stream_breaks_is_replaced_in_the_message() -> None:
    builder, _ = started()
    builder.text_delta("t", "a\ud83d")
    builder.fail("cut")

    assert builder.message["content"] == [{"type": "text", "text": "a\ufffd"}]


def test_no_word_of_the_provider_brings_half_a_character_into_the_message() -> None:
    half = "x\ud83d"
    builder, recorder = started()
    builder.response_id = builder.response_model = half
    builder.thinking_delta("h", half, half)
    builder.thinking_delta("h", half, half)
    builder.toolcall_start(0, half, half)
    builder.toolcall_delta(0, '{"\\ud83d": "\\ude00"}')
    builder.sign_call(0, half)
    builder.finish("error", half)

    for said in (*recorder.events, *recorder.partials, builder.message):
        orjson.dumps(said)  # refuses half a character


PIECES = st.lists(st.text(st.characters() | st.sampled_from("\ud83d\ude00\ud800\udfff"), max_size=4), max_size=8)


@given(PIECES)
def test_the_deltas_of_a_block_are_its_text_however_it_was_cut(pieces: list[str]) -> None:
    builder, recorder = started()
    for piece in pieces:
        builder.text_delta("t", piece)
    builder.finish("stop")

    whole = "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    deltas = "".join(str(event["delta"]) for event in recorder.events if event["type"] == "text_delta")
    ends = [event["content"] for event in recorder.events if event["type"] == "text_end"]
    assert deltas == whole
    assert ends == [whole] * bool(pieces)


# Cost


def test_a_delta_costs_the_same_however_long_the_message_is() -> None:
    """Text appended to text would make the later deltas of a long message dearer than its early ones."""

    def seconds_each(count: int, grow: Callable[[MessageBuilder], None]) -> float:
        builder = MessageBuilder(MODEL, Silent(), 0)
        builder.start()
        builder.toolcall_start("c", "c1", "write")
        start_s = time.process_time()
        for _ in range(count):
            grow(builder)
        return (time.process_time() - start_s) / count

    kinds: list[Callable[[MessageBuilder], None]] = [
        lambda builder: builder.text_delta("t", "abcdefg "),
        lambda builder: builder.thinking_delta("h", "abcdefg ", "reasoning"),
        lambda builder: builder.toolcall_delta("c", "abcdefg "),
    ]
    for grow in kinds:
        small = min(seconds_each(5_000, grow) for _ in range(3))
        large = min(seconds_each(160_000, grow) for _ in range(2))
        assert large < 4 * small


async def test_room_is_the_sinks() -> None:
    builder, recorder = started()
    await builder.room()

    assert recorder.rooms == 1


def test_what_the_deltas_left_out_of_a_whole_text_is_reported_as_one_more() -> None:
    builder, recorder = started()
    builder.text_delta("t", "Hel")
    builder.end_block("t", "Hello")
    assert ["text_start 0", "text_delta 0 Hel", "text_delta 0 lo", "text_end 0 Hello"] == recorder.briefly()


def test_a_whole_text_that_contradicts_its_deltas_is_passed_over() -> None:
    builder, recorder = started()
    builder.thinking_delta("t", "one")
    builder.end_block("t", "another")
    assert "thinking_end 0 one" == recorder.briefly()[-1]


def test_whole_arguments_count_even_against_their_deltas() -> None:
    builder, recorder = started()
    builder.toolcall_start("c", "c1", "bash")
    builder.toolcall_delta("c", '{"command":"r')
    builder.end_block("c", '{"command":"ls"}')
    builder.finish("toolUse")
    call = builder.message["content"][0]
    assert "toolCall" == call["type"]
    assert {"command": "ls"} == call["arguments"]
    assert "toolcall_end 0 c1" == recorder.briefly()[-1]


def test_thoughts_that_are_closed_can_still_be_signed() -> None:
    builder, recorder = started()
    builder.thinking_delta("h", "hm")
    builder.end_block("h")
    reported = recorder.briefly()
    builder.sign_thinking("h", "late")
    builder.finish("stop")
    assert [{"type": "thinking", "thinking": "hm", "thinkingSignature": "late"}] == builder.message["content"]
    assert reported == recorder.briefly()


def test_signatures_and_redaction_are_in_the_message_and_in_no_update() -> None:
    builder, recorder = started()
    builder.text_delta("t", "")
    builder.sign_text("t", "s-text")
    builder.thinking_delta("h", "")
    builder.sign_thinking("h", "s1")
    builder.sign_thinking("h", "s2")
    builder.thinking_delta("r", "[hidden]")
    builder.redact_thinking("r", "s-redacted")
    builder.finish("stop")
    assert [
        {"type": "text", "text": "", "textSignature": "s-text"},
        {"type": "thinking", "thinking": "", "thinkingSignature": "s2"},
        {"type": "thinking", "thinking": "[hidden]", "thinkingSignature": "s-redacted", "redacted": True},
    ] == builder.message["content"]
    assert "text_start 0" == recorder.briefly()[0]


def test_a_block_is_there_from_its_first_delta_to_its_end() -> None:
    builder, _ = started()
    assert not builder.has_block("t")
    builder.text_delta("t", "")
    assert builder.has_block("t")
    builder.end_block("t")
    assert not builder.has_block("t")


def grow_text(builder: MessageBuilder, delta: str) -> None:
    builder.text_delta("text", delta)


def grow_thoughts(builder: MessageBuilder, delta: str) -> None:
    builder.thinking_delta("thoughts", delta)


def grow_arguments(builder: MessageBuilder, delta: str) -> None:
    if not builder.has_block("call"):
        builder.toolcall_start("call", "c1", "bash")
    builder.toolcall_delta("call", delta)


@pytest.mark.parametrize("grow", [grow_text, grow_thoughts, grow_arguments])
def test_an_answer_whose_text_does_not_end_is_cut_off(grow: Callable[[MessageBuilder, str], None]) -> None:
    """R-LIM-04: as much as may be is taken, and the next character ends the stream."""
    builder = MessageBuilder(served_model(), Silent(), 0)
    builder.start()
    ended: list[str] = []
    builder.on_excess = lambda: ended.append(builder.excess)

    for _ in range(4):
        grow(builder, "z" * (MAX_ANSWER_CHARACTERS // 4))
    assert [] == ended
    grow(builder, "z")
    assert [
        "The model's answer has more than 16,777,216 characters; it was cut off, and none of its calls was executed"
    ] == ended


def test_an_id_that_another_call_has_gets_a_number() -> None:
    """A result must be able to name its call; providers of extensions, and gateways, may repeat ids."""
    recorder = Recorder()
    builder = MessageBuilder(MODEL, recorder, 0)
    builder.start()
    for key, call_id in enumerate(["c1", "c1", "c1_2", "c1", "", ""]):
        builder.toolcall_start(key, call_id, "read")
    builder.finish("toolUse")
    ids = [block["id"] for block in builder.message["content"] if block["type"] == "toolCall"]
    assert ["c1", "c1_2", "c1_2_2", "c1_3", "", "_2"] == ids
    assert ids == [each["id"] for each in recorder.events if each["type"] == "toolcall_start"]
