"""Every built-in model that is asked through Anthropic's messages: what it is sent is as published."""

import json
from pathlib import Path

import jsonschema

from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.config.models.thinking import supported_levels
from pinnace_agent.llm.anthropic.compat import compat_of
from pinnace_agent.llm.anthropic.request import http_request
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_spec.records.messages import Model, ThinkingLevel, UserMessage

SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "anthropic-messages-request.schema.json").read_bytes())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
QUESTION: UserMessage = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0}
TOOL = ToolSpec("read", "Reads.", {"type": "object"})


def problems(model: Model, level: ThinkingLevel) -> list[str]:
    request = LlmRequest(model, "Be brief.", [QUESTION], [TOOL], level, "k", {}, "s1")
    compat = compat_of(model)
    body = json.loads(http_request(request, compat).body)
    if compat.supports_mid_convo_effort:  # betas, which are not in what is published of the API
        body["messages"] = [each for each in body["messages"] if each["role"] != "system"]
        body["thinking"].pop("block_binding", None)
    assert body["model"] == model["id"]
    assert 1 <= body["max_tokens"] <= model["maxTokens"]
    return [f"{model['provider']}/{model['id']}:{level}: {error.message}" for error in VALIDATOR.iter_errors(body)]


def test_every_built_in_model_is_sent_what_is_published_at_every_level_that_it_has() -> None:
    models = [model for model in Catalog().models() if model["api"] == "anthropic-messages"]
    seen = {model["provider"] for model in models}

    assert {"anthropic", "fireworks", "minimax", "opencode", "openrouter", "vercel-ai-gateway"} <= seen
    assert [] == [
        problem for model in models for level in supported_levels(model) for problem in problems(model, level)
    ]
