"""What a conversation becomes for Anthropic's messages. Every body is held to the published shape."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import answer_of, served_model, text_block, tool_call, tool_result, user

from pinnace_agent.llm.anthropic.compat import compat_of
from pinnace_agent.llm.anthropic.messages import MAX_ID_CHARS, normal_id
from pinnace_agent.llm.anthropic.request import http_request
from pinnace_agent.llm.request import LlmRequest
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    ThinkingContent,
    UserContent,
    UserMessage,
)

SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "anthropic-messages-request.schema.json").read_bytes())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
IMAGE: ImageContent = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
IMAGE_WIRE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
MODEL = served_model(api="anthropic-messages", baseUrl="http://127.0.0.1:8080", input=["text", "image"])
OTHER: Model = {**MODEL, "api": "openai-completions", "provider": "elsewhere"}


@pytest.fixture(autouse=True, scope="module")
def nothing_cached() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PI_CACHE_RETENTION", "none")
        yield


def answer(*content: AssistantContent, model: Model = MODEL) -> AssistantMessage:
    return answer_of(model, *content)


def with_compat(**compat: object) -> Model:
    return {**MODEL, "compat": compat}


def wire(*messages: Message, model: Model = MODEL) -> list[dict[str, Any]]:
    """Return the messages of a body that is as published, whatever the messages were."""
    request = LlmRequest(model, "Be brief.", messages, (), "off", None, {}, "session-1")
    body = json.loads(http_request(request, compat_of(model)).body)
    VALIDATOR.validate(body)
    return cast("list[dict[str, Any]]", body["messages"])


def contents(*messages: Message, model: Model = MODEL) -> list[Any]:
    return [message["content"] for message in wire(*messages, model=model)]


# The user


def test_a_text_is_a_block_alone_and_beside_an_image() -> None:
    assert wire(user(text_block("a")), user(text_block("a"), IMAGE)) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE_WIRE]},
    ]


def test_an_old_message_stays_a_string() -> None:
    assert wire({"role": "user", "content": "hi", "timestamp": 0}) == [{"role": "user", "content": "hi"}]


def test_an_image_may_be_alone() -> None:
    assert contents(user(IMAGE), user(text_block(" \n"), IMAGE)) == [[IMAGE_WIRE], [IMAGE_WIRE]]


def test_an_image_is_a_notice_for_a_model_without_eyes() -> None:
    (content,) = contents(user(IMAGE, IMAGE), model={**MODEL, "input": ["text"]})

    assert content == [text_block("(image omitted: model does not support images)")]


@pytest.mark.parametrize("words", ["", " ", "\n\t", "\ud83d", "\ud83d \udc00"])
def test_a_message_of_blanks_is_not_sent(words: str) -> None:
    old: UserMessage = {"role": "user", "content": words, "timestamp": 0}

    assert wire(user(text_block(words)), old, user(), answer(text_block(words)), answer()) == []


# Answers


def test_an_answer_keeps_the_order_of_its_blocks() -> None:
    blocks = wire(
        answer(text_block("a"), tool_call("c1", path="é"), text_block("b")), tool_result("c1", text_block("ok"))
    )

    assert blocks == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "é"}},
                {"type": "text", "text": "b"},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok", "is_error": False}],
        },
    ]


THOUGHTS: list[tuple[ThinkingContent, object]] = [
    (
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
    ),
    (
        {"type": "thinking", "thinking": "", "thinkingSignature": "sig"},
        {"type": "thinking", "thinking": "", "signature": "sig"},
    ),
    (
        {"type": "thinking", "thinking": "[hidden]", "thinkingSignature": "data", "redacted": True},
        {"type": "redacted_thinking", "data": "data"},
    ),
    ({"type": "thinking", "thinking": "[hidden]", "redacted": True}, None),
    ({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hm"}),
    ({"type": "thinking", "thinking": "hm", "thinkingSignature": " "}, {"type": "text", "text": "hm"}),
    ({"type": "thinking", "thinking": " "}, None),
]


@pytest.mark.parametrize(("thought", "sent"), THOUGHTS)
def test_a_thought_goes_back_as_its_model_wants_it(thought: ThinkingContent, sent: object) -> None:
    expected = [each for each in (sent, text_block("a")) if each]

    assert contents(answer(thought, text_block("a"))) == [expected]


def test_an_unsigned_thought_stays_one_where_that_is_taken() -> None:
    lenient = with_compat(allowEmptySignature=True)

    assert contents(answer({"type": "thinking", "thinking": "hm"}, text_block("a"), model=lenient), model=lenient) == [
        [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "a"}]
    ]


@pytest.mark.parametrize("thought", [thought for thought, _ in THOUGHTS])
def test_thoughts_of_another_model_are_not_sent(thought: ThinkingContent) -> None:
    assert contents(answer(thought, text_block("a"), model=OTHER)) == [[text_block("a")]]


@pytest.mark.parametrize("reason", ["error", "aborted"])
def test_half_an_answer_is_not_sent(reason: str) -> None:
    half = cast("AssistantMessage", {**answer(text_block("half"), tool_call("c1")), "stopReason": reason})

    assert wire(user(text_block("a")), half, user(text_block("b"))) == [
        {"role": "user", "content": [text_block("a")]},
        {"role": "user", "content": [text_block("b")]},
    ]


@pytest.mark.parametrize(
    ("name", "sent"), [("a.b c", "a_b_c"), ("", "unnamed"), ("é", "_"), ("x" * 200, "x" * 128), ("Read", "Read")]
)
def test_a_call_is_sent_under_a_name_that_is_taken(name: str, sent: str) -> None:
    """The server would refuse the whole conversation ever after."""
    assert contents(answer(tool_call("c1", name)), tool_result("c1", text_block("?")))[0][0]["name"] == sent


# Results


def sent_content(*content: UserContent, is_error: bool = False) -> Any:
    _, results = contents(answer(tool_call("c1")), tool_result("c1", *content, is_error=is_error))
    assert results[0]["is_error"] is is_error
    return [results[0]["content"], *results[1:]]


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ([text_block("a"), text_block("b")], "a\nb"),
        ([], "(no tool output)"),
        ([text_block(" \n")], "(no tool output)"),
        ([IMAGE], [text_block("(see attached image)"), IMAGE_WIRE]),
        ([text_block(""), IMAGE], [text_block("(see attached image)"), IMAGE_WIRE]),
        ([IMAGE, text_block("a")], [IMAGE_WIRE, text_block("a")]),
    ],
)
def test_a_result_always_says_something(content: list[UserContent], sent: object) -> None:
    assert sent_content(*content) == [sent]


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ([], "(no tool output)"),
        ([text_block("no"), IMAGE], "no"),
        ([IMAGE], "(see attached image)"),
    ],
)
def test_images_of_a_result_that_is_an_error_follow_it(content: list[UserContent], sent: object) -> None:
    images = [text_block("Attached image(s) from tool result:"), IMAGE_WIRE] if IMAGE in content else []

    assert sent_content(*content, is_error=True) == [sent, *images]


def test_all_results_of_an_answer_are_one_message_with_the_images_of_errors_behind_them() -> None:
    messages = wire(
        answer(tool_call("c1"), tool_call("c2"), tool_call("c3")),
        tool_result("c1", IMAGE, is_error=True),
        tool_result("c2", text_block("b")),
        tool_result("c3", IMAGE, is_error=True),
        user(text_block("so?")),
    )

    assert [message["role"] for message in messages] == ["assistant", "user", "user"]
    assert [block["type"] for block in messages[1]["content"]] == [
        *("tool_result", "tool_result", "tool_result"),
        *("text", "image", "image"),
    ]


def test_a_call_without_a_result_gets_one_before_the_user_goes_on() -> None:
    _, missing, after = contents(answer(tool_call("c1")), user(text_block("never mind")))

    assert missing == [{"type": "tool_result", "tool_use_id": "c1", "content": "No result provided", "is_error": True}]
    assert after == [text_block("never mind")]


# Ids


@given(st.text(st.sampled_from("abc|+/=é_-9"), max_size=450))
def test_ids_of_other_apis_are_made_acceptable(call_id: str) -> None:
    plain = normal_id(call_id)

    assert len(plain) <= MAX_ID_CHARS
    assert set(plain) <= set("abc_-0123456789def")
    assert normal_id(plain) == plain


def sent_ids(*answers: AssistantMessage) -> list[str]:
    """Return the ids of all calls, each of which has its result behind it."""
    history: list[Message] = []
    for each in answers:
        ids = [block["id"] for block in each["content"] if block["type"] == "toolCall"]
        history += [each, *(tool_result(call_id, text_block("ok")) for call_id in ids)]
    messages = wire(*history)
    calls = [[block["id"] for block in message["content"]] for message in messages[::2]]
    assert calls == [[block["tool_use_id"] for block in message["content"]] for message in messages[1::2]]
    return [each for ids in calls for each in ids]


@pytest.mark.parametrize("model", [MODEL, OTHER], ids=["own", "of another model"])
@pytest.mark.parametrize(
    "ids",
    [
        [f"call_{'x' * 400}|{end}" for end in "ab"],
        ["a|b", "a/b", "a+b", "a=b"],
        ["same", "same", "same"],
        ["", "", "call"],
    ],
)
def test_calls_stay_different_in_one_answer(ids: list[str], model: Model) -> None:
    assert len(set(sent_ids(answer(*map(tool_call, ids), model=model)))) == len(ids)


@pytest.mark.parametrize("model", [MODEL, OTHER], ids=["own", "of another model"])
def test_an_id_that_a_gateway_uses_again_in_every_answer_is_sent_once(model: Model) -> None:
    ids = sent_ids(*(answer(tool_call("call_0"), tool_call("call_1"), model=model) for _ in range(3)))

    assert ids[:2] == ["call_0", "call_1"]
    assert len(set(ids)) == 6


@given(st.lists(st.lists(st.text("a|_2é", max_size=3), max_size=3), max_size=5))
def test_whatever_the_ids_each_call_has_one_and_its_result_the_same(answers: list[list[str]]) -> None:
    ids = sent_ids(*(answer(*map(tool_call, each)) for each in answers if each))

    assert len(set(ids)) == len(ids) == sum(map(len, answers))


# Characters


@pytest.mark.parametrize("odd", ["x\ud83dy", "\udc00x", "x\ud83d"])
def test_no_half_of_a_character_is_sent_from_any_slot(odd: str) -> None:
    thought: ThinkingContent = {"type": "thinking", "thinking": odd, "thinkingSignature": "sig"}
    messages = wire(
        user(text_block(odd)),
        answer(thought, text_block(odd + "\U0001f600"), tool_call("c1", odd, **{odd: [odd]})),
        tool_result("c1", text_block(odd), is_error=True),
    )

    assert "\\ud83d\\ude00" in json.dumps(messages)
    assert not any("\ud800" <= char <= "\udfff" for char in json.dumps(messages, ensure_ascii=False))
    assert json.dumps(messages).count("x") >= 6


WORDS = st.text("a \n\u2028\ud83d\U0001f600", max_size=3)
USER_BLOCKS = st.lists(WORDS.map(text_block) | st.just(IMAGE), max_size=3)
ANSWER_BLOCKS = st.lists(
    WORDS.map(text_block)
    | st.builds(lambda words, sig: {"type": "thinking", "thinking": words, "thinkingSignature": sig}, WORDS, WORDS)
    | st.builds(lambda words: {"type": "thinking", "thinking": words, "redacted": True}, WORDS)
    | st.sampled_from(["", "c1", "c2", "a|b"]).map(tool_call),
    max_size=4,
)
MESSAGES = st.lists(
    USER_BLOCKS.map(lambda blocks: user(*blocks))
    | st.builds(lambda blocks, model: answer(*blocks, model=model), ANSWER_BLOCKS, st.sampled_from([MODEL, OTHER]))
    | st.builds(
        lambda call_id, blocks, is_error: tool_result(call_id, *blocks, is_error=is_error),
        st.sampled_from(["", "c1", "c2", "a|b"]),
        USER_BLOCKS,
        st.booleans(),
    ),
    max_size=8,
)


@given(MESSAGES, st.booleans())
def test_whatever_was_said_the_body_is_as_published_and_every_call_is_answered_at_once(
    messages: list[Message], is_lenient: bool
) -> None:
    compat: Mapping[str, object] = {"allowEmptySignature": True} if is_lenient else {}
    sent = wire(*messages, model=with_compat(**compat))

    for place, message in enumerate(sent):
        if message["role"] == "assistant":
            calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            behind = sent[place + 1]["content"] if calls else []
            assert [block["tool_use_id"] for block in behind[: len(calls)]] == calls
