"""The built-in models of both OpenAI APIs: what they say of themselves is understood, and asked for as published."""

import json
from pathlib import Path
from typing import get_args

import jsonschema
import pytest

from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.config.models.models import supported_levels
from pinnace_agent.llm.openai_chat import compat as openai_compat
from pinnace_agent.llm.openai_chat import request as openai_request
from pinnace_agent.llm.openai_responses import compat as responses_compat
from pinnace_agent.llm.openai_responses import request as responses_request
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.request import Retention
from pinnace_spec.records.messages import Model, ThinkingLevel, UserMessage

SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "openai-responses-request.schema.json").read_text())
MODELS = [model for model in Catalog().models() if model["api"].startswith("openai-")]
RESPONSES = [model for model in MODELS if model["api"] == "openai-responses"]
QUESTION: UserMessage = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 0}
TOOL = ToolSpec("read", "Reads.", {"type": "object"})


def test_every_format_that_a_model_names_is_known() -> None:
    """One that is not would be passed over in silence, and the model never asked to think."""
    named = {(name, value) for model in MODELS for name, value in model.get("compat", {}).items() if "Format" in name}
    thinking = {("thinkingFormat", each) for each in get_args(openai_compat.ThinkingFormat)}
    affinity = {("sessionAffinityFormat", each) for each in get_args(openai_compat.AffinityFormat)}

    assert set() == named - thinking - affinity - {("cacheControlFormat", "anthropic")}
    assert len(named) > 5


@pytest.mark.parametrize("retention", get_args(Retention))
def test_every_level_of_every_model_is_asked_for_in_the_published_shape(retention: Retention) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    problems: set[str] = set()
    for model in RESPONSES:
        for level in supported_levels(model):
            request = LlmRequest(model, "s", [QUESTION], [TOOL], level, "k", {}, "s1")
            body = responses_request.request_body(request, responses_compat.compat_of(model), retention)
            value = json.loads(json.dumps(body))
            if not responses_compat.compat_of(model).supports_strict_mode:  # as some servers beside OpenAI's
                value["tools"] = [{**each, "strict": None} for each in value["tools"]]
            problems |= {f"{model['provider']}/{model['id']}: {each.message}" for each in validator.iter_errors(value)}

    assert set() == problems


def mute_levels(model: Model) -> list[ThinkingLevel]:
    """Return the levels of which no field of a request says anything."""
    if model["api"] != "openai-completions":
        return []
    fields = {"reasoning_effort", "reasoning", "thinking", "enable_thinking", "chat_template_args"}
    compat = openai_compat.compat_of(model)
    return [
        level
        for level in supported_levels(model)
        if level != "off"
        and fields.isdisjoint(
            openai_request.request_body(LlmRequest(model, "", [QUESTION], (), level, "k", {}, "s1"), compat, "none")
        )
    ]


def test_no_level_is_chosen_in_silence() -> None:
    """Choosing it would change nothing."""
    assert [] == [f"{model['provider']}/{model['id']}: {level}" for model in MODELS for level in mute_levels(model)]
