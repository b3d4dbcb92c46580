"""The status of a key agrees with what a request does."""

import json
from pathlib import Path

import pytest

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.credentials.key_status import KeyStatus, key_status
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.models import ModelRegistry

ENV = {"SET": "sk-set", "GROQ_API_KEY": "sk-groq"}
KEYS = (None, "sk", "$SET", "$UNSET", "!exit 1", "SET")
MODEL: dict[str, object] = {"baseUrl": "http://127.0.0.1:1/v1", "api": "openai-completions", "models": [{"id": "m"}]}


@pytest.mark.parametrize("provider", ["groq", "mine"])
@pytest.mark.parametrize("header", [None, "sk"])
@pytest.mark.parametrize("in_models", KEYS)
@pytest.mark.parametrize("in_auth", [*KEYS, "login", "own", "two\nlines"])
def test_a_provider_has_a_key_for_people_if_and_only_if_it_has_one_for_the_agent(
    in_auth: str | None, in_models: str | None, header: str | None, provider: str, tmp_path: Path
) -> None:
    entries: dict[str | None, object] = {
        None: {},
        "login": {provider: {"type": "oauth"}},
        "own": {provider: {"type": "api_key", "key": "$UNSET", "env": {"UNSET": "sk"}}},
    }
    (tmp_path / "auth.json").write_text(
        json.dumps(entries.get(in_auth, {provider: {"type": "api_key", "key": in_auth}}))
    )
    described = MODEL | ({} if in_models is None else {"apiKey": in_models})
    described |= {} if header is None else {"headers": {"X-API-Key": header}}
    (tmp_path / "models.json").write_text(json.dumps({"providers": {provider: described}}))
    catalog, auth = read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json")
    registry = ModelRegistry(catalog, auth, ENV)
    model = registry.find(provider, "m")
    assert model is not None

    status = key_status(provider, catalog, auth, ENV)
    assert registry.is_usable(model) == status.is_usable
    assert status.is_usable or status.problem is not None or status.source is None
    assert "sk" not in repr(status)


def test_the_first_source_is_reported(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text('{"groq": {"type": "api_key", "key": "$UNSET"}}')
    catalog, auth = read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json")

    assert KeyStatus("groq", "variable", "GROQ_API_KEY", is_usable=True) == key_status("groq", catalog, auth, ENV)
    assert KeyStatus("groq", "auth.json", problem="the variable UNSET is not set") == key_status(
        "groq", catalog, auth, {}
    )


@pytest.mark.parametrize("key", ["gsk-sk\n", "é-sk", "sk\r\nX: 1"])
async def test_a_variable_that_no_header_can_carry_is_no_key_and_named(key: str, tmp_path: Path) -> None:
    """For people, for the agent, and at the start; another variable of the provider takes its place."""
    env = {
        "ANTHROPIC_AUTH_TOKEN": key,
        "ANTHROPIC_API_KEY": "sk",
        "GROQ_API_KEY": key,
        "PI_CODING_AGENT_DIR": str(tmp_path),
    }
    catalog, auth = read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json")
    registry = ModelRegistry(catalog, auth, env)
    problem = "it holds a line break or another character that a header can't carry"

    assert KeyStatus("groq", "variable", "GROQ_API_KEY", problem=problem) == key_status("groq", catalog, auth, env)
    refused = (await registry.credentials(registry.models_of("groq")[0])).problem or ""
    assert f"The variable GROQ_API_KEY can't be used: {problem}." in refused
    assert not registry.is_usable(registry.models_of("groq")[0])
    assert "ANTHROPIC_API_KEY" == key_status("anthropic", catalog, auth, env).variable
    assert "sk" == (await registry.credentials(registry.models_of("anthropic")[0])).api_key
    said = [each.text for each in load_configuration(env, tmp_path).notices]
    assert [
        f"the variable {name} can't be used: {problem}" for name in ("ANTHROPIC_AUTH_TOKEN", "GROQ_API_KEY")
    ] == said
    assert "sk" not in refused
