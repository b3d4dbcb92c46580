"""This program's names are those of the conventions that are installed, and its values are written in them."""

from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as official
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics as official_metrics

from pinnace_agent.telemetry import conventions
from pinnace_spec.records.messages import Model, zero_usage

MODEL: Model = {
    "id": "m1",
    "name": "m1",
    "api": "openai-completions",
    "provider": "xai",
    "baseUrl": "https://user:secret-of-the-user@models.example.com/v1?key=secret-of-the-query",
    "reasoning": False,
    "input": ["text"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 0,
    "maxTokens": 0,
}
# Newer than the package of the conventions, which points to their own repository.
NEWER = {conventions.INVOKE_AGENT_DURATION, conventions.EXECUTE_TOOL_DURATION}


def test_names_are_those_of_the_conventions() -> None:
    known = {
        value for module in (official, official_metrics) for value in vars(module).values() if isinstance(value, str)
    }
    ours = {value for value in vars(conventions).values() if isinstance(value, str) and value.startswith("gen_ai.")}

    assert len(ours) > 20
    assert NEWER == ours - known


def test_operations_and_providers_are_those_of_the_conventions() -> None:
    operations = {each.value for each in official.GenAiOperationNameValues}
    providers = {each.value for each in official.GenAiProviderNameValues} | {"moonshot_ai"}
    named = ["amazon-bedrock", "azure-openai", "google", "google-vertex", "mistral", "moonshotai", "xai"]

    assert {conventions.CHAT, conventions.INVOKE_AGENT, conventions.EXECUTE_TOOL} <= operations
    assert {conventions.provider_name(each) for each in (*named, "openai", "anthropic", "groq")} <= providers
    assert "fireworks" == conventions.provider_name("fireworks")


def test_a_model_is_named_with_the_host_of_its_server_alone() -> None:
    expected = {
        "gen_ai.provider.name": "x_ai",
        "gen_ai.request.model": "m1",
        "server.address": "models.example.com",
        "server.port": 443,
    }
    assert expected == conventions.model_attributes(MODEL)


@pytest.mark.parametrize("address", ["", "http://[", "unix:/a", "http://host:x/"])
def test_a_model_without_an_address_has_none(address: str) -> None:
    found: dict[str, Any] = dict(conventions.model_attributes({**MODEL, "baseUrl": address}))
    assert {"gen_ai.provider.name", "gen_ai.request.model"} == set(found)


def test_a_usage_that_is_unknown_is_left_out() -> None:
    assert {} == conventions.usage_attributes(zero_usage())
