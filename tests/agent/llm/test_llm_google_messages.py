"""The conversation as Google wants it. Every request here is held to the published shape."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import prices, sample_answer, served_model, tool_result, user

from pinnace_agent.llm.google.messages import MAX_ID_CHARS, UNSIGNED, normal_id
from pinnace_agent.llm.google.request import http_request
from pinnace_agent.llm.request import LlmRequest
from pinnace_spec.records.messages import (
    AssistantContent,
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    StopReason,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserContent,
)

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "data" / "google-generate-content-request.schema.json").read_text(encoding="utf-8")
)
OLD, NEW = "gemini-2.5-pro", "gemini-3.1-pro-preview"
SIGNATURE = "c2lnbmVk"
IMAGE: ImageContent = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
INLINE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
LEAD = {"text": "Attached image(s) from tool result:"}


def model_of(model_id: str = NEW, *, has_images: bool = True) -> Model:
    return served_model(
        id=model_id,
        api="google-generative-ai",
        provider="google",
        baseUrl="https://generativelanguage.example/v1beta",
        reasoning=True,
        input=["text", "image"] if has_images else ["text"],
        cost=prices(1, 2),
        contextWindow=1_000_000,
        maxTokens=65_536,
    )


def text(what: str, signature: str | None = None) -> TextContent:
    block: TextContent = {"type": "text", "text": what}
    if signature is not None:
        block["textSignature"] = signature
    return block


def thought(what: str, signature: str | None = None) -> AssistantContent:
    if signature is None:
        return {"type": "thinking", "thinking": what}
    return {"type": "thinking", "thinking": what, "thinkingSignature": signature}


def call(call_id: str = "c1", signature: str | None = None, name: str = "bash") -> AssistantContent:
    block: ToolCall = {"type": "toolCall", "id": call_id, "name": name, "arguments": {"command": "ls"}}
    if signature is not None:
        block["thoughtSignature"] = signature
    return block


def answer(*content: AssistantContent, model: str = NEW, api: str = "google-generative-ai") -> AssistantMessage:
    stop: StopReason = "toolUse" if any(block["type"] == "toolCall" for block in content) else "stop"
    return sample_answer(*content, api=api, provider="google", model=model, stopReason=stop)


def result(call_id: str, *content: UserContent | str, is_error: bool = False, name: str = "bash") -> ToolResultMessage:
    return tool_result(call_id, *content, is_error=is_error, name=name)


def contents(*messages: Message, model: Model | str = NEW) -> list[dict[str, Any]]:
    """Return what is sent; the request is as published."""
    asked = model_of(model) if isinstance(model, str) else model
    request = LlmRequest(asked, "", messages, (), "off", None, {}, "s1")
    body = json.loads(http_request(request).body)
    jsonschema.validate(body, SCHEMA)
    return cast("list[dict[str, Any]]", body["contents"])  # cast: the schema says so


def parts_of(*content: AssistantContent, model: str = NEW, by: str | None = None) -> Sequence[Mapping[str, object]]:
    """Return the parts of an answer of `by` as they are sent to `model`."""
    said = answer(*content, model=by or model)
    return cast("Sequence[Mapping[str, object]]", contents(user("hi"), said, model=model)[1]["parts"])


def results_of(*results: ToolResultMessage, model: Model | str = NEW) -> Sequence[Mapping[str, Any]]:
    """Return the contents behind the calls that these results belong to."""
    calls = [call(each["toolCallId"], name=each["toolName"]) for each in results]
    return contents(user("hi"), answer(*calls), *results, model=model)[2:]


# Users


def test_a_users_message_is_made_of_parts() -> None:
    assert contents({"role": "user", "content": "hi", "timestamp": 0}, user("a", IMAGE, "b")) == [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "user", "parts": [{"text": "a"}, INLINE, {"text": "b"}]},
    ]


def test_empty_texts_and_messages_are_left_out_and_blank_ones_kept() -> None:
    said = contents(user(), user(""), user("", IMAGE), user(" \n"), {"role": "user", "content": "", "timestamp": 0})

    assert said == [{"role": "user", "parts": [INLINE]}, {"role": "user", "parts": [{"text": " \n"}]}]


def test_a_model_without_images_gets_a_notice() -> None:
    assert contents(user(IMAGE), model=model_of(has_images=False)) == [
        {"role": "user", "parts": [{"text": "(image omitted: model does not support images)"}]}
    ]


# Answers


def test_the_same_model_gets_its_thoughts_and_signatures_back() -> None:
    content = (thought("hm", SIGNATURE), thought("no"), text("a", SIGNATURE), call("c1", SIGNATURE), call("c2"))

    assert parts_of(*content) == [
        {"thought": True, "text": "hm", "thoughtSignature": SIGNATURE},
        {"thought": True, "text": "no"},
        {"text": "a", "thoughtSignature": SIGNATURE},
        {
            "functionCall": {"id": "c1", "name": "bash", "args": {"command": "ls"}},
            "thoughtSignature": SIGNATURE,
        },
        {"functionCall": {"id": "c2", "name": "bash", "args": {"command": "ls"}}},
    ]


def test_another_model_gets_neither() -> None:
    content = (thought("hm", SIGNATURE), text("a", SIGNATURE), call("c1", SIGNATURE))

    assert parts_of(*content, model=OLD, by=NEW) == [
        {"text": "a"},
        {"functionCall": {"name": "bash", "args": {"command": "ls"}}},
    ]


@pytest.mark.parametrize(
    "signature", ["", "not base64!", "AAA", "A===", "reasoning_content", '{"v":1,"id":"x"}', "é" * 4, "AAAA\n"]
)
def test_a_signature_that_can_be_none_is_not_sent(signature: str) -> None:
    """The whole request would be refused."""
    content = (thought("hm", signature), text("a", signature), call("c1", signature))

    assert [list(part) for part in parts_of(*content, model=OLD)] == [["thought", "text"], ["text"], ["functionCall"]]


def test_an_empty_text_counts_only_for_its_signature() -> None:
    content = (thought("", SIGNATURE), thought("", "no!"), text("", SIGNATURE), text(""), text("", "no!"))

    assert parts_of(*content) == [
        {"thought": True, "text": "", "thoughtSignature": SIGNATURE},
        {"text": "", "thoughtSignature": SIGNATURE},
    ]


@pytest.mark.parametrize(
    ("model_id", "has_id"),
    [
        *((name, True) for name in (NEW, "gemini-flash-latest", "models/gemini-4-pro", "claude-opus-4-5")),
        *((name, True) for name in ("gpt-oss-120b", "openai/gpt-oss-20b")),
        *((name, False) for name in (OLD, "gemini-2.5-flash", "gemma-4-31b-it", "mine", "gemini-1.5-pro-latest")),
    ],
)
def test_calls_and_results_have_ids_where_the_model_takes_them(model_id: str, has_id: bool) -> None:
    said = contents(user("hi"), answer(call()), result("c1", "out"), model=model_id)

    assert said[1]["parts"][0]["functionCall"].get("id") == ("c1" if has_id else None)
    assert said[2]["parts"][0]["functionResponse"].get("id") == ("c1" if has_id else None)


def test_the_first_call_of_an_answer_is_marked_where_its_signature_is_missing() -> None:
    """Gemini 3 refuses a conversation with a call of another model otherwise."""
    first, text_part, second = parts_of(call("c1"), text("a"), call("c2"), by=OLD)

    assert first["thoughtSignature"] == UNSIGNED
    assert "thoughtSignature" not in second
    assert "thoughtSignature" not in text_part
    assert [part.get("thoughtSignature") for part in parts_of(call("c1", SIGNATURE), call("c2"))] == [SIGNATURE, None]
    assert "thoughtSignature" not in parts_of(call("c1"), model=OLD)[0]


def test_answers_without_anything_are_left_out_and_what_they_parted_is_joined() -> None:
    said = contents(user("a"), answer(text("b")), user(""), answer(), answer(text("c"), call()), result("c1", "out"))

    assert [content["role"] for content in said] == ["user", "model", "user"]
    assert [next(iter(part)) for part in said[1]["parts"]] == ["text", "text", "functionCall"]


def test_an_answer_that_failed_is_left_out() -> None:
    failed = answer(text("half"))
    failed["stopReason"] = "error"

    assert contents(user("a"), failed, user("b")) == contents(user("a"), user("b"))


def test_a_call_without_a_name_is_named() -> None:
    said = contents(user("a"), answer(call(name="")), result("c1", "no such tool", name=""))

    assert said[1]["parts"][0]["functionCall"]["name"] == said[2]["parts"][0]["functionResponse"]["name"] == "unnamed"


# Results


def test_the_results_of_an_answer_are_one_turn() -> None:
    said = results_of(result("c1", "a", "b"), result("c2", "no", is_error=True), result("c3", name="read"))

    assert said == [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "bash", "response": {"output": "a\nb"}, "id": "c1"}},
                {"functionResponse": {"name": "bash", "response": {"error": "no"}, "id": "c2"}},
                {"functionResponse": {"name": "read", "response": {"output": "(no tool output)"}, "id": "c3"}},
            ],
        }
    ]


def test_turns_of_results_are_not_mixed() -> None:
    roles = [
        content["role"]
        for content in contents(
            *(user("a"), answer(call("c1")), result("c1", "x"), answer(call("c2")), result("c2", "y"), user("b"))
        )
    ]

    assert roles == ["user", "model", "user", "model", "user", "user"]


def test_images_are_nested_where_the_model_takes_them() -> None:
    (turn,) = results_of(result("c1", "a", IMAGE), result("c2", IMAGE, IMAGE), result("c3", "no", IMAGE, is_error=True))
    both, alone, failed = turn["parts"]

    assert both["functionResponse"] == {"name": "bash", "response": {"output": "a"}, "id": "c1", "parts": [INLINE]}
    assert alone["functionResponse"]["response"] == {"output": "(see attached image)"}
    assert alone["functionResponse"]["parts"] == [INLINE, INLINE]
    assert failed["functionResponse"] == {"name": "bash", "response": {"error": "no"}, "id": "c3", "parts": [INLINE]}


def test_images_are_a_turn_of_their_own_elsewhere() -> None:
    responses, images = results_of(result("c1", "a", IMAGE), result("c2", IMAGE), result("c3", "b"), model=OLD)

    assert ["parts" in part["functionResponse"] for part in responses["parts"]] == [False] * 3
    assert images == {"role": "user", "parts": [LEAD, INLINE, INLINE]}


def test_a_call_without_a_result_gets_one_before_the_user_goes_on() -> None:
    said = contents(user("a"), answer(call("c1"), call("c2")), result("c2", "out"), user("b"))

    assert [part["functionResponse"]["response"] for part in said[2]["parts"]] == [
        {"error": "No result provided"},
        {"output": "out"},
    ]
    assert said[3] == {"role": "user", "parts": [{"text": "b"}]}


def test_odd_ids_of_other_apis_are_made_plain_and_stay_paired() -> None:
    odd = "call_" + "|+/=é" * 90
    said = contents(user("a"), answer(call(odd), api="openai-responses"), result(odd, "out"))
    call_id = said[1]["parts"][0]["functionCall"]["id"]

    assert said[2]["parts"][0]["functionResponse"]["id"] == call_id
    assert len(call_id) <= MAX_ID_CHARS


@given(st.text(max_size=600), st.text(max_size=600))
def test_ids_stay_different(one: str, other: str) -> None:
    long = "x" * (MAX_ID_CHARS + 1)
    assert (normal_id(long + one) == normal_id(long + other)) == (one == other)
    assert len(normal_id(one)) <= MAX_ID_CHARS
    assert normal_id(one) == normal_id(one)


def test_halves_of_characters_are_left_out_everywhere() -> None:
    half = "a\ud83d"
    block: AssistantContent = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {half: [half]}}
    said = contents(user(half), answer(thought(half), text(half), block), result("c1", half))

    assert "\\u" not in json.dumps(said)
    assert said[1]["parts"][2]["functionCall"]["args"] == {"a": ["a"]}
