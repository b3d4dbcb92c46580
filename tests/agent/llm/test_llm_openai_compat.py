"""What single servers of chat completions take: how thinking is asked for, which flags are known of a host."""

import json
from typing import cast

import pytest
from tests.agent.samples import served_model

from pinnace_agent.llm.openai_chat.compat import HOSTS, compat_of
from pinnace_agent.llm.openai_chat.request import http_request, request_body
from pinnace_agent.llm.request import LlmRequest
from pinnace_spec.records.messages import Model, ThinkingLevel

MODEL = served_model(baseUrl="http://127.0.0.1:8080/v1", input=["text", "image"])


def changed(model: Model = MODEL, /, **fields: object) -> Model:
    return cast("Model", {**model, **fields})


def with_compat(**compat: object) -> Model:
    return changed(compat=compat)


def request(*, model: Model = MODEL, level: ThinkingLevel = "off") -> LlmRequest:
    return LlmRequest(model, "", (), (), level, None, {}, "session-1")


def body_of(asked: LlmRequest) -> dict[str, object]:
    body = request_body(asked, compat_of(asked.model), "short")
    return cast("dict[str, object]", json.loads(json.dumps(body)))


# Thinking


def thinking(level: ThinkingLevel, **fields: object) -> dict[str, object]:
    """Return what the body says more than that of a model that does not think."""
    asked = request(model=changed(reasoning=True, **fields), level=level)
    plain = request(model=changed(asked.model, reasoning=False))
    without = body_of(plain)
    return {name: value for name, value in body_of(asked).items() if without.get(name) != value}


FORMATS: list[tuple[str, dict[str, object], dict[str, object]]] = [
    ("openai", {"reasoning_effort": "high"}, {}),
    ("openrouter", {"reasoning": {"effort": "high"}}, {"reasoning": {"effort": "none"}}),
    (
        "deepseek",
        {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        {"thinking": {"type": "disabled"}},
    ),
    (
        "zai",
        {"thinking": {"type": "enabled", "clear_thinking": False}, "reasoning_effort": "high"},
        {"thinking": {"type": "disabled"}},
    ),
    ("qwen", {"enable_thinking": True}, {"enable_thinking": False}),
    (
        "qwen-chat-template",
        {"chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ),
    ("chat-template", {}, {}),
    ("baseten", {}, {}),
    (
        "together",
        {"reasoning": {"enabled": True}, "reasoning_effort": "high"},
        {"reasoning": {"enabled": False}},
    ),
    ("string-thinking", {"thinking": "high"}, {"thinking": "none"}),
    ("ant-ling", {}, {}),
]


@pytest.mark.parametrize(("name", "on", "off"), FORMATS)
def test_every_vendor_is_asked_to_think_in_its_own_words(
    name: str, on: dict[str, object], off: dict[str, object]
) -> None:
    compat = {"thinkingFormat": name}

    assert thinking("high", compat=compat) == on
    assert thinking("off", compat=compat) == off


def test_the_words_for_levels_are_the_models() -> None:
    named: dict[str, object] = {"thinkingLevelMap": {"high": "ultra", "off": "never", "low": None}}

    assert thinking("high", **named) == {"reasoning_effort": "ultra"}
    assert thinking("off", **named) == {"reasoning_effort": "never"}
    assert thinking("medium", **named) == {"reasoning_effort": "medium"}
    assert thinking("low", **named) == {}
    router = {**named, "compat": {"thinkingFormat": "openrouter"}}
    assert thinking("off", **router) == {"reasoning": {"effort": "never"}}


def test_only_a_level_that_is_named_is_asked_for_where_nothing_else_is_known() -> None:
    ling: dict[str, object] = {"compat": {"thinkingFormat": "ant-ling"}, "thinkingLevelMap": {"high": "high"}}

    assert thinking("high", **ling) == {"reasoning": {"effort": "high"}}
    assert thinking("low", **ling) == thinking("off", **ling) == {}


@pytest.mark.parametrize("name", [each[0] for each in FORMATS if "template" not in each[0] and each[0] != "baseten"])
def test_a_model_that_always_thinks_is_not_asked_to_stop_thinking(name: str) -> None:
    """It would refuse."""
    assert thinking("off", compat={"thinkingFormat": name}, thinkingLevelMap={"off": None}) == {}


def test_the_values_of_a_template_are_sent_to_a_model_that_always_thinks_too() -> None:
    template = {"thinkingFormat": "baseten", "chatTemplateArgs": {"fixed": 1}}

    sent = thinking("off", compat=template, thinkingLevelMap={"off": None})
    assert sent == {"chat_template_args": {"fixed": 1}}


@pytest.mark.parametrize(
    ("name", "switch"), [("qwen", {"enable_thinking": True}), ("baseten", {"chat_template_args": {"on": True}})]
)
def test_an_effort_stands_beside_a_switch_where_the_configuration_says_so(name: str, switch: dict[str, object]) -> None:
    compat = {"thinkingFormat": name, "chatTemplateArgs": {"on": {"$var": "thinking.enabled"}}}

    assert thinking("high", compat=compat) == switch
    assert thinking("high", compat={**compat, "supportsReasoningEffort": True}) == {
        **switch,
        "reasoning_effort": "high",
    }


def test_old_words_for_levels_count_where_there_are_no_new_ones() -> None:
    old = {"reasoningEffortMap": {"high": "old", "low": "less"}}

    assert thinking("high", compat=old) == {"reasoning_effort": "old"}
    assert thinking("high", compat=old, thinkingLevelMap={"high": "new"}) == {"reasoning_effort": "new"}
    assert thinking("low", compat=old, thinkingLevelMap={"high": "new"}) == {"reasoning_effort": "less"}


def test_a_model_that_does_not_think_is_not_asked_to() -> None:
    body = body_of(request(level="high", model=with_compat(thinkingFormat="qwen", thinkingTokenBudgetField="budget")))

    assert not {"enable_thinking", "reasoning_effort", "budget"} & body.keys()


def test_no_effort_is_named_where_it_is_not_known() -> None:
    assert thinking("high", compat={"supportsReasoningEffort": False}) == {}
    assert thinking("high", compat={"supportsReasoningEffort": False, "thinkingFormat": "deepseek"}) == {
        "thinking": {"type": "enabled"}
    }


def test_a_template_is_filled_in() -> None:
    kwargs = {
        "enable": {"$var": "thinking.enabled"},
        "effort": {"$var": "thinking.effort"},
        "budget": {"$var": "thinking.budget", "omitWhenOff": True},
        "fixed": {"a": 1},
    }

    template = {"thinkingFormat": "chat-template", "chatTemplateKwargs": kwargs}
    on = {"enable": True, "effort": "low", "budget": 2048, "fixed": {"a": 1}}
    assert thinking("low", compat=template) == {"chat_template_kwargs": on}
    off = {"enable": False, "effort": "none", "fixed": {"a": 1}}
    assert thinking("off", compat=template) == {"chat_template_kwargs": off}
    baseten = {"thinkingFormat": "baseten", "chatTemplateArgs": kwargs}
    assert thinking("low", compat=baseten) == {"chat_template_args": on}


@pytest.mark.parametrize(
    ("level", "most", "budget"),
    [
        ("low", 100_000, 2048),
        ("high", 4_000, 4_000 - 1024),
        ("max", 0, 16_384),
        ("low", 1_000, None),
        ("off", 9_000, None),
    ],
)
def test_a_budget_leaves_room_for_the_answer(level: ThinkingLevel, most: int, budget: int | None) -> None:
    fields = thinking(level, maxTokens=most, compat={"thinkingTokenBudgetField": "thinking_budget"})

    assert fields.get("thinking_budget") == budget


# Known hosts

KNOWN = [
    # provider, base URL, store and developer role, max_tokens, reasoning_effort, format
    ("nvidia", "https://integrate.api.nvidia.com/v1", False, True, False, "openai"),
    ("cerebras", "https://api.cerebras.ai/v1", False, False, True, "openai"),
    ("xai", "https://api.x.ai/v1", False, False, False, "openai"),
    ("together", "https://api.together.ai/v1", False, True, False, "together"),
    ("chutes", "https://llm.chutes.ai/v1", False, True, True, "openai"),
    ("deepseek", "https://api.deepseek.com", False, True, True, "deepseek"),
    ("zai", "https://api.z.ai/api/paas/v4", False, True, False, "zai"),
    ("moonshotai", "https://api.moonshot.ai/v1", False, True, False, "openai"),
    ("opencode", "https://opencode.ai/zen/v1", False, False, True, "openai"),
    ("cloudflare-workers-ai", "https://api.cloudflare.com/client/v4/accounts/x/ai/v1", False, False, True, "openai"),
    ("cloudflare-ai-gateway", "https://gateway.ai.cloudflare.com/v1/x/y/compat", False, True, False, "openai"),
    ("ant-ling", "https://api.ant-ling.com/v1", False, True, False, "ant-ling"),
    ("openrouter", "https://openrouter.ai/api/v1", True, False, True, "openrouter"),
    ("openai", "https://api.openai.com/v1", True, False, True, "openai"),
    ("groq", "https://api.groq.com/openai/v1", True, False, True, "openai"),
]


@pytest.mark.parametrize(("provider", "url", "store", "old_limit", "effort", "thinking_format"), KNOWN)
def test_a_known_host_is_recognised_by_its_name_and_by_its_address(
    provider: str, url: str, store: bool, old_limit: bool, effort: bool, thinking_format: str
) -> None:
    for model in (changed(provider=provider, baseUrl="http://proxy/v1"), changed(provider="mine", baseUrl=url.upper())):
        compat = compat_of(model)
        assert (compat.supports_store, compat.supports_developer_role) == (store, store)
        assert compat.max_tokens_field == ("max_tokens" if old_limit else "max_completion_tokens")
        assert compat.supports_reasoning_effort == effort
        assert compat.thinking_format == thinking_format


def test_every_known_host_is_in_the_table_above() -> None:
    assert {host.providers[0] for host in HOSTS} <= {each[0].removesuffix("ai") for each in KNOWN} | {
        each[0] for each in KNOWN
    } | {"cloudflare"}


def test_what_the_configuration_says_wins_field_by_field() -> None:
    compat = compat_of(
        changed(
            provider="deepseek",
            compat={"supportsStore": True, "maxTokensField": "max_completion_tokens", "thinkingFormat": "qwen"},
        )
    )

    assert compat.supports_store
    assert not compat.supports_developer_role
    assert compat.max_tokens_field == "max_completion_tokens"
    assert compat.thinking_format == "qwen"


@pytest.mark.parametrize("value", [None, 1, "yes", [], {}])
def test_a_flag_that_is_none_is_as_if_it_were_not_there(value: object) -> None:
    assert compat_of(with_compat(supportsStore=value, thinkingFormat=value, sessionAffinityFormat=value)) == compat_of(
        MODEL
    )


def test_nvidia_is_asked_to_answer_itself_however_long_it_takes() -> None:
    """As the original's catalog has it for each of its models; others get no such header."""
    waits = dict[str, str | None]()
    for provider in ("nvidia", "local"):
        asked = request(model=changed(provider=provider))
        waits[provider] = http_request(asked, compat_of(asked.model)).headers.get("NVCF-POLL-SECONDS")

    assert waits == {"nvidia": "3600", "local": None}
