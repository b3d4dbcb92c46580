"""What a response is asked for beside its input: limits, tools, thinking, the cache, headers."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from tests.agent.samples import served_model

from pinnace_agent.llm.openai_responses.compat import compat_of
from pinnace_agent.llm.openai_responses.request import http_request, request_body, request_headers
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.request import Retention
from pinnace_spec.records.messages import Model, ThinkingLevel, UserMessage

SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "openai-responses-request.schema.json").read_text())
TOOL = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
QUESTION: UserMessage = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0}
MODEL = served_model(
    id="gpt-1", api="openai-responses", provider="openai", baseUrl="https://api.openai.com/v1", input=["text", "image"]
)


def changed(model: Model = MODEL, /, **fields: object) -> Model:
    return cast("Model", {**model, **fields})


def with_compat(**compat: object) -> Model:
    return changed(compat=compat)


def request(
    model: Model = MODEL,
    *,
    level: ThinkingLevel = "off",
    tools: Sequence[ToolSpec] = (),
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    session_id: str = "session-1",
) -> LlmRequest:
    return LlmRequest(model, "", [QUESTION], tools, level, api_key, headers or {}, session_id)


def body_of(asked: LlmRequest, cache: Retention = "short", *, is_published: bool = True) -> dict[str, Any]:
    """Return the body, held to the published shape unless it is meant for another server."""
    body = cast("dict[str, Any]", json.loads(json.dumps(request_body(asked, compat_of(asked.model), cache))))
    if is_published:
        jsonschema.Draft202012Validator(SCHEMA).validate(body)
    return body


def test_the_smallest_body() -> None:
    assert body_of(request()) == {
        "model": "gpt-1",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        "stream": True,
        "store": False,
        "prompt_cache_key": "session-1",
        "max_output_tokens": 4_000,
    }


def test_tools_are_flat_functions() -> None:
    flat = {"type": "function", "name": "read", "description": "Reads.", "parameters": TOOL.parameters}

    assert body_of(request(tools=[TOOL]))["tools"] == [{**flat, "strict": False}]
    lax = request(with_compat(supportsStrictMode=False), tools=[TOOL])
    assert body_of(lax, is_published=False)["tools"] == [flat]


@pytest.mark.parametrize(
    ("most", "window", "compat", "sent"),
    [
        (4_000, 100_000, {}, 4_000),
        (4_000, 10, {}, 16),
        (1, 100_000, {}, 16),
        (0, 100_000, {}, None),
        (4_000, 100_000, {"supportsMaxOutputTokens": False}, None),
    ],
)
def test_the_limit_of_the_output_is_at_least_what_the_server_takes(
    most: int, window: int, compat: dict[str, object], sent: int | None
) -> None:
    body = body_of(request(changed(maxTokens=most, contextWindow=window, compat=compat)))

    assert body.get("max_output_tokens") == sent


# Thinking


def thinking(level: ThinkingLevel, **fields: object) -> dict[str, object]:
    body = body_of(
        request(changed(reasoning=True, **fields), level=level), is_published="thinkingLevelMap" not in fields
    )
    return {name: body[name] for name in ("reasoning", "include") if name in body}


def on(effort: str) -> dict[str, object]:
    return {"reasoning": {"effort": effort, "summary": "auto"}, "include": ["reasoning.encrypted_content"]}


def test_thoughts_are_asked_for_by_effort_and_come_back_encrypted() -> None:
    assert thinking("minimal") == on("minimal")
    assert thinking("high") == on("high")


def test_the_words_for_levels_are_the_models() -> None:
    names: dict[str, object] = {"xhigh": "xhigh", "high": "ultra", "off": "never"}

    assert thinking("high", thinkingLevelMap=names) == on("ultra")
    assert thinking("low", thinkingLevelMap=names) == on("low")
    assert thinking("off", thinkingLevelMap=names) == {"reasoning": {"effort": "never"}}


def test_off_is_said_where_it_can_be() -> None:
    assert thinking("off") == {"reasoning": {"effort": "none"}}
    assert thinking("off", thinkingLevelMap={"off": None}) == {}


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    assert not {"reasoning", "include"} & body_of(request(level="high")).keys()


def test_no_effort_is_named_where_it_is_not_known() -> None:
    unknown = {"supportsReasoningEffort": False}

    assert thinking("high", compat=unknown) == {"include": ["reasoning.encrypted_content"]}
    assert thinking("off", compat=unknown) == {}


# The cache


@pytest.mark.parametrize(
    ("compat", "cache", "sent"),
    [
        ({}, "none", {}),
        ({}, "short", {"key": "session-1"}),
        ({}, "long", {"key": "session-1", "retention": "24h"}),
        ({"supportsLongCacheRetention": False}, "long", {"key": "session-1"}),
        ({"supportsExplicitPromptCacheMode": True}, "none", {"options": {"mode": "explicit"}}),
        ({"supportsExplicitPromptCacheMode": True}, "short", {"key": "session-1"}),
        ({"supportsExplicitPromptCacheMode": True}, "long", {"key": "session-1", "options": {"ttl": "12h"}}),
    ],
)
def test_the_cache_is_named_by_the_session_and_kept_as_long_as_asked(
    compat: dict[str, object], cache: Retention, sent: dict[str, object]
) -> None:
    body = body_of(request(with_compat(**compat)), cache)

    assert {name.removeprefix("prompt_cache_"): body[name] for name in body if "cache" in name} == sent


def test_the_cache_key_is_as_long_as_is_taken_and_no_empty_one_is_sent() -> None:
    assert body_of(request(session_id="s" * 100))["prompt_cache_key"] == "s" * 64
    assert "prompt_cache_key" not in body_of(request(session_id=""))


def test_the_users_sampling_parameters_come_last_and_by_level() -> None:
    model = changed(
        samplingParams={"temperature": 0.1, "store": True, "service_tier": "flex"},
        samplingParamsByThinkingLevel={"off": {"temperature": 0.9}, "high": {"temperature": 0}},
    )
    body = body_of(request(model))

    assert (body["temperature"], body["store"], body["service_tier"]) == (0.9, True, "flex")
    assert body_of(request(model, level="low"))["temperature"] == 0.1


# Address and headers


def headers_of(asked: LlmRequest, cache: Retention = "short") -> dict[str, str]:
    return request_headers(asked, compat_of(asked.model), cache)


def test_the_address_is_below_the_base() -> None:
    for base in ("http://h/v1", "http://h/v1/", "http://h/v1//"):
        assert http_request(request(changed(baseUrl=base)), compat_of(MODEL)).url == "http://h/v1/responses"


def test_the_key_is_a_bearers_and_without_one_there_is_none() -> None:
    assert headers_of(request(api_key="k"))["Authorization"] == "Bearer k"
    assert "Authorization" not in headers_of(request())
    assert "Authorization" not in headers_of(request(api_key=""))


def test_configured_headers_win_however_they_are_written() -> None:
    headers = headers_of(request(api_key="k", headers={"authorization": "Token t", "SESSION-ID": "mine"}))

    assert headers == {
        "Content-Type": "application/json",
        "x-client-request-id": "session-1",
        "authorization": "Token t",
        "SESSION-ID": "mine",
    }


@pytest.mark.parametrize(
    ("affinity", "names"),
    [
        (None, ["session-id", "x-client-request-id"]),
        ("openai", ["session-id", "x-client-request-id"]),
        ("unknown", ["session-id", "x-client-request-id"]),
        ("openai-nosession", ["x-client-request-id"]),
        ("openrouter", ["x-session-id"]),
    ],
)
def test_the_session_is_named_in_the_headers_that_the_server_reads(affinity: str | None, names: list[str]) -> None:
    asked = request(with_compat(sessionAffinityFormat=affinity))

    assert sorted(name for name, value in headers_of(asked).items() if value == "session-1") == names
    assert "session-1" not in headers_of(asked, "none").values()


def test_without_a_session_no_header_is_empty() -> None:
    assert headers_of(request(session_id="")) == {"Content-Type": "application/json"}


@pytest.mark.parametrize("value", [None, 1, "yes", [], {}])
def test_a_flag_that_is_none_is_as_if_it_were_not_there(value: object) -> None:
    names = ("supportsDeveloperRole", "supportsStrictMode", "supportsReasoningEffort", "sessionAffinityFormat")

    assert compat_of(with_compat(**dict.fromkeys(names, value))) == compat_of(MODEL)


@pytest.mark.parametrize(
    ("provider", "url", "is_like"),
    [
        ("openai", "http://proxy/v1", True),
        ("opencode-go", "https://opencode.ai/zen/go/v1", True),
        ("azure-openai-responses", "https://x.openai.azure.com/openai/v1", True),
        ("mine", "https://API.OPENAI.com/v1", True),
        ("xai", "https://api.x.ai/v1", False),
        ("meta", "https://api.meta.ai/v1", False),
        ("local", "http://127.0.0.1:8080/v1", False),
    ],
)
def test_who_makes_ids_as_openai_does_is_known(provider: str, url: str, is_like: bool) -> None:
    assert compat_of(changed(provider=provider, baseUrl=url)).is_openai_like is is_like
