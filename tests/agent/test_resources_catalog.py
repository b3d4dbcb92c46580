"""models.json: what it may hold, and what happens when it holds something else."""

import json
from pathlib import Path

import pytest

from pinnace_agent.resources.catalog import Catalog, read_catalog
from pinnace_spec.messages import Model

LOCAL: dict[str, object] = {"baseUrl": "http://127.0.0.1:8080/v1", "api": "openai-completions", "apiKey": "x"}


def read(tmp_path: Path, content: object) -> Catalog:
    file = tmp_path / "models.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_catalog(file)


def one_model(tmp_path: Path, provider: dict[str, object], **model: object) -> Model:
    content = {"providers": {"local": {**LOCAL, **provider, "models": [{"id": "m", **model}]}}}
    catalog = read(tmp_path, content)
    assert () == catalog.diagnostics
    (found,) = catalog.models
    return found


def test_a_missing_file_is_an_empty_catalog(tmp_path: Path) -> None:
    assert Catalog() == read_catalog(tmp_path / "models.json")


def test_a_model_is_its_id_and_defaults(tmp_path: Path) -> None:
    assert {
        "id": "m",
        "name": "m",
        "api": "openai-completions",
        "provider": "local",
        "baseUrl": "http://127.0.0.1:8080/v1",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 128_000,
        "maxTokens": 16_384,
    } == one_model(tmp_path, {})


def test_a_model_may_say_everything_itself(tmp_path: Path) -> None:
    described = {
        "name": "M",
        "api": "anthropic-messages",
        "baseUrl": "http://127.0.0.1:1",
        "reasoning": True,
        "thinkingLevelMap": {"off": None, "max": "ultra"},
        "input": ["text", "image"],
        "cost": {"input": 1, "output": 2.5, "cacheRead": 0.1, "cacheWrite": 1.25},
        "contextWindow": 8192,
        "maxTokens": 1024,
        "compat": {"supportsStore": False},
        "samplingParams": {"top_p": 0.9},
    }
    assert {"id": "m", "provider": "local", **described} == one_model(tmp_path, {}, **described)


def test_headers_and_keys_are_in_no_model(tmp_path: Path) -> None:
    model = one_model(tmp_path, {"headers": {"X-One": "sk-marker"}}, headers={"X-Two": "sk-marker"})
    assert "headers" not in model
    assert "sk-marker" not in repr(model)


def test_a_price_tier_takes_the_rates_that_it_does_not_name(tmp_path: Path) -> None:
    cost = {"input": 1, "output": 2, "tiers": [{"inputTokensAbove": 200_000, "input": 5}]}
    assert {
        "input": 1,
        "output": 2,
        "cacheRead": 0,
        "cacheWrite": 0,
        "tiers": [{"inputTokensAbove": 200_000, "input": 5, "output": 2, "cacheRead": 0, "cacheWrite": 0}],
    } == one_model(tmp_path, {}, cost=cost)["cost"]


def test_compat_of_the_model_goes_over_that_of_the_provider(tmp_path: Path) -> None:
    model = one_model(
        tmp_path,
        {"compat": {"supportsStore": True, "maxTokensField": "a", "openRouterRouting": {"only": 1, "order": 1}}},
        compat={"supportsStore": False, "openRouterRouting": {"order": 2}},
    )
    assert {
        "supportsStore": False,
        "maxTokensField": "a",
        "openRouterRouting": {"only": 1, "order": 2},
    } == model["compat"]


def test_an_override_goes_over_the_model(tmp_path: Path) -> None:
    override = {
        "name": "Over",
        "cost": {"output": 9},
        "compat": {"b": 2},
        "thinkingLevelMap": {"low": "l"},
        "input": ["text", "image"],
    }
    model = one_model(
        tmp_path,
        {"modelOverrides": {"m": override, "unknown": {"name": "nobody"}}},
        name="Under",
        cost={"input": 1, "output": 2},
        compat={"a": 1},
        thinkingLevelMap={"high": "h"},
    )
    assert "Over" == model["name"]
    assert {"input": 1, "output": 9, "cacheRead": 0, "cacheWrite": 0} == model["cost"]
    assert {"a": 1, "b": 2} == model["compat"]
    assert {"high": "h", "low": "l"} == model["thinkingLevelMap"]
    assert ["text", "image"] == model["input"]


def test_headers_of_the_definition_go_over_those_of_the_override_whatever_their_case(tmp_path: Path) -> None:
    content = {
        "providers": {
            "local": {
                **LOCAL,
                "modelOverrides": {"m": {"headers": {"X-A": "override", "X-B": "override"}}},
                "models": [{"id": "m", "headers": {"x-a": "definition"}}],
            }
        }
    }
    headers = read(tmp_path, content).model_headers["local", "m"]
    assert {"x-a": "definition", "X-B": "override"} == {name: value.reveal() for name, value in headers.items()}


def test_the_later_of_two_descriptions_of_an_id_counts(tmp_path: Path) -> None:
    models = [{"id": "a", "name": "first"}, {"id": "b"}, {"id": "a", "name": "second"}]
    catalog = read(tmp_path, {"providers": {"local": {**LOCAL, "models": models}}})
    assert [("a", "second"), ("b", "b")] == [(model["id"], model["name"]) for model in catalog.models]


def test_the_order_is_that_of_the_file(tmp_path: Path) -> None:
    providers = {name: {**LOCAL, "models": [{"id": "2"}, {"id": "1"}]} for name in ("z", "a")}
    names = [f"{model['provider']}/{model['id']}" for model in read(tmp_path, {"providers": providers}).models]
    assert ["z/2", "z/1", "a/2", "a/1"] == names


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("baseUrl", 1, "must be a text that is not empty"),
        ("baseUrl", "", "must be a text that is not empty"),
        ("apiKey", ["sk-marker"], "must be a text that is not empty"),
        ("authHeader", "yes", "must be true or false"),
        ("headers", {"X": 1}, "headers.X: must be a text"),
        ("models", {}, "must be a list"),
        ("models", [{}], "models[0].id: is missing"),
        ("models", [{"id": " "}], "models[0].id: must be a text that is not empty"),
        ("models", [{"id": "m"}, {"id": 7}], "models[1].id"),
        ("models", [{"id": "m", "contextWindow": 0}], "contextWindow: must be a number of at least 1"),
        ("models", [{"id": "m", "maxTokens": -1}], "maxTokens: must be a number of at least 1"),
        ("models", [{"id": "m", "maxTokens": True}], "maxTokens: must be a number of at least 1"),
        ("models", [{"id": "m", "maxTokens": 1e300}], "maxTokens: must be a number of at least 1"),
        ("models", [{"id": "m", "reasoning": None}], "reasoning: must be true or false"),
        ("models", [{"id": "m", "input": ["audio"]}], 'input[0]: must be "text" or "image"'),
        ("models", [{"id": "m", "cost": {"input": "1"}}], "cost.input: must be a number"),
        ("models", [{"id": "m", "cost": {"tiers": [{}]}}], "inputTokensAbove: is missing"),
        ("models", [{"id": "m", "thinkingLevelMap": {"low": 1}}], "thinkingLevelMap.low: must be a text or null"),
        ("modelOverrides", {"m": []}, "modelOverrides.m: must be an object"),
    ],
)
def test_a_file_that_breaks_the_schema_is_not_used_and_the_place_is_told(
    path: str, value: object, problem: str, tmp_path: Path
) -> None:
    good = {**LOCAL, "models": [{"id": "m"}]}
    catalog = read(tmp_path, {"providers": {"good": good, "bad": {**good, path: value}}})
    assert () == catalog.models
    (diagnostic,) = catalog.diagnostics
    assert str(tmp_path / "models.json") in str(diagnostic)
    assert f"providers.bad.{path}" in str(diagnostic)
    assert problem in str(diagnostic)
    assert "sk-marker" not in str(diagnostic)


def test_every_problem_is_told_up_to_a_screenful(tmp_path: Path) -> None:
    catalog = read(tmp_path, {"providers": {"p": {**LOCAL, "models": [{} for _ in range(30)]}}})
    text = str(catalog.diagnostics[0])
    assert "models[0].id" in text
    assert "models[19].id" in text
    assert "and 10 more" in text


@pytest.mark.parametrize("content", ["", "[]", "{", '{"providers": []}', '{"providers": {"p": 1}}'])
def test_a_damaged_file_is_an_empty_catalog_with_a_diagnostic(content: str, tmp_path: Path) -> None:
    catalog = read(tmp_path, content)
    assert () == catalog.models
    assert 1 == len(catalog.diagnostics)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ({}, "needs models, or one of"),
        ({"api": "openai-completions"}, "needs models, or one of"),
        ({"api": "openai-completions", "models": [{"id": "m"}]}, "models[0]: needs baseUrl"),
        ({"baseUrl": "http://x", "models": [{"id": "m"}]}, "models[0]: needs api"),
        ({"baseUrl": "http://x", "models": [{"id": "m", "api": "y"}, {"id": "n"}]}, "models[1]: needs api"),
    ],
)
def test_a_provider_that_makes_no_sense_is_left_out_alone(
    bad: dict[str, object], problem: str, tmp_path: Path
) -> None:
    catalog = read(tmp_path, {"providers": {"bad": bad, "good": {**LOCAL, "models": [{"id": "m"}]}}})
    assert ["good"] == [model["provider"] for model in catalog.models]
    (diagnostic,) = catalog.diagnostics
    assert problem in str(diagnostic)
    assert 'the provider "bad" is not used' in str(diagnostic)


def test_the_built_in_provider_cannot_be_described(tmp_path: Path) -> None:
    catalog = read(tmp_path, {"providers": {"offline": {**LOCAL, "models": [{"id": "rehearsal"}]}}})
    assert () == catalog.models
    assert "built in" in str(catalog.diagnostics[0])


def test_a_provider_may_only_change_how_it_is_let_in_to(tmp_path: Path) -> None:
    catalog = read(tmp_path, {"providers": {"openai": {"apiKey": "$MY_KEY"}}})
    assert () == catalog.diagnostics
    assert catalog.access["openai"].api_key is not None


def test_unknown_fields_are_other_programs_business(tmp_path: Path) -> None:
    content = {"$schema": "x", "providers": {"p": {**LOCAL, "future": 1, "models": [{"id": "m", "future": []}]}}}
    catalog = read(tmp_path, content)
    assert () == catalog.diagnostics
    assert "future" not in catalog.models[0]
