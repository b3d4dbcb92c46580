"""Which built-in models can be used, and what lets a request in."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from pinnace_agent.config.credentials.credentials import AuthFile, Credentials, StoredKey
from pinnace_agent.config.models.builtin import index, key_variables, unset_variables
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.patterns import ModelRequest, full_name
from pinnace_agent.config.models.selection import Choice, select_initial
from pinnace_agent.config.settings import Settings
from pinnace_agent.redaction.policy import Secret

OPUS = ("anthropic", "claude-opus-5-5")


def registry_of(
    folder: Path,
    env: Mapping[str, str] | None = None,
    providers: Mapping[str, object] | None = None,
    stored: Mapping[str, StoredKey] | None = None,
) -> ModelRegistry:
    (folder / "models.json").write_text(json.dumps({"providers": providers or {}}))
    return ModelRegistry(read_catalog(folder / "models.json"), AuthFile(stored or {}), env or {})


async def credentials(registry: ModelRegistry, name: tuple[str, str] = OPUS) -> Credentials:
    model = registry.find(*name)
    assert model is not None
    return await registry.credentials(model)


def providers_of(registry: ModelRegistry) -> list[str]:
    return list(dict.fromkeys(model["provider"] for model in registry.available()))


@pytest.mark.parametrize("provider", index().providers)
async def test_each_variable_of_a_provider_opens_it(provider: str, tmp_path: Path) -> None:
    """With those of its address, where it has any."""
    others = dict.fromkeys(unset_variables(provider, {}), "a-1")
    for name in key_variables(provider):
        registry = registry_of(tmp_path, {name: "the-key", **others})
        assert provider in providers_of(registry)
        found = await credentials(registry, (provider, index().providers[provider].default_model))
        assert found.problem is None
        assert "the-key" in (found.api_key, found.headers.get("Authorization", "").removeprefix("Bearer "))


def test_without_a_key_nothing_is_available_and_everything_is_known(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, {"ANTHROPIC_API_KEY": ""})
    assert [] == registry.available()
    assert registry.first_available() is None
    assert 1_000 < len(registry.all())


@pytest.mark.parametrize(
    ("env", "key", "headers"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, "k", {}),
        ({"ANTHROPIC_OAUTH_TOKEN": "sk-ant-oat01-x"}, "sk-ant-oat01-x", {}),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, None, {"Authorization": "Bearer t"}),
        ({"ANTHROPIC_OAUTH_TOKEN": "o", "ANTHROPIC_API_KEY": "k"}, "o", {}),
        (
            {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_OAUTH_TOKEN": "o", "ANTHROPIC_API_KEY": "k"},
            None,
            {"Authorization": "Bearer t"},
        ),
    ],
)
async def test_a_token_of_anthropic_is_sent_as_one_and_takes_precedence_over_a_key(
    env: Mapping[str, str], key: str | None, headers: Mapping[str, str], tmp_path: Path
) -> None:
    found = await credentials(registry_of(tmp_path, env))
    assert (key, headers, None) == (found.api_key, found.headers, found.problem)


async def test_a_header_of_the_user_takes_precedence_over_a_token_of_the_environment(tmp_path: Path) -> None:
    entry = {"anthropic": {"headers": {"authorization": "Bearer mine"}}}
    found = await credentials(registry_of(tmp_path, {"ANTHROPIC_AUTH_TOKEN": "t"}, entry))
    assert (None, {"authorization": "Bearer mine"}) == (found.api_key, found.headers)


async def test_any_other_source_of_a_key_takes_precedence_over_a_token_of_the_environment(tmp_path: Path) -> None:
    entry = {"anthropic": {"apiKey": "described"}}
    stored = {"anthropic": StoredKey(Secret("stored"), {})}
    env = {"ANTHROPIC_AUTH_TOKEN": "t"}
    for registry, expected in [
        (registry_of(tmp_path, env, entry), "described"),
        (registry_of(tmp_path, env, entry, stored), "stored"),
    ]:
        found = await credentials(registry)
        assert (expected, {}) == (found.api_key, found.headers)
    registry.use_key("anthropic", "flag")
    found = await credentials(registry)
    assert ("flag", {}) == (found.api_key, found.headers)


async def test_a_header_that_carries_a_key_opens_all_models_or_the_one_that_has_it(tmp_path: Path) -> None:
    headers = {"headers": {"Authorization": "Bearer x"}}
    assert ["xai"] == providers_of(registry_of(tmp_path, {}, {"xai": headers}))

    alone = registry_of(tmp_path, {}, {"xai": {"modelOverrides": {"grok-4.7": headers}}})
    assert ["xai/grok-4.7"] == [full_name(model) for model in alone.available()]
    assert (await credentials(alone, ("xai", "grok-4.7"))).headers == headers["headers"]
    assert (await credentials(alone, ("xai", "grok-4.6"))).problem is not None


async def test_a_header_of_a_model_s_description_takes_precedence_over_its_override(tmp_path: Path) -> None:
    entry = {
        "headers": {"A": "provider", "B": "provider", "C": "provider"},
        "modelOverrides": {"m": {"headers": {"b": "override", "c": "override"}}},
        "models": [{"id": "m", "headers": {"C": "model"}}],
    }
    found = await credentials(registry_of(tmp_path, {"XAI_API_KEY": "k"}, {"xai": entry}), ("xai", "m"))
    assert {"A": "provider", "b": "override", "C": "model"} == found.headers


async def test_the_problem_of_a_missing_key_names_its_variable(tmp_path: Path) -> None:
    problem = (await credentials(registry_of(tmp_path))).problem or ""
    assert problem.startswith("No API key found for anthropic.")
    assert "ANTHROPIC_API_KEY" in problem
    assert "ANTHROPIC_AUTH_TOKEN" not in problem


def test_a_command_is_a_key_that_is_not_looked_at(tmp_path: Path) -> None:
    """Nothing runs when models are listed."""
    mark = tmp_path / "ran"
    entry = {"apiKey": f"!touch {mark}; echo k", "headers": {"X": f"!touch {mark}"}}
    registry = registry_of(tmp_path, {}, {"xai": entry})

    assert ["xai"] == providers_of(registry)
    assert registry.resolve(ModelRequest("grok-4.7")).model is not None
    assert select_initial(registry, Settings(), Choice(scope=("xai/*",))).model is not None
    assert not mark.exists()


@pytest.mark.parametrize(
    ("described", "env", "sent"),
    [
        ("XAI_API_KEY", {"XAI_API_KEY": "value"}, "value"),
        ("MY_NAME", {}, "MY_NAME"),
        ("lower_name", {"lower_name": "value"}, "lower_name"),
        ("$XAI_API_KEY", {"XAI_API_KEY": "value"}, "value"),
        ("$$XAI_API_KEY", {"XAI_API_KEY": "value"}, "$XAI_API_KEY"),
        ("$!cmd", {}, "!cmd"),
        ("a-${P}-b", {"P": "x"}, "a-x-b"),
        ("$P", {"P": "$Q", "Q": "again"}, "$Q"),
    ],
)
async def test_a_key_is_a_variable_where_it_says_so(
    described: str, env: Mapping[str, str], sent: str, tmp_path: Path
) -> None:
    """A dollar sign says so; the bare name of a variable that is set counts as old files mean it."""
    registry = registry_of(tmp_path, env, {"xai": {"apiKey": described}})
    assert sent == (await credentials(registry, ("xai", "grok-4.7"))).api_key


async def test_a_name_that_is_not_set_is_never_sent(tmp_path: Path) -> None:
    """The bare name of a variable that is not set."""
    found = await credentials(registry_of(tmp_path, {}, {"xai": {"apiKey": "$MISSING"}}), ("xai", "grok-4.7"))
    assert (None, {}) == (found.api_key, found.headers)
    assert "the variable MISSING is not set" in (found.problem or "")


@pytest.mark.parametrize(
    ("env", "model"),
    [
        ({}, None),
        ({"XAI_API_KEY": "k"}, "xai/grok-4.7"),
        ({"GROQ_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai/gpt-6.1-sol"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "anthropic/claude-opus-5-5"),
        ({"OPENCODE_API_KEY": "k"}, "opencode/kimi-k2.7-code"),
        ({"MISTRAL_API_KEY": "k"}, "mistral/devstral-medium-latest"),
        ({"COPILOT_GITHUB_TOKEN": "k"}, "github-copilot/gpt-6.1-sol"),
        ({"TYPESAFE_API_KEY": "k"}, None),
    ],
)
def test_a_process_without_a_choice_starts_with_the_default_of_the_first_provider_with_a_key(
    env: Mapping[str, str], model: str | None, tmp_path: Path
) -> None:
    selection = select_initial(registry_of(tmp_path, env), Settings(), Choice())
    assert model == (None if selection.model is None else full_name(selection.model))


def test_a_default_takes_precedence_over_the_user_s_own_models_and_these_over_others(tmp_path: Path) -> None:
    own = {"mine": {"baseUrl": "http://x", "api": "openai-completions", "apiKey": "k", "models": [{"id": "m"}]}}
    for env, expected in [({"XAI_API_KEY": "k"}, "xai/grok-4.7"), ({}, "mine/m")]:
        selection = select_initial(registry_of(tmp_path, env, own), Settings(), Choice())
        assert selection.model is not None
        assert expected == full_name(selection.model)


def test_a_default_whose_api_is_not_spoken_is_ignored(tmp_path: Path) -> None:
    override = {"xai": {"modelOverrides": {"grok-4.7": {"api": "made-up"}}}}
    selection = select_initial(registry_of(tmp_path, {"XAI_API_KEY": "k"}, override), Settings(), Choice())
    assert selection.model is not None
    assert "xai/grok-4.3" == full_name(selection.model)


def test_a_saved_default_without_a_key_is_reported_and_ignored(tmp_path: Path) -> None:
    settings = Settings(default_provider="openai", default_model="gpt-5")
    selection = select_initial(registry_of(tmp_path, {"XAI_API_KEY": "k"}), settings, Choice())
    assert selection.model is not None
    assert "xai/grok-4.7" == full_name(selection.model)
    assert selection.warnings == (
        "The saved default model openai/gpt-5 is not available: openai has no key: set OPENAI_API_KEY, or run pinnace "
        "auth login openai.",
    )


@pytest.mark.parametrize(
    ("provider", "model", "why"),
    [
        ("opnai", "gpt-5", "there is no provider opnai; did you mean openai?"),
        ("xai", "grok-4.8", "xai has no model grok-4.8; did you mean grok-4.7?"),
        ("xai", "zzz", "xai has no model zzz"),
    ],
)
def test_a_saved_default_that_does_not_exist_is_reported_with_the_nearest(
    provider: str, model: str, why: str, tmp_path: Path
) -> None:
    settings = Settings(default_provider=provider, default_model=model)
    selection = select_initial(registry_of(tmp_path, {"XAI_API_KEY": "k"}), settings, Choice())
    assert (f"The saved default model {provider}/{model} is not available: {why}.",) == selection.warnings


def test_a_model_without_a_key_can_be_named_on_the_command_line_and_nowhere_else(tmp_path: Path) -> None:
    registry = registry_of(tmp_path, {"XAI_API_KEY": "k"})
    found = registry.resolve(ModelRequest("openai/gpt-5")).model
    assert found is not None
    assert not registry.is_usable(found)
    assert found not in registry.available()
    assert () == select_initial(registry, Settings(), Choice(scope=("openai/gpt-5",))).scope


def test_the_level_of_a_model_in_the_settings_takes_precedence_over_the_default(tmp_path: Path) -> None:
    settings = Settings(model_thinking_levels={"xai/grok-4.7": "high"}, default_thinking_level="low")
    registry = registry_of(tmp_path, {"XAI_API_KEY": "k"})
    assert "high" == select_initial(registry, settings, Choice()).level
    assert "low" == select_initial(registry, settings, Choice(model="grok-4.6")).level
    assert "low" == select_initial(registry, settings, Choice(model="grok-4.7:low")).level
