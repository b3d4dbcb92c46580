"""What a chat completion asks: messages, thinking, limits, what single servers need."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import answer_of, served_model, text_block, tool_call, tool_result, user

from pinnace_agent.llm.openai_chat.compat import compat_of
from pinnace_agent.llm.openai_chat.messages import MAX_ID_CHARS, normal_id
from pinnace_agent.llm.openai_chat.request import http_request, request_body
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.request import Retention
from pinnace_spec.records.messages import (
    THINKING_LEVELS,
    AssistantContent,
    AssistantMessage,
    ImageContent,
    Message,
    Model,
    ThinkingLevel,
    ToolCall,
    UserContent,
    UserMessage,
)

SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "openai-completions-request.schema.json").read_text())
IMAGE: ImageContent = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
MODEL = served_model(baseUrl="http://127.0.0.1:8080/v1", input=["text", "image"])


def answer(*content: AssistantContent, model: Model = MODEL) -> AssistantMessage:
    return answer_of(model, *content)


def changed(model: Model = MODEL, /, **fields: object) -> Model:
    return cast("Model", {**model, **fields})


def with_compat(**compat: object) -> Model:
    return changed(compat=compat)


def request(
    *messages: Message,
    model: Model = MODEL,
    level: ThinkingLevel = "off",
    system_prompt: str = "",
    tools: Sequence[ToolSpec] = (),
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    session_id: str = "session-1",
) -> LlmRequest:
    return LlmRequest(model, system_prompt, messages, tools, level, api_key, headers or {}, session_id)


def body_of(asked: LlmRequest, cache: Retention = "short") -> dict[str, object]:
    """Return a body; one for OpenAI itself is held to the published shape."""
    body = cast("dict[str, object]", json.loads(json.dumps(request_body(asked, compat_of(asked.model), cache))))
    if asked.model["provider"] == "openai":
        jsonschema.Draft202012Validator(SCHEMA).validate(body)
    return body


def wire(*messages: Message, model: Model = MODEL, system: str = "") -> list[dict[str, object]]:
    body = body_of(request(*messages, model=model, system_prompt=system))
    return cast("list[dict[str, object]]", body["messages"])


# Messages


def test_the_system_prompt_is_the_first_message() -> None:
    assert wire(user(text_block("hi")), system="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]


def test_a_thinking_models_system_prompt_is_the_developers_where_that_is_known() -> None:
    thinking = changed(reasoning=True)

    assert wire(model=thinking, system="x")[0]["role"] == "developer"
    assert wire(model=changed(thinking, compat={"supportsDeveloperRole": False}), system="x")[0]["role"] == "system"
    assert wire(model=changed(thinking, provider="deepseek"), system="x")[0]["role"] == "system"


def test_a_text_is_a_part_alone_and_beside_an_image() -> None:
    assert wire(user(text_block("a")), user(text_block("a"), IMAGE)) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE_PART]},
    ]


def test_an_image_with_an_empty_text_is_sent_without_a_text_part() -> None:
    assert wire(user(text_block(""), IMAGE)) == [{"role": "user", "content": [IMAGE_PART]}]


def test_an_image_with_an_empty_text_for_a_model_without_eyes_is_a_notice() -> None:
    notice = "(image omitted: model does not support images)"

    assert wire(user(text_block(""), IMAGE), model=changed(input=["text"])) == [
        {"role": "user", "content": [{"type": "text", "text": notice}]}
    ]


def test_an_empty_message_is_not_sent_and_a_blank_one_is() -> None:
    old: UserMessage = {"role": "user", "content": "", "timestamp": 0}

    assert wire(user(), user(text_block("")), old, user(text_block(" "))) == [
        {"role": "user", "content": [{"type": "text", "text": " "}]}
    ]


def test_an_answer_is_one_string_with_its_calls() -> None:
    messages = wire(
        answer(text_block("a"), text_block("b"), tool_call("c1", path="é", n=1)), tool_result("c1", text_block("ok"))
    )

    function = {"name": "read", "arguments": '{"path":"é","n":1}'}
    assert messages == [
        {
            "role": "assistant",
            "content": "ab",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "ok", "tool_call_id": "c1"},
    ]


@pytest.mark.parametrize(
    ("compat", "content"),
    [({}, None), ({"requiresNonNullAssistantContent": True}, ""), ({"requiresAssistantAfterToolResult": True}, "")],
)
def test_calls_without_text_have_the_content_that_the_server_takes(
    compat: Mapping[str, object], content: str | None
) -> None:
    assert wire(answer(text_block(" \n"), tool_call("c1")), model=with_compat(**compat))[0]["content"] == content


def test_an_answer_that_says_nothing_is_not_sent() -> None:
    thought: AssistantContent = {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning"}

    assert wire(answer(), answer(text_block(" ")), answer(thought)) == []


def test_a_call_that_had_no_name_is_sent_with_one() -> None:
    """The server would refuse the whole conversation ever after."""
    nameless: ToolCall = {"type": "toolCall", "id": "c1", "name": "", "arguments": {}}
    messages = wire(
        answer(nameless),
        {**tool_result("c1", text_block("?")), "toolName": ""},
        model=with_compat(requiresToolResultName=True),
    )

    (sent,) = cast("list[dict[str, dict[str, str]]]", messages[0]["tool_calls"])
    assert sent["function"]["name"] == messages[1]["name"] != ""


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thoughts_go_back_into_the_field_they_came_in(field: str) -> None:
    thoughts: list[AssistantContent] = [
        {"type": "thinking", "thinking": "one", "thinkingSignature": field},
        {"type": "thinking", "thinking": "two", "thinkingSignature": field},
        {"type": "thinking", "thinking": "unsigned"},
    ]

    assert wire(answer(*thoughts, text_block("a"))) == [{"role": "assistant", "content": "a", field: "one\ntwo"}]


def test_thoughts_of_another_model_are_not_sent() -> None:
    thought: AssistantContent = {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning"}

    assert wire(answer(thought, text_block("a"), model=changed(id="other"))) == [{"role": "assistant", "content": "a"}]


def test_thoughts_are_a_text_part_where_the_server_needs_that() -> None:
    thought: AssistantContent = {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning"}

    parts = [{"type": "text", "text": "hm"}, {"type": "text", "text": "a"}]
    assert wire(answer(thought, text_block("a")), model=with_compat(requiresThinkingAsText=True)) == [
        {"role": "assistant", "content": parts}
    ]


def test_deepseek_gets_thoughts_on_every_answer_if_only_empty_ones() -> None:
    deepseek = changed(provider="deepseek")

    assert wire(answer(text_block("a"), model=deepseek), model=deepseek)[0]["reasoning_content"] == ""


def test_the_gateways_record_of_thoughts_goes_back_as_it_came() -> None:
    detail = {"type": "reasoning.encrypted", "id": "c1", "data": "x"}
    signed: ToolCall = {**tool_call("c1"), "thoughtSignature": json.dumps(detail)}
    opaque: ToolCall = {**tool_call("c2"), "thoughtSignature": "not json"}
    broken: ToolCall = {**tool_call("c3"), "thoughtSignature": "{broken"}

    assert wire(answer(signed, opaque, broken))[0]["reasoning_details"] == [detail]
    assert "reasoning_details" not in wire(answer(opaque))[0]


def test_the_routers_record_of_thoughts_goes_back_as_it_came() -> None:
    details = [{"type": "reasoning.text", "text": "hm", "signature": "sig"}, {"type": "reasoning.encrypted"}]
    thought: AssistantContent = {"type": "thinking", "thinking": "hm", "thinkingSignature": json.dumps(details)}
    beside = {"type": "reasoning.encrypted", "id": "c1", "data": "x"}
    signed: ToolCall = {**tool_call("c1"), "thoughtSignature": json.dumps(beside)}

    assert wire(answer(thought, text_block("a")))[0] == {
        "role": "assistant",
        "content": "a",
        "reasoning_details": details,
    }
    assert wire(answer(thought, signed))[0]["reasoning_details"] == [*details, beside]


@pytest.mark.parametrize("signature", ["[broken", "[]", "[1, null]", "[\ud800"])
def test_a_record_that_is_none_is_not_sent(signature: str) -> None:
    thought: AssistantContent = {"type": "thinking", "thinking": "hm", "thinkingSignature": signature}

    assert wire(answer(thought, text_block("a")))[0] == {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ([text_block("a"), text_block("b")], "a\nb"),
        ([], "(no tool output)"),
        ([text_block(" \n")], "(no tool output)"),
        ([IMAGE], "(see attached image)"),
        ([text_block(""), IMAGE], "(see attached image)"),
        ([text_block("a"), IMAGE], "a"),
    ],
)
def test_a_result_is_always_some_text(content: list[UserContent], sent: str) -> None:
    assert wire(answer(tool_call("c1")), tool_result("c1", *content))[1]["content"] == sent


def test_images_of_a_row_of_results_follow_in_one_message() -> None:
    messages = wire(
        answer(tool_call("c1"), tool_call("c2")),
        tool_result("c1", text_block("a"), IMAGE),
        tool_result("c2", IMAGE),
        user(text_block("so?")),
        answer(tool_call("c3")),
        tool_result("c3", IMAGE),
    )

    images = [{"type": "text", "text": "Attached image(s) from tool result:"}, IMAGE_PART]
    assert [message["role"] for message in messages] == [
        *("assistant", "tool", "tool", "user", "user"),
        *("assistant", "tool", "user"),
    ]
    assert messages[3]["content"] == [*images, IMAGE_PART]
    assert messages[-1]["content"] == images


def test_some_servers_need_an_answer_between_results_and_the_user() -> None:
    bridged = with_compat(requiresAssistantAfterToolResult=True)

    def roles(*messages: Message) -> list[object]:
        return [
            message["role"]
            for message in wire(answer(tool_call("c1")), tool_result("c1", *images), *messages, model=bridged)
        ]

    images: list[UserContent] = []
    assert roles(user(text_block("a"))) == ["assistant", "tool", "assistant", "user"]
    assert roles(answer(text_block("a"))) == ["assistant", "tool", "assistant"]
    assert roles() == ["assistant", "tool"]
    images = [IMAGE]
    assert roles() == ["assistant", "tool", "assistant", "user"]
    assert roles(answer(text_block("a"))) == ["assistant", "tool", "assistant", "user", "assistant"]


def test_some_servers_need_the_name_of_the_tool_on_its_result() -> None:
    assert (
        wire(answer(tool_call("c1")), tool_result("c1"), model=with_compat(requiresToolResultName=True))[1]["name"]
        == "read"
    )
    assert "name" not in wire(answer(tool_call("c1")), tool_result("c1"))[1]


@given(st.text(st.sampled_from("abc|+/=é_-9"), max_size=450))
def test_ids_of_other_apis_are_made_acceptable(call_id: str) -> None:
    plain = normal_id(call_id)

    assert len(plain) <= MAX_ID_CHARS
    assert set(plain) <= set("abc_-0123456789def")
    assert normal_id(plain) == plain


def test_long_ids_that_begin_alike_stay_different() -> None:
    ids = [f"call_{'x' * 400}|{ending}" for ending in "ab"]

    assert len({normal_id(each) for each in ids}) == 2
    first, second = wire(answer(*map(tool_call, ids), model=changed(api="another")))[1:]
    assert first["tool_call_id"] == normal_id(ids[0]) != second["tool_call_id"] == normal_id(ids[1])


def test_no_half_of_a_character_is_sent_from_any_slot() -> None:
    half = "x\ud83dy"
    asked = request(
        user(text_block(half)),
        answer(
            {"type": "thinking", "thinking": half, "thinkingSignature": "reasoning"},
            text_block(half + "\U0001f600"),
            {"type": "toolCall", "id": "c1", "name": "read", "arguments": {half: [half]}},
        ),
        tool_result("c1", text_block(half)),
        {
            "role": "bashExecution",
            "command": half,
            "output": half,
            "cancelled": False,
            "truncated": False,
            "timestamp": 0,
        },
        {"role": "compactionSummary", "summary": half, "tokensBefore": 0, "timestamp": 0},
        system_prompt=half,
        tools=[ToolSpec("read", half, {"description": half})],
    )
    sent = http_request(asked, compat_of(MODEL)).body

    body = json.loads(sent)
    assert b"\\ud83dy" not in sent
    assert "\ufffd" not in json.dumps(body, ensure_ascii=False)
    assert body["messages"][0]["content"] == "xy"
    assert body["messages"][2]["content"] == "xy\U0001f600"
    assert json.loads(body["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {"xy": ["xy"]}


# The rest of the body


def test_the_smallest_body_has_nothing_that_only_some_servers_take() -> None:
    minimal = with_compat(supportsStore=False, supportsUsageInStreaming=False, maxTokensField="max_tokens")

    assert body_of(request(user(text_block("hi")), model=minimal)) == {
        "model": "m1",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
        "max_tokens": 4_000,
    }


def test_an_unknown_host_is_taken_for_openais_equal() -> None:
    body = body_of(request(user(text_block("hi"))))

    assert body["stream_options"] == {"include_usage": True}
    assert body["store"] is False
    assert body["max_completion_tokens"] == 4_000
    assert "prompt_cache_key" not in body


def test_tools_are_functions() -> None:
    plain = body_of(request(tools=[TOOL]))
    strict = body_of(request(tools=[TOOL], model=with_compat(supportsStrictMode=True)))

    function = {"name": "read", "description": "Reads.", "parameters": TOOL.parameters}
    assert plain["tools"] == [{"type": "function", "function": function}]
    assert strict["tools"] == [{"type": "function", "function": {**function, "strict": False}}]


def test_without_tools_there_is_no_list_of_them_unless_the_server_needs_one() -> None:
    history = (answer(tool_call("c1")), tool_result("c1"))
    needy = with_compat(requiresToolsWithToolHistory=True)

    assert "tools" not in body_of(request(*history))
    assert body_of(request(*history, model=needy))["tools"] == []
    assert "tools" not in body_of(request(user(text_block("a")), model=needy))


def test_the_users_sampling_parameters_come_last_and_by_level() -> None:
    model = changed(
        samplingParams={"temperature": 0.1, "stream_options": None, "top_p": 1},
        samplingParamsByThinkingLevel={"off": {"temperature": 0.9}, "high": {"temperature": 0}},
    )
    body = body_of(request(model=model))

    assert (body["temperature"], body["top_p"], body["stream_options"]) == (0.9, 1, None)
    assert body_of(request(model=model, level="low"))["temperature"] == 0.1


def test_vendors_fields_have_their_names_in_the_body() -> None:
    compat = {
        "openRouterRouting": {"only": ["a"]},
        "vercelGatewayRouting": {"order": ["b"]},
        "vllmPriority": 0,
        "zaiToolStream": True,
    }
    body = body_of(request(model=with_compat(**compat)))

    assert body["provider"] == {"only": ["a"]}
    assert body["providerOptions"] == {"gateway": {"order": ["b"]}}
    assert (body["priority"], body["tool_stream"]) == (0, True)
    assert not {"provider", "providerOptions", "priority", "tool_stream"} & body_of(request()).keys()


OFFICIAL = changed(provider="openai", baseUrl="https://api.openai.com/v1")


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("level", THINKING_LEVELS)
@pytest.mark.parametrize("cache", ["none", "short", "long"])
def test_what_openai_itself_is_sent_has_the_published_shape(
    cache: Retention, level: ThinkingLevel, thinks: bool
) -> None:
    model = changed(OFFICIAL, reasoning=thinks, samplingParams={"temperature": 1})
    asked = request(
        user(text_block("a"), IMAGE),
        answer(text_block("b"), tool_call("c" * 60), tool_call("call_1|fc_1"), model=MODEL),
        tool_result("c" * 60, text_block(" "), IMAGE),
        tool_result("call_1|fc_1", text_block("ok")),
        user(text_block("c")),
        answer(tool_call("x"), model=model),
        model=model,
        level=level,
        system_prompt="s",
        tools=[TOOL],
    )

    assert body_of(asked, cache)["model"] == "m1"


def test_the_published_shape_refuses_what_it_does_not_know() -> None:
    body = body_of(request(user(text_block("a")), model=OFFICIAL))

    wrongs: list[dict[str, object]] = [{"provider": {}}, {"tools": []}, {"messages": [{"role": "assistant"}]}]
    for wrong in wrongs:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate({**body, **wrong})


@pytest.mark.parametrize(
    ("model", "cache", "key", "retention"),
    [
        (MODEL, "short", None, None),
        (MODEL, "none", None, None),
        (MODEL, "long", "session-1", "24h"),
        (with_compat(supportsLongCacheRetention=False), "long", None, None),
        (changed(provider="together"), "long", None, None),
        (changed(provider="together", compat={"supportsLongCacheRetention": True}), "long", "session-1", "24h"),
        (with_compat(promptCacheKeyMode="enabled"), "short", "session-1", None),
        (with_compat(promptCacheKeyMode="disabled"), "long", None, None),
        (OFFICIAL, "short", "session-1", None),
        (OFFICIAL, "long", "session-1", "24h"),
        (OFFICIAL, "none", None, None),
    ],
)
def test_the_session_names_the_cache_where_that_helps(
    model: Model, cache: Retention, key: str | None, retention: str | None
) -> None:
    body = body_of(request(model=model), cache)

    assert (body.get("prompt_cache_key"), body.get("prompt_cache_retention")) == (key, retention)


def test_the_cache_key_is_as_long_as_is_taken() -> None:
    body = body_of(request(model=OFFICIAL, session_id="s" * 100))

    assert body["prompt_cache_key"] == "s" * 64


CLAUDE = changed(provider="openrouter", id="anthropic/claude")


@pytest.mark.parametrize(
    ("cache", "marker"),
    [("short", {"type": "ephemeral"}), ("long", {"type": "ephemeral", "ttl": "1h"}), ("none", None)],
)
def test_models_behind_a_router_get_a_mark_where_the_cached_beginning_ends(
    cache: Retention, marker: dict[str, str] | None
) -> None:
    asked = request(
        user(text_block("a")), user(text_block("b"), IMAGE), model=CLAUDE, system_prompt="s", tools=[TOOL, TOOL]
    )
    body = body_of(asked, cache)

    messages = cast("list[dict[str, object]]", body["messages"])
    tools = cast("list[dict[str, object]]", body["tools"])
    if marker is None:
        assert "cache_control" not in json.dumps(body)
        return
    assert messages[0]["content"] == [{"type": "text", "text": "s", "cache_control": marker}]
    assert messages[1]["content"] == [{"type": "text", "text": "a"}]
    assert messages[2]["content"] == [{"type": "text", "text": "b", "cache_control": marker}, IMAGE_PART]
    assert [tool.get("cache_control") for tool in tools] == [None, marker]


def test_the_end_of_the_request_before_is_marked_too() -> None:
    asked = request(user("a"), answer_of(CLAUDE, text_block("b")), user("c"), model=CLAUDE)
    messages = cast("list[dict[str, object]]", body_of(asked, "short")["messages"])

    assert ["cache_control" in json.dumps(message) for message in messages] == [True, False, True]


def test_other_models_get_no_marks_unless_configured() -> None:
    asked = request(user(text_block("a")), model=changed(CLAUDE, id="other/model"))
    configured = request(user(text_block("a")), model=with_compat(cacheControlFormat="anthropic"))

    assert "cache_control" not in json.dumps(body_of(asked))
    assert "cache_control" in json.dumps(body_of(configured))


# Headers

OPENAI_AFFINITY = ["session_id", "x-client-request-id", "x-session-affinity"]


def headers_of(asked: LlmRequest) -> dict[str, str]:
    return dict(http_request(asked, compat_of(asked.model)).headers)


def test_the_address_is_below_the_base() -> None:
    for base in ("http://h/v1", "http://h/v1/", "http://h/v1//"):
        assert (
            http_request(request(model=changed(baseUrl=base)), compat_of(MODEL)).url == "http://h/v1/chat/completions"
        )


def test_the_key_is_a_bearers_and_without_one_there_is_none() -> None:
    assert headers_of(request(api_key="k"))["Authorization"] == "Bearer k"
    assert "Authorization" not in headers_of(request())
    assert "Authorization" not in headers_of(request(api_key=""))


def test_configured_headers_win_however_they_are_written() -> None:
    headers = headers_of(request(api_key="k", headers={"authorization": "Token t", "X-Team": "a", "content-type": "x"}))

    assert headers == {"authorization": "Token t", "X-Team": "a", "content-type": "x"}


@pytest.mark.parametrize(
    ("compat", "names"),
    [
        ({}, []),
        ({"sendSessionAffinityHeaders": True}, OPENAI_AFFINITY),
        (
            {"sendSessionAffinityHeaders": True, "sessionAffinityFormat": "openai-nosession"},
            ["x-client-request-id", "x-session-affinity"],
        ),
        ({"sendSessionAffinityHeaders": True, "sessionAffinityFormat": "openrouter"}, ["x-session-id"]),
        ({"sendSessionAffinityHeaders": True, "sessionAffinityFormat": "unknown"}, OPENAI_AFFINITY),
    ],
)
def test_a_gateway_gets_the_session_id_if_its_flag_asks_for_it(compat: dict[str, object], names: list[str]) -> None:
    headers = headers_of(request(model=with_compat(**compat)))

    assert sorted(name for name, value in headers.items() if value == "session-1") == names


def test_without_a_session_no_header_is_empty() -> None:
    asked = request(model=with_compat(sendSessionAffinityHeaders=True), session_id="")

    assert headers_of(asked) == {"Content-Type": "application/json"}


def test_the_router_always_gets_the_session_id() -> None:
    assert headers_of(request(model=changed(provider="openrouter")))["x-session-id"] == "session-1"
    off = changed(provider="openrouter", compat={"sendSessionAffinityHeaders": False})
    assert "x-session-id" not in headers_of(request(model=off))
