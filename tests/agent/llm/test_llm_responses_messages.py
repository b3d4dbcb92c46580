"""A conversation as the items of a response's input. Every body is held to the published shape."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import answer_of, served_model, tool_call, tool_result, user

from pinnace_agent.llm.openai_responses.compat import compat_of
from pinnace_agent.llm.openai_responses.messages import MAX_ID_CHARS, foreign_id
from pinnace_agent.llm.openai_responses.request import http_request, request_body
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    UserContent,
    UserMessage,
)

SCHEMA = Path(__file__).parents[2] / "data" / "openai-responses-request.schema.json"
IMAGE: ImageContent = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
IMAGE_PART = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"}
MODEL = served_model(
    id="gpt-1",
    api="openai-responses",
    provider="openai",
    baseUrl="https://api.openai.com/v1",
    reasoning=True,
    input=["text", "image"],
)
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA="}


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def text(words: str, signature: str | None = None) -> TextContent:
    block: TextContent = {"type": "text", "text": words}
    if signature is not None:
        block["textSignature"] = signature
    return block


def thinking(words: str = "hm", item: object = THOUGHT) -> ThinkingContent:
    return {"type": "thinking", "thinking": words, "thinkingSignature": json.dumps(item)}


def answer(*content: AssistantContent, model: Model = MODEL, stop: StopReason = "stop") -> AssistantMessage:
    return answer_of(model, *content, stopReason=stop)


def changed(model: Model = MODEL, /, **fields: object) -> Model:
    return cast("Model", {**model, **fields})


def items(
    *messages: Message, model: Model = MODEL, system: str = "", tools: Sequence[ToolSpec] = ()
) -> list[dict[str, Any]]:
    asked = LlmRequest(model, system, messages, tools, "off", "k", {}, "s1")
    body = cast("dict[str, Any]", json.loads(json.dumps(request_body(asked, compat_of(model), "short"))))
    validator().validate(body)
    return cast("list[dict[str, Any]]", body["input"])


def test_the_published_shape_refuses_what_it_does_not_know() -> None:
    body = {"model": "m", "input": [{"role": "user", "content": "a"}], "stream": True}
    validator().validate(body)

    for wrong in ({"max_tokens": 5}, {"max_output_tokens": 15}, {"input": [{"role": "tool", "content": "a"}]}):
        with pytest.raises(jsonschema.ValidationError):
            validator().validate({**body, **wrong})


@pytest.mark.parametrize(
    ("model", "role"),
    [
        (MODEL, "developer"),
        (changed(reasoning=False), "system"),
        (changed(compat={"supportsDeveloperRole": False}), "system"),
    ],
)
def test_the_system_prompt_is_the_first_item(model: Model, role: str) -> None:
    assert items(user(text("hi")), model=model, system="Be brief.") == [
        {"role": role, "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    ]


def test_the_user_speaks_in_texts_and_images() -> None:
    old: UserMessage = {"role": "user", "content": "plain", "timestamp": 0}

    assert items(user(text("a"), IMAGE), user(text(""), IMAGE), old) == [
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, IMAGE_PART]},
        {"role": "user", "content": [IMAGE_PART]},
        {"role": "user", "content": [{"type": "input_text", "text": "plain"}]},
    ]


def test_an_empty_message_is_not_sent_and_a_blank_one_is() -> None:
    old: UserMessage = {"role": "user", "content": "", "timestamp": 0}

    assert items(user(), user(text("")), old, user(text(" "))) == [
        {"role": "user", "content": [{"type": "input_text", "text": " "}]}
    ]


def test_a_model_without_images_gets_a_notice() -> None:
    blind = changed(input=["text"])
    sent = items(user(IMAGE), answer(tool_call("c1")), tool_result("c1", IMAGE), model=blind)

    assert sent[0]["content"][0]["text"] == "(image omitted: model does not support images)"
    assert sent[2]["output"] == "(tool image omitted: model does not support images)"


def test_an_answer_goes_back_as_the_items_it_came_in() -> None:
    signature = json.dumps({"v": 1, "id": "msg_1", "phase": "commentary"})
    sent = items(
        answer(thinking(), text("Let me see.", signature), tool_call("call_1|fc_1", path="é")),
        tool_result("call_1|fc_1", text("ok")),
    )

    assert sent == [
        THOUGHT,
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "read",
            "arguments": '{"path":"é"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
    ]


@pytest.mark.parametrize(
    ("signature", "item_id"),
    [
        (json.dumps({"v": 1, "id": "msg_7"}), "msg_7"),
        ("msg_of_an_old_session", "msg_of_an_old_session"),
        (None, "msg_0_0"),
        ("{broken", "msg_0_0"),
        (json.dumps({"v": 1}), "msg_0_0"),
    ],
)
def test_a_text_has_the_id_it_came_with_or_one_made_up(signature: str | None, item_id: str) -> None:
    (sent,) = items(answer(text("a", signature)))

    assert sent["id"] == item_id
    assert "phase" not in sent


def test_a_texts_id_that_is_too_long_is_hashed() -> None:
    first, second = items(*(answer(text("a", json.dumps({"v": 1, "id": end * 300}))) for end in "ab"))

    assert first["id"].startswith("msg_")
    assert len(first["id"]) <= MAX_ID_CHARS
    assert first["id"] != second["id"]


def test_texts_without_ids_get_different_ones() -> None:
    sent = items(answer(text("a"), text("b")), user(text("c")), answer(text("d")))

    assert len({item["id"] for item in sent if item.get("role") == "assistant"}) == 3


def test_an_answer_that_says_nothing_is_not_sent() -> None:
    unsigned: ThinkingContent = {"type": "thinking", "thinking": "hm"}
    field: ThinkingContent = {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"}

    assert items(answer(), answer(text("")), answer(unsigned, field)) == []


def test_thoughts_that_led_to_nothing_are_not_sent() -> None:
    """The server refuses thoughts without the item that follows them."""
    assert items(answer(thinking(), stop="length")) == []
    assert [item["type"] for item in items(answer(text("a"), thinking(), stop="length"))] == ["message"]


@pytest.mark.parametrize("signature", ["", "abc", "[]", "{}", "{oops", '{"type":"other"}', "\ud800{"])
def test_a_signature_of_another_kind_is_not_sent(signature: str) -> None:
    odd: ThinkingContent = {"type": "thinking", "thinking": "hm", "thinkingSignature": signature}

    assert [item["type"] for item in items(answer(odd, text("a")))] == ["message"]


def test_an_answer_that_failed_is_not_sent_with_its_calls() -> None:
    half = answer(text("half"), tool_call("c1"), stop="error")

    assert items(half, answer(text("cut"), stop="aborted")) == []


def test_a_call_that_had_no_name_is_sent_with_one() -> None:
    """The server would refuse the whole conversation ever after."""
    nameless: ToolCall = {"type": "toolCall", "id": "c1", "name": "", "arguments": {}}

    assert items(answer(nameless))[0]["name"]


def test_a_call_without_a_result_gets_one() -> None:
    sent = items(answer(tool_call("call_1|fc_1")), user(text("never mind")))

    assert sent[1] == {"type": "function_call_output", "call_id": "call_1", "output": "No result provided"}


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ([text("a"), text("b")], "a\nb"),
        ([], "(no tool output)"),
        ([text(" \n")], "(no tool output)"),
        ([text("a"), IMAGE], [{"type": "input_text", "text": "a"}, IMAGE_PART]),
        ([text(""), IMAGE], [IMAGE_PART]),
        ([IMAGE, IMAGE], [IMAGE_PART, IMAGE_PART]),
    ],
)
@pytest.mark.parametrize("is_error", [False, True])
def test_a_result_is_text_or_parts_if_it_has_images(content: list[UserContent], output: object, is_error: bool) -> None:
    assert items(answer(tool_call("c1")), tool_result("c1", *content, is_error=is_error))[1]["output"] == output


# Ids and other models


def ids_of(call_id: str, *, by: Model, reader: Model = MODEL) -> tuple[str | None, str, str]:
    """Return item id, call id, and the result's, as one model gets them of another's call."""
    sent_call, sent_result = items(answer(tool_call(call_id), model=by), tool_result(call_id, text("ok")), model=reader)
    return sent_call.get("id"), sent_call["call_id"], sent_result["call_id"]


def test_a_call_of_another_model_of_the_provider_has_no_item_id() -> None:
    """The server would ask for the thoughts that the call came with."""
    assert ids_of("call_1|fc_1", by=changed(id="gpt-2")) == (None, "call_1", "call_1")


@pytest.mark.parametrize("by", [changed(provider="opencode"), changed(api="openai-completions")])
def test_a_foreign_calls_item_id_is_made_up(by: Model) -> None:
    item_id, call_id, result_id = ids_of("call_1|fc_1", by=by)

    assert item_id is not None
    assert item_id.startswith("fc_")
    assert item_id != "fc_1"
    assert call_id == result_id == "call_1"


def test_a_foreign_call_with_one_id_has_no_item_id() -> None:
    assert ids_of("toolu_01", by=changed(provider="anthropic")) == (None, "toolu_01", "toolu_01")


def test_an_item_id_of_another_kind_gets_the_prefix_that_is_asked_for() -> None:
    item_id, *_ = ids_of("call_1|a+b/c==", by=MODEL)

    assert item_id is not None
    assert item_id.startswith("fc_")


def test_a_server_of_its_own_kind_gets_its_own_ids_back_and_foreign_ones_as_a_whole() -> None:
    local = changed(provider="local", baseUrl="http://127.0.0.1:8080/v1", compat={})

    assert ids_of("c1|fc_7", by=local, reader=local) == ("fc_7", "c1", "c1")
    assert ids_of("call+1|fc/1_", by=MODEL, reader=local) == (None, "call_1_fc_1", "call_1_fc_1")


LONG = "call_" + "a+/=" * 110


@pytest.mark.parametrize("provider", ["openai", "local"])
@pytest.mark.parametrize("call_id", [LONG, f"{LONG}|{LONG}", f"call_1|{LONG}|x", "|", "", "|fc_1", "a__|b__", "é|ü"])
def test_any_id_of_another_becomes_acceptable(call_id: str, provider: str) -> None:
    """The shape of every body is checked: characters, prefix and length of ids."""
    reader = changed(provider=provider, baseUrl="http://127.0.0.1/v1")
    _, called, answered = ids_of(call_id, by=changed(provider="other", api="other"), reader=reader)

    assert called == answered
    assert not called.endswith("_")


@given(st.lists(st.text(alphabet="ab|_é+", min_size=1), unique=True, max_size=6), st.booleans())
def test_different_long_ids_stay_different(endings: list[str], is_openai_like: bool) -> None:
    ids = [foreign_id("x" * 80 + ending, is_openai_like) for ending in endings]

    assert len(set(ids)) == len(ids)
    assert all(len(part) <= MAX_ID_CHARS for each in ids for part in each.split("|"))


def test_calls_that_share_an_id_are_distinguished() -> None:
    sent = items(
        answer(tool_call("call_1|fc_1"), tool_call("call_1|fc_2")),
        tool_result("call_1|fc_2", text("two")),
        tool_result("call_1|fc_1", text("one")),
    )

    outputs = {item["call_id"]: item["output"] for item in sent if item["type"] == "function_call_output"}
    assert [outputs[item["call_id"]] for item in sent if item["type"] == "function_call"] == ["one", "two"]


@pytest.mark.parametrize(
    "other",
    [
        changed(api="openai-completions", provider="openrouter"),
        changed(api="anthropic-messages", provider="anthropic"),
        changed(api="google-generative-ai", provider="google"),
        changed(id="gpt-2"),
    ],
)
def test_the_thoughts_and_signatures_of_another_model_are_not_sent(other: Model) -> None:
    signed: ToolCall = {**tool_call("c1"), "thoughtSignature": "sig"}
    sent = items(
        answer(thinking(), text("a", '{"v":1,"id":"msg_9"}'), signed, model=other), tool_result("c1", text("ok"))
    )

    assert [item["type"] for item in sent] == ["message", "function_call", "function_call_output"]
    assert "msg_9" not in json.dumps(sent)
    assert "sig" not in json.dumps(sent)


def test_the_history_is_not_changed() -> None:
    history: list[Message] = [
        answer(thinking(), text("a"), tool_call("x|y", p=1), model=changed(id="o")),
        tool_result("x|y", IMAGE),
    ]
    before = json.dumps(history)
    items(*history)

    assert json.dumps(history) == before


HALF = "x\ud83dy"


def test_half_a_character_is_sent_nowhere() -> None:
    asked = LlmRequest(
        MODEL,
        HALF,
        [
            user(text(HALF)),
            answer(text(HALF + "\U0001f600"), tool_call(f"c{HALF}|fc_1", **{HALF: [HALF]})),
            user(text("a")),
        ],
        [ToolSpec("read", HALF, {"description": HALF})],
        "off",
        None,
        {},
        "s1",
    )
    body = json.loads(http_request(asked, compat_of(MODEL)).body)

    assert body["input"][0]["content"] == "xy"
    assert body["input"][2]["content"][0]["text"] == "xy\U0001f600"
    assert json.loads(body["input"][3]["arguments"]) == {"xy": ["xy"]}
    assert body["tools"][0]["parameters"] == {"description": "xy"}
