"""models.json over the built-in catalog: what the user says of a provider that is already known."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pinnace_agent.config.models.builtin import index
from pinnace_agent.config.models.catalog import Catalog, read_catalog
from pinnace_spec.records.messages import Model

BUILT_IN = Catalog()
OPENCODE = index().providers["opencode"]
ANTHROPIC_URL = "https://opencode.ai/inference/anthropic"


def read(folder: Path, provider: str, entry: Mapping[str, object]) -> Catalog:
    (folder / "models.json").write_text(json.dumps({"providers": {provider: entry}}))
    catalog = read_catalog(folder / "models.json")
    assert [] == [text for each in catalog.diagnostics for text in each.mistakes()]
    return catalog


def ids(models: Any) -> list[str]:
    return [model["id"] for model in models]


def one(catalog: Catalog, provider: str, model_id: str) -> Model:
    model = catalog.find(provider, model_id)
    assert model is not None
    return model


def test_an_address_goes_for_all_models_of_the_provider_and_changes_nothing_else(tmp_path: Path) -> None:
    catalog = read(tmp_path, "opencode", {"baseUrl": "http://proxy/v1"})

    expected = [{**model, "baseUrl": "http://proxy/v1"} for model in BUILT_IN.models_of("opencode")]
    assert expected == catalog.models_of("opencode")
    assert BUILT_IN.models_of("openai") == catalog.models_of("openai")


def test_flags_go_for_all_models_over_their_own(tmp_path: Path) -> None:
    compat = {"supportsStore": True, "mine": 1}
    catalog = read(tmp_path, "deepseek", {"compat": compat})

    for model, before in zip(catalog.models_of("deepseek"), BUILT_IN.models_of("deepseek"), strict=True):
        assert {**before["compat"], **compat} == model["compat"]
        assert "deepseek" == model["compat"]["thinkingFormat"]


def test_the_api_of_an_entry_goes_for_new_models_alone(tmp_path: Path) -> None:
    catalog = read(tmp_path, "deepseek", {"api": "openai-responses", "models": [{"id": "new"}]})

    assert ["openai-completions", "openai-completions", "openai-responses"] == [
        model["api"] for model in catalog.models_of("deepseek")
    ]


def test_a_model_that_the_user_describes_takes_the_place_of_the_built_in_one_whole(tmp_path: Path) -> None:
    models = [{"id": "deepseek-v4-pro", "name": "Mine"}, {"id": "new", "reasoning": True}]
    catalog = read(tmp_path, "deepseek", {"models": models})

    assert ["deepseek-flash", "deepseek-v4-pro", "new"] == ids(catalog.models_of("deepseek"))
    assert one(catalog, "deepseek", "deepseek-v4-pro") == {
        "id": "deepseek-v4-pro",
        "name": "Mine",
        "api": "openai-completions",
        "provider": "deepseek",
        "baseUrl": "https://api.deepseek.com",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 128_000,
        "maxTokens": 16_384,
    }


@pytest.mark.parametrize(
    ("description", "api", "url"),
    [
        # Of the same id, of the same API, of completions, or the first: in this order.
        ({"id": "claude-opus-5"}, "anthropic-messages", ANTHROPIC_URL),
        ({"id": "new", "api": "anthropic-messages"}, "anthropic-messages", ANTHROPIC_URL),
        ({"id": "new"}, "openai-completions", OPENCODE.base_url),
        ({"id": "new", "api": "made-up"}, "made-up", OPENCODE.base_url),
        ({"id": "new", "baseUrl": "http://x"}, "openai-completions", "http://x"),
        ({"id": "claude-opus-5", "api": "made-up"}, "made-up", ANTHROPIC_URL),
    ],
)
def test_api_and_address_that_are_not_said_are_those_of_a_neighbour(
    description: Mapping[str, object], api: str, url: str, tmp_path: Path
) -> None:
    model = one(read(tmp_path, "opencode", {"models": [description]}), "opencode", str(description["id"]))

    assert (api, url) == (model["api"], model["baseUrl"])


def test_without_a_neighbour_of_the_usual_api_the_first_model_is_taken(tmp_path: Path) -> None:
    model = one(read(tmp_path, "anthropic", {"models": [{"id": "new"}]}), "anthropic", "new")

    assert ("anthropic-messages", "https://api.anthropic.com") == (model["api"], model["baseUrl"])


def test_the_address_of_the_entry_takes_precedence_over_that_of_another_model(tmp_path: Path) -> None:
    models = [{"id": "new", "api": "anthropic-messages"}]
    catalog = read(tmp_path, "opencode", {"baseUrl": "http://proxy/v1", "models": models})

    assert "http://proxy/v1" == one(catalog, "opencode", "new")["baseUrl"]


def test_an_override_comes_last_for_built_in_and_described_models(tmp_path: Path) -> None:
    override = {"name": "Over", "cost": {"input": 9}, "thinkingLevelMap": {"low": "l"}, "compat": {"c": 3}}
    catalog = read(
        tmp_path,
        "deepseek",
        {
            "compat": {"a": 1, "b": 1, "c": 1},
            "models": [{"id": "new", "compat": {"b": 2, "c": 2}}],
            "modelOverrides": {"deepseek-v4-pro": override, "new": override, "absent": override},
        },
    )

    before, after = one(BUILT_IN, "deepseek", "deepseek-v4-pro"), one(catalog, "deepseek", "deepseek-v4-pro")
    assert "Over" == after["name"]
    assert {**before["cost"], "input": 9} == after["cost"]
    assert {**before["thinkingLevelMap"], "low": "l"} == after["thinkingLevelMap"]
    assert {**before["compat"], "a": 1, "b": 1, "c": 3} == after["compat"]
    assert {"a": 1, "b": 2, "c": 3} == one(catalog, "deepseek", "new")["compat"]
    assert ["deepseek-flash", "deepseek-v4-pro", "new"] == ids(catalog.models_of("deepseek"))


def test_the_built_in_catalog_is_not_changed_by_what_a_user_says(tmp_path: Path) -> None:
    before = json.dumps(BUILT_IN.models_of("deepseek"))
    override = {"cost": {"input": 9}, "compat": {"x": 1}, "thinkingLevelMap": {"low": "x"}}
    entry = {"baseUrl": "http://x", "compat": {"y": 1}, "modelOverrides": {"deepseek-v4-pro": override}}

    read(tmp_path, "deepseek", entry).models_of("deepseek")
    assert before == json.dumps(BUILT_IN.models_of("deepseek")) == json.dumps(Catalog().models_of("deepseek"))


def test_routing_is_merged_member_by_member(tmp_path: Path) -> None:
    entry = {
        "compat": {"openRouterRouting": {"only": ["x"], "order": ["p"]}, "vercelGatewayRouting": {"only": ["v"]}},
        "modelOverrides": {"moonshotai/kimi-k3": {"compat": {"openRouterRouting": {"order": ["o"]}}}},
    }
    compat = one(read(tmp_path, "openrouter", entry), "openrouter", "moonshotai/kimi-k3")["compat"]

    assert {"only": ["x"], "order": ["o"]} == compat["openRouterRouting"]
    assert {"only": ["v"]} == compat["vercelGatewayRouting"]


def test_new_providers_come_after_the_built_in_ones_in_the_order_of_the_file(tmp_path: Path) -> None:
    server = {"baseUrl": "http://x", "api": "openai-completions", "models": [{"id": "m"}]}
    content = {"providers": {"zz": server, "xai": {"models": [{"id": "m"}]}, "aa": server}}
    (tmp_path / "models.json").write_text(json.dumps(content))
    catalog = read_catalog(tmp_path / "models.json")

    assert [*index().providers, "zz", "aa"] == catalog.providers()
    assert "m" == ids(catalog.models_of("xai"))[-1]


def test_an_entry_that_says_nothing_leaves_the_built_in_models_alone(tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text('{"providers": {"xai": {}}}')
    catalog = read_catalog(tmp_path / "models.json")

    [diagnostic] = catalog.diagnostics
    assert "providers.xai: needs models, or one of baseUrl" in str(diagnostic)
    assert BUILT_IN.models_of("xai") == catalog.models_of("xai")


def test_models_of_an_extension_replace_the_built_in_ones() -> None:
    """`models` of `register_provider` are all that the provider has; what they leave out is as in the built-in ones."""
    catalog = Catalog()
    built_in = catalog.models_of("anthropic")
    replaced = catalog.with_provider("anthropic", {"models": [{"id": "mine"}]}, replaces_models=True)

    assert ["mine"] == [model["id"] for model in replaced.models_of("anthropic")]
    assert built_in[0]["baseUrl"] == replaced.models_of("anthropic")[0]["baseUrl"]
    assert [*built_in] == [*replaced.with_provider("anthropic", None).models_of("anthropic")]
