"""Requests for a generated content: address, headers, body, and what each kind of model is asked."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.google.request import http_request
from pinnace_agent.llm.request import THINKING_BUDGETS, LlmRequest, ToolSpec
from pinnace_spec.records.messages import THINKING_LEVELS, Message, Model, ThinkingLevel, UserMessage

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "data" / "google-generate-content-request.schema.json").read_text(encoding="utf-8")
)
KEY = "AIza0123456789abcdef"
QUESTION: UserMessage = {"role": "user", "content": "hi", "timestamp": 0}
BASH = ToolSpec("bash", "Runs.", {"type": "object", "properties": {"command": {"type": "string"}}})
NO_OFF = {"off": None}


def model_of(model_id: str, **fields: object) -> Model:
    model = served_model(
        id=model_id,
        api="google-generative-ai",
        provider="google",
        baseUrl="https://generativelanguage.example/v1beta",
        reasoning=True,
        input=["text", "image"],
        cost=prices(1, 2),
        contextWindow=1_000_000,
        maxTokens=65_536,
    )
    return cast("Model", {**model, **fields})  # cast: the caller knows the fields


def request_to(
    model_id: str = "gemini-3-flash-preview",
    *messages: Message,
    level: ThinkingLevel = "off",
    system: str = "Be brief.",
    tools: Sequence[ToolSpec] = (BASH,),
    headers: Mapping[str, str] | None = None,
    key: str | None = KEY,
    budgets: Mapping[ThinkingLevel, int] = THINKING_BUDGETS,
    **fields: object,
) -> LlmRequest:
    model = model_of(model_id, **fields)
    return LlmRequest(
        model, system, messages or (QUESTION,), tools, level, key, headers or {}, "s1", thinking_budgets=budgets
    )


def body_of(request: LlmRequest) -> dict[str, Any]:
    """Return the body; it is as published."""
    body: dict[str, Any] = json.loads(http_request(request).body)
    jsonschema.validate(body, SCHEMA)
    return body


def thinking(model_id: str, level: ThinkingLevel, **fields: Any) -> object:
    return body_of(request_to(model_id, level=level, **fields))["generationConfig"].get("thinkingConfig")


# Address and headers


@pytest.mark.parametrize(
    ("model_id", "path"),
    [
        ("gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("models/gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("google/gemini-2.5-pro", "models/google/gemini-2.5-pro"),
        ("what?is#this %é", "models/what%3Fis%23this%20%25%C3%A9"),
    ],
)
def test_the_address_names_the_model(model_id: str, path: str) -> None:
    url = http_request(request_to(model_id)).url

    assert url == f"https://generativelanguage.example/v1beta/{path}:streamGenerateContent?alt=sse"


def test_a_slash_at_the_end_of_the_base_address_is_one_too_many() -> None:
    assert "v1beta/models/" in http_request(request_to(baseUrl="https://h.example/v1beta/")).url


def test_the_key_is_a_header_and_never_in_the_address() -> None:
    request = http_request(request_to())

    assert request.headers == {"Content-Type": "application/json", "x-goog-api-key": KEY}
    assert KEY not in request.url
    assert "x-goog-api-key" not in http_request(request_to(key=None)).headers


def test_headers_of_the_configuration_win_however_they_are_written() -> None:
    headers = http_request(request_to(headers={"X-Goog-Api-Key": "other", "X-More": "1"})).headers

    assert headers == {"Content-Type": "application/json", "X-Goog-Api-Key": "other", "X-More": "1"}


# The body as a whole


def test_a_request_without_anything_special_has_four_parts() -> None:
    assert body_of(request_to(level="low")) == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {
            "maxOutputTokens": 65_536,
            "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
        },
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "bash",
                        "description": "Runs.",
                        "parametersJsonSchema": {"type": "object", "properties": {"command": {"type": "string"}}},
                    }
                ]
            }
        ],
    }


def test_what_there_is_not_is_not_sent() -> None:
    assert body_of(request_to(system="", tools=(), reasoning=False, maxTokens=0)) == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}]
    }


def test_the_output_is_capped_as_asked() -> None:
    request = request_to()._replace(max_tokens=77)

    assert body_of(request)["generationConfig"]["maxOutputTokens"] == 77


def test_the_configurations_parameters_go_to_the_generation_last() -> None:
    fields: dict[str, Any] = {
        "samplingParams": {"temperature": 0.5, "topK": 3, "maxOutputTokens": 5},
        "samplingParamsByThinkingLevel": {"low": {"temperature": 1}, "high": {"temperature": 2}},
    }
    generation = body_of(request_to("gemini-2.5-flash", level="low", **fields))["generationConfig"]

    assert generation == {
        "maxOutputTokens": 5,
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2048},
        "temperature": 1,
        "topK": 3,
    }


# Tools


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"const": "a"}, {"enum": ["a"]}),
        ({"const": 3, "description": "d"}, {"enum": [3], "description": "d"}),
        ({"const": True}, {"const": True}),
        ({"const": None}, {"const": None}),
        ({"anyOf": [{"const": "a"}, {"const": 1.5}]}, {"anyOf": [{"enum": ["a"]}, {"enum": [1.5]}]}),
        (
            {"default": {"const": "a"}, "examples": [{"const": 1}]},
            {"default": {"const": "a"}, "examples": [{"const": 1}]},
        ),
        ({"properties": {"const": {"const": "a"}}}, {"properties": {"const": {"enum": ["a"]}}}),
        ({"items": {"items": {"const": "a"}}, "$ref": "#/x"}, {"items": {"items": {"enum": ["a"]}}, "$ref": "#/x"}),
    ],
)
def test_a_constant_is_an_enumeration_of_one(schema: Mapping[str, object], sent: object) -> None:
    tool = ToolSpec("t", "d", schema)
    (declared,) = body_of(request_to(tools=(tool,)))["tools"][0]["functionDeclarations"]

    assert declared["parametersJsonSchema"] == sent


def test_all_tools_are_declared_in_one_list() -> None:
    tools = [BASH._replace(name=name) for name in ("read", "bash", "edit")]
    (declared,) = body_of(request_to(tools=tools))["tools"]

    assert [each["name"] for each in declared["functionDeclarations"]] == ["read", "bash", "edit"]


# Thinking

ABOVE_OFF = THINKING_LEVELS[1:]


@pytest.mark.parametrize(
    ("model_id", "words"),
    [
        ("gemini-3-flash-preview", "MINIMAL LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-3.5-flash-lite", "MINIMAL LOW MEDIUM HIGH HIGH HIGH"),
        ("models/gemini-3.1-flash-live-preview", "MINIMAL LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-flash-latest", "MINIMAL LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-flash-lite-latest", "MINIMAL LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-4-nano", "MINIMAL LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-12.5-pro", "LOW LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-pro-latest", "LOW LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-3.1-pro-preview-customtools", "LOW LOW MEDIUM HIGH HIGH HIGH"),
        ("gemini-3-pro-preview", "LOW LOW HIGH HIGH HIGH HIGH"),
        ("gemma-4-31b-it", "MINIMAL MINIMAL HIGH HIGH HIGH HIGH"),
        ("Gemma4-E4B", "MINIMAL MINIMAL HIGH HIGH HIGH HIGH"),
    ],
)
def test_newer_models_get_a_thinking_level(model_id: str, words: str) -> None:
    for level, word in zip(ABOVE_OFF, words.split(), strict=True):
        assert thinking(model_id, level) == {"includeThoughts": True, "thinkingLevel": word}
    assert thinking(model_id, "off") == {"thinkingLevel": words.split(maxsplit=1)[0]}


@pytest.mark.parametrize(
    ("model_id", "off", "budgets"),
    [
        ("gemini-2.5-pro", 128, [128, 2048, 8192, 32_768, 32_768, 32_768]),
        ("gemini-2.5-flash", 0, [128, 2048, 8192, 24_576, 24_576, 24_576]),
        ("gemini-2.5-flash-lite", 0, [512, 2048, 8192, 24_576, 24_576, 24_576]),
        ("gemini-2.5-flash-lite-preview-06-17", 0, [512, 2048, 8192, 24_576, 24_576, 24_576]),
        ("gemini-2.0-flash-thinking", 0, [-1] * 6),
        ("gemini-3-nano", 0, [-1] * 6),
        ("gemma-3-27b-it", 0, [-1] * 6),
        ("gemma-42", 0, [-1] * 6),
        ("deep-research-preview-04-2026", 0, [-1] * 6),
        ("mine", 0, [-1] * 6),
    ],
)
def test_older_and_unknown_models_get_a_thinking_budget(model_id: str, off: int, budgets: Sequence[int]) -> None:
    for level, budget in zip(ABOVE_OFF, budgets, strict=True):
        assert thinking(model_id, level) == {"includeThoughts": True, "thinkingBudget": budget}
    assert thinking(model_id, "off") == {"thinkingBudget": off}


def test_a_model_that_does_not_think_gets_no_thinking_options() -> None:
    assert thinking("gemini-3-flash-preview", "high", reasoning=False) is None


@pytest.mark.parametrize(
    ("names", "level", "word"),
    [
        ({"low": "medium"}, "low", "MEDIUM"),
        ({"xhigh": "HIGH"}, "xhigh", "HIGH"),
        ({"off": "minimal"}, "off", "MINIMAL"),
        ({"off": None, "minimal": "minimal"}, "off", "MINIMAL"),
        ({"off": None, "minimal": None, "low": "low"}, "off", "LOW"),
        ({"off": None, "minimal": None}, "off", "LOW"),
        ({"off": None, "minimal": None, "low": None, "medium": None, "high": "high"}, "off", "HIGH"),
        ({"medium": None}, "medium", "MEDIUM"),
    ],
)
def test_the_models_own_words_for_its_levels_win(names: object, level: ThinkingLevel, word: str) -> None:
    config = thinking("gemini-3.7-flash", level, thinkingLevelMap=names)

    assert config == {**({} if level == "off" else {"includeThoughts": True}), "thinkingLevel": word}


def test_the_users_budget_wins_over_the_kinds() -> None:
    budgets: dict[ThinkingLevel, int] = {**THINKING_BUDGETS, "low": 3000}

    for model_id in ("gemini-2.5-pro", "mine"):
        assert thinking(model_id, "low", budgets=budgets) == {"includeThoughts": True, "thinkingBudget": 3000}
    assert thinking("gemini-2.5-pro", "high", budgets=budgets) == {"includeThoughts": True, "thinkingBudget": 32_768}


@pytest.mark.parametrize(("max_tokens", "budget"), [(20_000, 18_976), (1200, 176), (1100, 128), (1, 128)])
def test_a_budget_leaves_room_for_the_answer_but_is_never_too_small(max_tokens: int, budget: int) -> None:
    config = thinking("gemini-2.5-pro", "high", maxTokens=max_tokens)

    assert config == {"includeThoughts": True, "thinkingBudget": budget}


# Text that is none


@given(st.text(max_size=9), st.text(max_size=9))
def test_any_text_makes_a_body(system: str, said: str) -> None:
    half = "\ud83d"
    user: UserMessage = {"role": "user", "content": f"a{half}{said}", "timestamp": 0}
    tool = ToolSpec("t", f"{half}d", {"description": f"{said}{half}"})
    body = http_request(request_to("gemini-3-flash-preview", user, system=f"{half}x{system}", tools=(tool,))).body

    decoded = json.loads(body)
    assert decoded["systemInstruction"]["parts"][0]["text"].startswith("x")
    body.decode("utf-8")
