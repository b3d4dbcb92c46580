"""What Anthropic's messages API is asked: headers, tools, thinking, limits, cache marks.

Every body is held to the published shape.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from tests.agent.llm.prompt_cache import PromptCache
from tests.agent.samples import answer_of, served_model, tool_call, tool_result

from pinnace_agent.llm.anthropic.compat import compat_of
from pinnace_agent.llm.anthropic.request import http_request, tool_names
from pinnace_agent.llm.anthropic.thinking import DEFAULT_MAX_TOKENS
from pinnace_agent.llm.anthropic.tool_names import MAX_NAME_CHARS, ToolNames
from pinnace_agent.llm.request import THINKING_BUDGETS, LlmRequest, ToolSpec
from pinnace_spec.records.messages import (
    THINKING_LEVELS,
    AssistantMessage,
    Message,
    Model,
    ThinkingLevel,
    UserMessage,
    zero_usage,
)

SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "anthropic-messages-request.schema.json").read_bytes())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
KEY = "sk-ant-api03-0123456789"
LOGIN = "sk-ant-oat01-0123456789"
IDENTITY = {"type": "text", "text": "You are Claude Code, Anthropic's official CLI for Claude."}
PROMPT = {"type": "text", "text": "Be brief."}
FIVE_MINUTES = {"type": "ephemeral"}
READ = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
BASH = ToolSpec("bash", "Runs.", {"type": "object", "properties": {}, "required": ["command"]})
QUESTION: UserMessage = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0}
MODEL = served_model(
    api="anthropic-messages",
    provider="anthropic",
    baseUrl="http://127.0.0.1:8080",
    input=["text", "image"],
    contextWindow=200_000,
    maxTokens=64_000,
)


@pytest.fixture(autouse=True)
def no_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PI_CACHE_RETENTION", raising=False)


def changed(model: Model = MODEL, /, **fields: object) -> Model:
    return cast("Model", {**model, **fields})


def thinking_model(**compat: object) -> Model:
    return changed(reasoning=True, compat=compat)


def request(
    *messages: Message,
    model: Model = MODEL,
    level: ThinkingLevel = "off",
    tools: Sequence[ToolSpec] = (),
    key: str | None = KEY,
    headers: Mapping[str, str] | None = None,
    system: str = "Be brief.",
    **more: Any,
) -> LlmRequest:
    return LlmRequest(model, system, messages or (QUESTION,), tools, level, key, headers or {}, "session-1", **more)


def body_of(asked: LlmRequest) -> dict[str, Any]:
    """Return a body that is as published."""
    body = json.loads(http_request(asked, compat_of(asked.model)).body)
    VALIDATOR.validate(body)
    return cast("dict[str, Any]", body)


def headers_of(asked: LlmRequest) -> dict[str, str]:
    headers = http_request(asked, compat_of(asked.model)).headers
    names = [name.lower() for name in headers]
    assert len(names) == len(set(names))
    return {name.lower(): value for name, value in headers.items()}


def betas(asked: LlmRequest) -> list[str]:
    return headers_of(asked).get("anthropic-beta", "").split(",")


# Address and headers


@pytest.mark.parametrize("base_url", ["http://h/anthropic", "http://h/anthropic/"])
def test_the_address_is_below_the_base(base_url: str) -> None:
    asked = request(model=changed(baseUrl=base_url))

    assert http_request(asked, compat_of(asked.model)).url == "http://h/anthropic/v1/messages"


def test_a_request_says_its_version_and_its_key() -> None:
    assert headers_of(request()) == {
        "content-type": "application/json",
        "accept": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": KEY,
    }


def test_without_a_key_none_is_sent() -> None:
    assert not {"x-api-key", "authorization"} & headers_of(request(key=None)).keys()


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
def test_a_configured_token_is_sent_in_the_place_of_the_key(name: str) -> None:
    headers = headers_of(request(headers={name: "Bearer other"}))

    assert headers["authorization"] == "Bearer other"
    assert "x-api-key" not in headers


def test_a_configured_key_is_sent_in_the_place_of_a_token() -> None:
    headers = headers_of(request(key=LOGIN, headers={"X-Api-Key": "other"}))

    assert headers["x-api-key"] == "other"
    assert "authorization" not in headers


def test_copilot_gets_its_token_as_a_token() -> None:
    headers = headers_of(request(model=changed(provider="github-copilot"), key="ghu_1"))

    assert headers["authorization"] == "Bearer ghu_1"
    assert "x-api-key" not in headers


def test_configured_headers_win_but_betas_are_added() -> None:
    headers = headers_of(
        request(
            key=LOGIN,
            headers={
                "Anthropic-Version": "2099-01-01",
                "X-Team": "blue",
                "Anthropic-Beta": "one, oauth-2025-04-20,two",
            },
        )
    )

    assert (headers["anthropic-version"], headers["x-team"]) == ("2099-01-01", "blue")
    assert headers["anthropic-beta"] == "claude-code-20250219,oauth-2025-04-20,one,two"


def test_the_session_is_named_where_that_helps_unless_nothing_is_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(model=changed(compat={"sendSessionAffinityHeaders": True}))

    assert headers_of(asked)["x-session-affinity"] == "session-1"
    assert "x-session-affinity" not in headers_of(request())
    monkeypatch.setenv("PI_CACHE_RETENTION", "none")
    assert "x-session-affinity" not in headers_of(asked)


# A login of Claude Code


@pytest.mark.parametrize(
    "asked",
    [request(key=LOGIN), request(key=KEY, headers={"Authorization": f"Bearer {LOGIN}"})],
    ids=["as key", "as configured token"],
)
def test_a_login_is_a_token_with_its_betas_and_says_who_it_is_for(asked: LlmRequest) -> None:
    headers = headers_of(asked)

    assert headers["authorization"] == f"Bearer {LOGIN}"
    assert "x-api-key" not in headers
    assert betas(asked) == ["claude-code-20250219", "oauth-2025-04-20"]
    assert body_of(asked)["system"] == [IDENTITY, {**PROMPT, "cache_control": FIVE_MINUTES}]


def test_a_login_without_a_system_prompt_still_says_who_it_is_for() -> None:
    assert body_of(request(key=LOGIN, system=" "))["system"] == [{**IDENTITY, "cache_control": FIVE_MINUTES}]


def test_under_a_login_tools_are_called_as_claude_code_calls_them_here_and_in_the_history() -> None:
    find = ToolSpec("find", "Finds.", {})
    answer = answer_of(MODEL, tool_call("c1", "todowrite"), stopReason="toolUse")
    result = tool_result("c1", name="todowrite")
    asked = request(QUESTION, answer, result, key=LOGIN, tools=(READ, BASH, find))
    body = body_of(asked)

    assert [tool["name"] for tool in body["tools"]] == ["Read", "Bash", "find"]
    assert body["messages"][1]["content"][0]["name"] == "TodoWrite"
    names = tool_names(asked)
    assert [names.own(name) for name in ("Read", "Bash", "find", "READ", "Other")] == [
        *("read", "bash", "find", "read", "Other")
    ]


def test_without_a_login_names_stay_as_they_are() -> None:
    names = ToolNames(["read", "Bash"])

    assert [names.sent(name) for name in ("read", "Bash", "write")] == ["read", "Bash", "write"]
    assert [names.own(name) for name in ("read", "Bash", "READ")] == ["read", "Bash", "READ"]


@pytest.mark.parametrize("is_login", [False, True])
def test_names_that_become_the_same_are_sent_apart_and_come_back_as_they_were(is_login: bool) -> None:
    own = ["read", "Read", "a.b", "a_b", "a b", "", "x" * 300, "x" * 301, "é" * 200]
    names = ToolNames(own, is_login=is_login)
    sent = [names.sent(name) for name in own]

    assert len(set(sent)) == len(own)
    assert all(len(name) <= MAX_NAME_CHARS for name in sent)
    assert [names.own(name) for name in sent] == own
    body_of(request(tools=[READ._replace(name=name) for name in own], key=LOGIN if is_login else KEY))


# Tools


def test_a_tool_is_sent_with_its_schema_and_streams_its_arguments_at_once() -> None:
    first, second = body_of(request(tools=(READ, BASH)))["tools"]

    assert first == {
        "name": "read",
        "description": "Reads.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": []},
        "eager_input_streaming": True,
    }
    assert second["input_schema"] == {"type": "object", "properties": {}, "required": ["command"]}


def test_without_tools_none_are_sent() -> None:
    assert "tools" not in body_of(request())


def test_what_else_a_schema_says_is_kept_but_for_alternatives_at_its_top() -> None:
    schema = {
        "$defs": {"word": {"type": "string"}},
        "properties": {"word": {"$ref": "#/$defs/word"}},
        "additionalProperties": False,
        "anyOf": [{"required": ["word"]}],
    }
    (tool,) = body_of(request(tools=(ToolSpec("t", "", schema),)))["tools"]

    expected = {name: value for name, value in schema.items() if name != "anyOf"}
    assert tool["input_schema"] == {"type": "object", "required": [], **expected}


def test_a_server_that_does_not_know_the_field_is_asked_by_a_beta_to_stream_arguments() -> None:
    model = changed(compat={"supportsEagerToolInputStreaming": False})
    asked = request(model=model, tools=(READ,))

    assert "eager_input_streaming" not in body_of(asked)["tools"][0]
    assert betas(asked) == ["fine-grained-tool-streaming-2025-05-14"]
    assert betas(request(model=model)) == [""]


# Cache marks


def marks(asked: LlmRequest) -> list[Any]:
    """Return the marks of system prompt, tools, and each message's blocks."""
    body = body_of(asked)
    blocks = [*body["system"], *body["tools"], *(block for each in body["messages"] for block in each["content"])]
    return [block.get("cache_control") for block in blocks]


LONG_QUESTION: UserMessage = {
    "role": "user",
    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    "timestamp": 0,
}


@pytest.mark.parametrize(
    ("retention", "compat", "mark", "tool_mark"),
    [
        ("", {}, FIVE_MINUTES, FIVE_MINUTES),
        ("short", {}, FIVE_MINUTES, FIVE_MINUTES),
        ("long", {}, {**FIVE_MINUTES, "ttl": "1h"}, {**FIVE_MINUTES, "ttl": "1h"}),
        ("long", {"supportsLongCacheRetention": False}, FIVE_MINUTES, FIVE_MINUTES),
        ("short", {"supportsCacheControlOnTools": False}, FIVE_MINUTES, None),
        ("none", {}, None, None),
    ],
)
def test_the_ends_of_what_stays_are_marked(
    retention: str, compat: Mapping[str, object], mark: object, tool_mark: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CACHE_RETENTION", retention)
    asked = request(QUESTION, LONG_QUESTION, tools=(READ, BASH), model=changed(compat=compat))

    assert marks(asked) == [mark, None, tool_mark, None, None, mark]


def test_the_mark_is_on_the_last_message_of_the_user_also_when_an_answer_follows() -> None:
    prefix: AssistantMessage = {
        "role": "assistant",
        "content": [{"type": "text", "text": "so"}],
        "api": MODEL["api"],
        "provider": MODEL["provider"],
        "model": MODEL["id"],
        "usage": zero_usage(),
        "stopReason": "stop",
        "timestamp": 0,
    }
    asked = request(QUESTION, prefix, tools=(READ,))

    assert marks(asked) == [FIVE_MINUTES, FIVE_MINUTES, FIVE_MINUTES, None]


def test_a_message_that_is_a_string_becomes_a_block_to_be_marked() -> None:
    (message,) = body_of(request({"role": "user", "content": "hi", "timestamp": 0}))["messages"]

    assert message["content"] == [{"type": "text", "text": "hi", "cache_control": FIVE_MINUTES}]


def test_never_more_than_the_four_marks_that_are_taken() -> None:
    body = json.dumps(body_of(request(*with_calls(2), LONG_QUESTION, tools=(READ, BASH), key=LOGIN)))

    assert body.count("cache_control") == 4


def with_calls(count: int) -> list[Message]:
    """Return a question, an answer with so many calls, and their results."""
    ids = [f"toolu_{number}" for number in range(count)]
    answer = answer_of(MODEL, *(tool_call(each, path="a") for each in ids), stopReason="toolUse")
    return [
        {"role": "user", "content": "word " * 2_000, "timestamp": 0},
        answer,
        *(tool_result(each, "b") for each in ids),
    ]


@pytest.mark.parametrize("count", [1, 9, 10, 11, 40])
def test_what_a_request_has_kept_is_found_by_the_next_one_however_many_calls_are_between(count: int) -> None:
    """A mark looks for it at twenty blocks before its own."""
    cache = PromptCache()
    question, *rest = with_calls(count)
    first = cache.bill(body_of(request(question, tools=(READ,))), 0)
    second = cache.bill(body_of(request(question, *rest, tools=(READ,))), 1)
    third = cache.bill(body_of(request(question, *rest, QUESTION, tools=(READ,))), 2)

    assert [first.read, second.read, third.read] == [0, first.tokens, second.tokens]


def test_a_message_behind_another_one_does_not_hide_where_the_request_before_has_ended() -> None:
    """As a message that steers, behind the results of calls."""
    question, *rest = with_calls(1)
    asked = request(question, *rest, QUESTION, tools=(READ,))

    assert [mark is not None for mark in marks(asked)] == [True, True, True, False, False, True]


# Thinking and limits


def thinking(level: ThinkingLevel, model: Model, **more: Any) -> tuple[object, object, object]:
    """Return what is said of thinking, effort and limit."""
    body = body_of(request(model=model, level=level, **more))
    return body.get("thinking"), body.get("output_config"), body["max_tokens"]


def test_a_model_that_does_not_think_gets_no_thinking_options() -> None:
    assert thinking("high", MODEL) == (None, None, 64_000)


def test_thinking_is_switched_off_unless_the_model_always_does() -> None:
    assert thinking("off", thinking_model()) == ({"type": "disabled"}, None, 64_000)
    for word, said in (("none", {"type": "disabled"}), (None, None)):
        model = changed(thinking_model(forceAdaptiveThinking=True), thinkingLevelMap={"off": word})
        assert thinking("off", model) == (said, None, 64_000)


@pytest.mark.parametrize(
    ("level", "budget"),
    [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16_384), ("xhigh", 16_384), ("max", 16_384)],
)
def test_a_budget_comes_on_top_of_what_was_asked_for(level: ThinkingLevel, budget: int) -> None:
    said = thinking(level, thinking_model(), max_tokens=5_000)

    assert said == ({"type": "enabled", "budget_tokens": budget}, None, 5_000 + budget)


@pytest.mark.parametrize(
    ("most", "budget"), [(64_000, 16_384), (20_000, 16_384), (10_000, 10_000 - 1024), (2_048, 1024)]
)
def test_a_budget_leaves_room_for_the_answer(most: int, budget: int) -> None:
    assert thinking("high", changed(thinking_model(), maxTokens=most)) == (
        {"type": "enabled", "budget_tokens": budget},
        None,
        most,
    )


def test_without_room_to_think_there_is_no_thinking() -> None:
    assert thinking("high", changed(thinking_model(), maxTokens=2_047)) == ({"type": "disabled"}, None, 2_047)


def test_a_budget_that_the_user_chose_counts_but_none_below_what_is_taken() -> None:
    def budget(tokens: int) -> object:
        budgets = {**THINKING_BUDGETS, "low": tokens}
        said, _, _ = thinking("low", thinking_model(), thinking_budgets=budgets)
        return cast("dict[str, object]", said)["budget_tokens"]

    assert (budget(5_000), budget(10)) == (5_000, 1024)


def test_thoughts_between_calls_are_asked_for_with_a_budget() -> None:
    beta = "interleaved-thinking-2025-05-14"

    assert betas(request(model=thinking_model(), level="low")) == [beta]
    for asked in (
        request(model=thinking_model()),
        request(level="low"),
        request(model=thinking_model(forceAdaptiveThinking=True), level="low"),
    ):
        assert betas(asked) == [""]


@pytest.mark.parametrize(
    ("level", "names", "effort"),
    [
        ("minimal", {}, "low"),
        ("low", {}, "low"),
        ("medium", {}, "medium"),
        ("high", {}, "high"),
        ("xhigh", {}, "high"),
        ("xhigh", {"xhigh": "xhigh"}, "xhigh"),
        ("max", {"max": "max"}, "max"),
        ("medium", {"medium": "high"}, "high"),
        ("low", {"low": None}, "low"),
    ],
)
def test_an_adaptive_model_gets_an_effort(level: ThinkingLevel, names: Mapping[str, object], effort: str) -> None:
    model = changed(thinking_model(forceAdaptiveThinking=True), thinkingLevelMap=names)

    assert thinking(level, model) == ({"type": "adaptive", "display": "summarized"}, {"effort": effort}, 64_000)


@pytest.mark.parametrize("level", THINKING_LEVELS)
@pytest.mark.parametrize("compat", [{}, {"forceAdaptiveThinking": True}])
@pytest.mark.parametrize(("most", "window"), [(64_000, 200_000), (1, 0), (0, 0), (4_000, 4_000), (64_000, 8_000)])
def test_there_is_always_a_limit_and_a_budget_below_it(
    level: ThinkingLevel, compat: Mapping[str, object], most: int, window: int
) -> None:
    model = changed(thinking_model(**compat), maxTokens=most, contextWindow=window)
    said, _, limit = thinking(level, model)

    assert isinstance(limit, int)
    assert 1 <= limit <= (most or DEFAULT_MAX_TOKENS)
    assert cast("dict[str, int]", said).get("budget_tokens", 0) <= limit - 1


# What the configuration adds


def sampled(model: Model, level: ThinkingLevel = "off") -> dict[str, Any]:
    params = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 77}
    body = body_of(request(model=changed(model, samplingParams=params), level=level))
    return {name: body[name] for name in params if name in body}


def test_what_the_configuration_adds_comes_last() -> None:
    assert sampled(MODEL) == {"temperature": 0.5, "top_p": 0.9, "max_tokens": 77}
    model = changed(samplingParams={"top_k": 1}, samplingParamsByThinkingLevel={"off": {"top_k": 2}})
    assert body_of(request(model=model))["top_k"] == 2


def test_a_temperature_is_only_for_models_that_take_it_and_do_not_think() -> None:
    assert "temperature" in sampled(thinking_model())
    assert "temperature" not in sampled(thinking_model(), "low")
    assert "temperature" not in sampled(thinking_model(forceAdaptiveThinking=True), "low")
    assert "temperature" not in sampled(changed(thinking_model(), thinkingLevelMap={"off": None}))
    assert "temperature" not in sampled(changed(compat={"supportsTemperature": False}))


def test_unknown_and_null_flags_change_nothing() -> None:
    odd = {"supportsMidConvoToolChanges": True, "allowedFallbackModels": [{}], "supportsTemperature": "no", "x": None}

    assert body_of(request(model=changed(compat=odd), tools=(READ,))) == body_of(request(tools=(READ,)))
    assert headers_of(request(model=changed(compat=odd))) == headers_of(request())
