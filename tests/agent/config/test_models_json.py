"""models.json: descriptions become models; problems are reported with their place, and affect nothing else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pinnace_agent.config.credentials.credentials import AuthFile
from pinnace_agent.config.credentials.known_keys import learn_keys
from pinnace_agent.config.models.builtin import index
from pinnace_agent.config.models.catalog import Catalog, LeftOut, read_catalog
from pinnace_agent.config.models.damaged_catalog import usable_entries
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.patterns import ModelRequest
from pinnace_agent.redaction.redactor import Redactor
from pinnace_spec.records.messages import Model

_COMPAT_OF_THE_ORIGINAL = """
    allowEmptySignature allowedFallbackModels cacheControlFormat chatTemplateArgs chatTemplateKwargs
    forceAdaptiveThinking imageInput maxTokensField openRouterRouting promptCacheKeyMode
    requiresAssistantAfterToolResult requiresNonNullAssistantContent requiresReasoningContentOnAssistantMessages
    requiresThinkingAsText requiresToolResultName requiresToolsWithToolHistory sendImageOptInHeader
    sendSessionAffinityHeaders sessionAffinityFormat supportsAdditionalTools supportsCacheControlOnTools
    supportsDeveloperRole supportsEagerToolInputStreaming supportsExplicitPromptCacheMode supportsFinishReason
    supportsLongCacheRetention supportsMaxOutputTokens supportsMessageThreads supportsMidConvoEffort
    supportsMidConvoSystemMessages supportsMidConvoToolAdditions supportsMidConvoToolChanges
    supportsOpenAIGrammarTools supportsReasoningEffort supportsStore supportsStrictMode supportsStrictTools
    supportsTemperature supportsThinkingTokenBudget supportsToolSearch supportsUsageInStreaming thinkingFormat
    thinkingTokenBudgetField vercelGatewayRouting vllmPriority zaiToolStream
    """.split()
URL = "http://127.0.0.1:8080/v1"
LOCAL: dict[str, Any] = {"baseUrl": URL, "api": "openai-completions", "apiKey": "k"}


def read(folder: Path, content: object) -> Catalog:
    """Read a models.json of this content: a text as it is, anything else as JSON."""
    file = folder / "models.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_catalog(file)


def read_provider(folder: Path, **fields: object) -> Catalog:
    return read(folder, {"providers": {"local": {**LOCAL, **fields}}})


def model_of(folder: Path, **fields: object) -> Model:
    """Read one model, with these fields and an id, of a provider that has what is needed."""
    catalog = read_provider(folder, models=[{"id": "m", **fields}])
    assert [] == mistakes(catalog)
    return catalog.models_of("local")[0]


def mistakes(catalog: Catalog) -> list[str]:
    """Return the places of all problems but hints."""
    return [each.path for found in catalog.diagnostics for each in found.problems if not each.is_hint]


def hints(catalog: Catalog) -> dict[str, str]:
    """Return the hints by their places."""
    return {each.path: each.message for found in catalog.diagnostics for each in found.problems if each.is_hint}


def described_providers(catalog: Catalog) -> list[str]:
    """Return the providers that are not built in."""
    return [provider for provider in catalog.providers() if provider not in index().providers]


def described(catalog: Catalog) -> list[Model]:
    return [model for provider in described_providers(catalog) for model in catalog.models_of(provider)]


def test_a_missing_file_leaves_the_built_in_models(tmp_path: Path) -> None:
    catalog = read_catalog(tmp_path / "models.json")
    assert () == catalog.diagnostics
    assert Catalog().providers() == catalog.providers()


def test_a_model_needs_nothing_but_an_id(tmp_path: Path) -> None:
    assert model_of(tmp_path) == {
        "id": "m",
        "name": "m",
        "api": "openai-completions",
        "provider": "local",
        "baseUrl": URL,
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 128_000,
        "maxTokens": 16_384,
    }


def test_the_limits_of_a_model_take_precedence_over_the_default(tmp_path: Path) -> None:
    told: dict[str, Any] = {
        "name": "M",
        "api": "other",
        "baseUrl": "http://there",
        "reasoning": True,
        "input": ["text", "image", "text"],
        "cost": {"input": 1.5, "output": 2},
        "contextWindow": 1000,
        "maxTokens": 10.0,
        "thinkingLevelMap": {"high": None, "xhigh": "most"},
        "samplingParams": {"temperature": 0.1},
        "compat": {"supportsStore": False, "unknownToday": [1]},
    }

    assert model_of(tmp_path, **told) == {
        **told,
        "id": "m",
        "provider": "local",
        "input": ["text", "image"],
        "cost": {"input": 1.5, "output": 2, "cacheRead": 0, "cacheWrite": 0},
        "maxTokens": 10,
    }


def test_a_tier_has_the_rates_below_it_where_it_names_none(tmp_path: Path) -> None:
    cost = {"input": 1, "output": 2, "tiers": [{"inputTokensAbove": 1000, "input": 3}]}

    tier = {"input": 3, "output": 2, "cacheRead": 0, "cacheWrite": 0, "inputTokensAbove": 1000}
    assert model_of(tmp_path, cost=cost)["cost"]["tiers"] == [tier]


def test_comments_and_last_commas_and_a_schema_are_allowed(tmp_path: Path) -> None:
    catalog = read(
        tmp_path,
        """\ufeff// mine
        {"$schema": "https://example.test/models.schema.json", // not looked at
         "providers": {"local": {
           "baseUrl": "http://127.0.0.1:8080//v1", "api": "openai-completions",
           "models": [{"id": "a",}, {"id": "b"},], // two
         },},}""",
    )

    assert () == catalog.diagnostics
    assert [model["id"] for model in catalog.models_of("local")] == ["a", "b"]
    assert catalog.models_of("local")[0]["baseUrl"] == "http://127.0.0.1:8080//v1"


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        ({"provider": {}}, "provider", "is not known; did you mean providers?"),
        ({"$schema": 1, "theme": {}}, "theme", "is not known"),
        ({"providers": {"local": {**LOCAL, "baseURL": URL}}}, "providers.local.baseURL", "did you mean baseUrl?"),
        ({"providers": {"local": {**LOCAL, "api_key": "k"}}}, "providers.local.api_key", "did you mean apiKey?"),
        ({"providers": {"local": {**LOCAL, "new": 1}}}, "providers.local.new", "is not known"),
        (
            {"providers": {"local": {**LOCAL, "compat": {"supportStore": True}}}},
            "providers.local.compat.supportStore",
            "did you mean supportsStore?",
        ),
        (
            {"providers": {"local": {**LOCAL, "models": [{"id": "m", "contextwindow": 1}]}}},
            "providers.local.models[0].contextwindow",
            "did you mean contextWindow?",
        ),
        (
            {"providers": {"local": {**LOCAL, "models": [{"id": "m", "cost": {"inputs": 1}}]}}},
            "providers.local.models[0].cost.inputs",
            "did you mean input?",
        ),
        (
            {"providers": {"local": {**LOCAL, "modelOverrides": {"m": {"maxToken": 1}}}}},
            "providers.local.modelOverrides.m.maxToken",
            "did you mean maxTokens?",
        ),
        ({"providers": {"local": {**LOCAL, "x" * 500: 1}}}, f"providers.local.{'x' * 100}", "is not known"),
    ],
)
def test_an_unknown_field_is_named_with_the_nearest_known_one_and_costs_nothing(
    content: dict[str, Any], place: str, message: str, tmp_path: Path
) -> None:
    catalog = read(tmp_path, content)

    assert [] == mistakes(catalog)
    assert [place] == list(hints(catalog))
    assert hints(catalog)[place].endswith(message)
    assert str(catalog.diagnostics[0]).endswith("(ignored)")
    assert set(content.get("providers", {})) == set(described_providers(catalog))


def test_every_field_that_the_original_knows_is_known(tmp_path: Path) -> None:
    """Those of the schema of pi 1.5.2, down to the flags of `compat`."""
    cost = {"input": 1, "output": 1, "cacheRead": 1, "cacheWrite": 1}
    fields = {
        "name": "M",
        "reasoning": True,
        "thinkingLevelMap": {"off": None, "max": "m"},
        "input": ["text"],
        "inputLimits": {"images": {"maxPerMessage": 1}},
        "cost": {**cost, "tiers": [{**cost, "inputTokensAbove": 1}]},
        "promptCache": {"short": 1},
        "contextWindow": 1,
        "maxTokens": 1,
        "samplingParams": {"min_p": 1},
        "samplingParamsByThinkingLevel": {"off": {"min_p": 1}},
        "headers": {"x": "y"},
        "compat": dict.fromkeys(_COMPAT_OF_THE_ORIGINAL, True),
    }
    provider = {**LOCAL, "name": "L", "oauth": "radius", "headers": {}, "authHeader": True, "compat": fields["compat"]}
    models = [{"id": "m", "api": "a", "baseUrl": URL, **fields}]
    entry = {**provider, "models": models, "modelOverrides": {"m": fields}}
    catalog = read(tmp_path, {"$schema": "s", "providers": {"local": entry}})

    assert () == catalog.diagnostics


def test_models_stay_in_the_order_of_the_file_and_a_repeated_id_takes_the_first_place(tmp_path: Path) -> None:
    models = [{"id": "z"}, {"id": "a", "name": "first"}, {"id": "z", "name": "again"}]
    catalog = read(tmp_path, {"providers": {"two": {**LOCAL, "models": models}, "one": {**LOCAL, "models": models}}})

    assert [(model["provider"], model["name"]) for model in described(catalog)] == [
        ("two", "again"),
        ("two", "first"),
        ("one", "again"),
        ("one", "first"),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"providers": {', "is not valid JSON"),
        ('{"providers": {}}\n}', "line 2"),
        ("[]", "is not a JSON object"),
        ("", "is not valid JSON"),
        ('{"providers": {"local": {"models": [{"id": "m", "maxTokens": 1e999}]}}}', "is not valid JSON"),
    ],
)
def test_a_damaged_file_is_ignored_and_reported_with_its_name(text: str, told: str, tmp_path: Path) -> None:
    catalog = read(tmp_path, text)

    assert [] == described_providers(catalog)
    assert str(catalog.diagnostics[0]).startswith(f"{tmp_path / 'models.json'}: ")
    assert told in str(catalog.diagnostics[0])
    assert str(catalog.diagnostics[0]).endswith("(the file is ignored)")


@pytest.mark.parametrize(
    ("content", "path", "message"),
    [
        ({"providers": {"local": "x"}}, "providers.local", "must be an object"),
        ({"providers": {"local": {**LOCAL, "baseUrl": 1}}}, "providers.local.baseUrl", "must be a string that is not"),
        ({"providers": {"local": {**LOCAL, "apiKey": ""}}}, "providers.local.apiKey", "must be a string that is not"),
        ({"providers": {"local": {**LOCAL, "api": None}}}, "providers.local.api", "must be a string that is not"),
        ({"providers": {"local": {**LOCAL, "headers": {"a": 1}}}}, "providers.local.headers.a", "must be a string"),
        ({"providers": {"local": {**LOCAL, "headers": []}}}, "providers.local.headers", "must be an object"),
        ({"providers": {"local": {**LOCAL, "authHeader": 1}}}, "providers.local.authHeader", "must be true or false"),
        ({"providers": {"local": {**LOCAL, "models": {}}}}, "providers.local.models", "must be a list"),
    ],
)
def test_a_wrong_field_of_a_provider_leaves_out_the_provider_and_is_named(
    content: dict[str, Any], path: str, message: str, tmp_path: Path
) -> None:
    content["providers"]["good"] = {**LOCAL, "models": [{"id": "good"}]}
    catalog = read(tmp_path, content)

    [problem] = catalog.diagnostics[0].problems
    assert problem.path == path
    assert message in problem.message
    assert str(catalog.diagnostics[0]).endswith('(the provider "local" is left out)')
    assert ["good"] == described_providers(catalog)
    assert ["good"] == [model["id"] for model in described(catalog)]


def test_a_file_whose_providers_are_no_object_is_ignored(tmp_path: Path) -> None:
    catalog = read(tmp_path, {"providers": []})

    assert ["providers"] == mistakes(catalog)
    assert str(catalog.diagnostics[0]).endswith("providers: must be an object (the file is ignored)")
    assert [] == described_providers(catalog)


@pytest.mark.parametrize(
    ("fields", "place", "message"),
    [
        ({}, "id", "is missing"),
        ({"id": ""}, "id", "must be a string that is not empty"),
        ({"id": " "}, "id", "must be a string that is not empty"),
        ({"id": "m", "reasoning": "yes"}, "reasoning", "must be true or false"),
        ({"id": "m", "input": "text"}, "input", "must be a list"),
        ({"id": "m", "input": ["text", "sound"]}, "input[1]", 'must be "text" or "image"'),
        ({"id": "m", "input": [{}]}, "input[0]", 'must be "text" or "image"'),
        ({"id": "m", "contextWindow": 0}, "contextWindow", "must be a number of at least 1"),
        ({"id": "m", "contextWindow": -5}, "contextWindow", "must be a number of at least 1"),
        ({"id": "m", "maxTokens": 0}, "maxTokens", "must be a number of at least 1"),
        ({"id": "m", "maxTokens": 0.5}, "maxTokens", "must be a number of at least 1"),
        ({"id": "m", "maxTokens": "10"}, "maxTokens", "must be a number of at least 1"),
        ({"id": "m", "maxTokens": True}, "maxTokens", "must be a number of at least 1"),
        ({"id": "m", "maxTokens": 1e300}, "maxTokens", "must be a number of at least 1"),
        ({"id": "m", "cost": {"input": "free"}}, "cost.input", "must be a number"),
        ({"id": "m", "cost": 1}, "cost", "must be an object"),
        ({"id": "m", "cost": {"tiers": [{}]}}, "cost.tiers[0].inputTokensAbove", "is missing"),
        ({"id": "m", "thinkingLevelMap": {"high": 3}}, "thinkingLevelMap.high", "must be a string or null"),
        ({"id": "m", "headers": {"x": None}}, "headers.x", "must be a string"),
        ({"id": "m", "compat": []}, "compat", "must be an object"),
    ],
)
def test_a_wrong_field_of_one_model_leaves_out_the_model_and_is_named(
    fields: dict[str, object], place: str, message: str, tmp_path: Path
) -> None:
    good = {**LOCAL, "models": [{"id": "good"}]}
    catalog = read(tmp_path, {"providers": {"good": good, "local": {**LOCAL, "models": [{"id": "a"}, fields]}}})

    [problem] = catalog.diagnostics[0].problems
    assert (problem.path, problem.message) == (f"providers.local.models[1].{place}", message)
    assert str(catalog.diagnostics[0]).endswith('(these models of the provider "local" are left out)')
    assert ["good", "a"] == [model["id"] for model in described(catalog)]


@pytest.mark.parametrize("damaged", [1, {"name": 1}])
def test_a_wrong_override_leaves_out_its_model_alone(damaged: object, tmp_path: Path) -> None:
    """Not only the override: the model would be used at another price, or with other headers, than configured."""
    catalog = read_provider(
        tmp_path, models=[{"id": "m"}, {"id": "n"}], modelOverrides={"m": damaged, "n": {"name": "N"}}
    )

    assert ["N"] == [model["name"] for model in described(catalog)]
    assert mistakes(catalog)[0].startswith("providers.local.modelOverrides.m")


def _places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, member in inner for each in ((*path, key), *_places(member, (*path, key)))]


WHOLE: dict[str, Any] = {
    "anthropic": {
        "baseUrl": "http://gateway.test",
        "headers": {"x": "y"},
        "models": [{"id": "claude-own", "maxTokens": 5}],
        "modelOverrides": {"claude-opus-4-5": {"cost": {"input": 1}}, "claude-sonnet-4-5": {"name": "S"}},
    },
    "local": {
        **LOCAL,
        "authHeader": True,
        "models": [
            {"id": "a", "headers": {"x": "y"}, "input": ["text"], "thinkingLevelMap": {"high": None}},
            {"id": "b", "cost": {"input": 1, "tiers": [{"inputTokensAbove": 1, "output": 2}]}, "contextWindow": 9},
        ],
        "modelOverrides": {"b": {"maxTokens": 7, "compat": {"supportsStore": True}}},
    },
    "other": {**LOCAL, "models": [{"id": "c", "reasoning": True}]},
}
PLACES = [path for path in _places(WHOLE) if len(path) > 1]


@pytest.mark.parametrize("wrong", [None, 5, -1.5, True, "", "text", [], [1], {}, {"x": 1}], ids=repr)
def test_a_damaged_entry_leaves_all_others_as_they_were(wrong: object, tmp_path: Path) -> None:
    """At every place of a file: other providers, and other models of the same one, are what they were before."""
    before = read(tmp_path, {"providers": WHOLE})
    assert () == before.diagnostics
    reported = 0
    for path in PLACES:
        content = json.loads(json.dumps(WHOLE))
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = wrong
        after = read(tmp_path, {"providers": content})
        reported += bool(mistakes(after))
        owner = str(path[0])
        of_model: str | None = None
        if len(path) > 2:
            of_model = str(WHOLE[owner]["models"][path[2]]["id"]) if path[1] == "models" else None
            of_model = str(path[2]) if path[1] == "modelOverrides" else of_model
        for provider in WHOLE:
            if provider != owner:
                assert after.models_of(provider) == before.models_of(provider), path
                assert _shown(after, provider) == _shown(before, provider), path
            elif of_model is not None:
                kept = [each for each in before.models_of(owner) if each["id"] != of_model]
                assert [each for each in after.models_of(owner) if each["id"] in {one["id"] for one in kept}] == kept, (
                    path
                )
                assert after.access_of(owner).api_key is not None or owner == "anthropic"
            is_of_provider = not any(re.search(r"models\[|Overrides\.", each) for each in mistakes(after))
            if provider == owner and mistakes(after) and is_of_provider:
                # Nothing goes where the user did not want it: not to the built-in address either.
                assert [] == after.models_of(owner), path
            elif provider == owner and mistakes(after) and of_model is not None:
                assert of_model not in [each["id"] for each in after.models_of(owner)], path
    assert reported > len(PLACES) / 3


def _shown(catalog: Catalog, provider: str) -> object:
    access, headers = catalog.access_of(provider), catalog.headers_of(provider)
    return (
        access.api_key and access.api_key.reveal(),
        {name: value.reveal() for name, value in access.headers.items()},
        access.has_auth_header,
        {model: {name: value.reveal() for name, value in each.items()} for model, each in headers.items()},
    )


def test_the_keys_of_a_damaged_entry_are_kept_out_of_output(tmp_path: Path) -> None:
    redactor = Redactor()
    models = [{"id": "m", "maxTokens": "many", "headers": {"Authorization": "Bearer hdr-4f9a7c21e8b05d36"}}]
    entry = {**LOCAL, "apiKey": "key-9b1d7f3e5a2c8064", "name": 5, "models": models}
    learn_keys(read(tmp_path, {"providers": {"local": entry}}), AuthFile({}), {}, redactor)

    assert "9b1d7f3e5a2c8064" not in redactor.text("key-9b1d7f3e5a2c8064")
    assert "4f9a7c21e8b05d36" not in redactor.text("hdr-4f9a7c21e8b05d36")


@pytest.mark.parametrize(
    ("pattern", "provider", "error"),
    [
        ("m", None, "The model local/m is left out"),
        ("local/m", None, "The model local/m is left out"),
        ("M:high", "local", "The model local/m is left out"),
        ("claude-opus-4-5", "anthropic", 'The provider "anthropic" is left out'),
        ("anthropic/claude-opus-4-5", None, 'The provider "anthropic" is left out'),
        ("m2", None, None),
    ],
)
def test_what_is_left_out_is_not_taken_for_another_model(
    pattern: str, provider: str | None, error: str | None, tmp_path: Path
) -> None:
    models = [{"id": "m", "maxTokens": "many"}, {"id": "m2"}]
    catalog = read(tmp_path, {"providers": {"local": {**LOCAL, "models": models}, "anthropic": {"baseUrl": 5}}})
    registry = ModelRegistry(catalog, AuthFile({}), {"ANTHROPIC_API_KEY": "k"})

    found = registry.resolve(ModelRequest(pattern, provider))

    assert (found.model is None, (found.error or "").startswith(error or "")) == (error is not None, True)
    assert "anthropic" not in {model["provider"] for model in registry.available()}


def test_all_problems_are_listed_up_to_a_screen_of_them(tmp_path: Path) -> None:
    text = str(read_provider(tmp_path, models=[{}] * 23).diagnostics[0])

    assert "providers.local.models[0].id: is missing" in text
    assert "providers.local.models[19].id: is missing" in text
    assert "models[20]" not in text
    assert text.endswith("and 3 more")


@pytest.mark.parametrize(
    ("provider", "entry", "path", "message"),
    [
        ("bad", {}, "providers.bad", "needs models, or one of baseUrl, "),
        ("bad", {"models": []}, "providers.bad", "needs models, or one of baseUrl, "),
        ("bad", {"api": "x", "models": [{"id": "m"}]}, "providers.bad.models[0]", "needs baseUrl"),
        ("bad", {"baseUrl": URL, "models": [{"id": "m"}]}, "providers.bad.models[0]", "needs api"),
        (" ", {**LOCAL, "models": [{"id": "m"}]}, "providers", "the id of a provider must not be empty"),
        ("offline", {**LOCAL, "models": [{"id": "m"}]}, "providers.offline", "this provider is built in"),
    ],
)
def test_a_provider_that_makes_no_sense_is_left_out_alone(
    provider: str, entry: dict[str, object], path: str, message: str, tmp_path: Path
) -> None:
    catalog = read(tmp_path, {"providers": {provider: entry, "local": {**LOCAL, "models": [{"id": "m"}]}}})

    [problem] = catalog.diagnostics[0].problems
    assert problem.path == path
    assert problem.message.startswith(message)
    assert "left out" in str(catalog.diagnostics[0])
    assert ["local"] == [model["provider"] for model in described(catalog)]


@pytest.mark.parametrize(
    "entry", [{"baseUrl": URL}, {"apiKey": "k"}, {"headers": {}}, {"compat": {}}, {"authHeader": True}, {"oauth": "x"}]
)
def test_a_provider_without_models_may_say_something_else(entry: dict[str, object], tmp_path: Path) -> None:
    catalog = read(tmp_path, {"providers": {"mine": entry}})

    assert () == catalog.diagnostics
    assert ["mine"] == described_providers(catalog)


def test_api_and_address_may_stand_in_each_model(tmp_path: Path) -> None:
    model = {"id": "m", "api": "openai-completions", "baseUrl": "http://there"}
    catalog = read(tmp_path, {"providers": {"local": {"models": [model]}}})

    assert () == catalog.diagnostics
    [made] = catalog.models_of("local")
    assert ("openai-completions", "http://there") == (made["api"], made["baseUrl"])


def test_an_override_changes_groups_member_by_member_and_replaces_the_rest(tmp_path: Path) -> None:
    model = {
        "id": "m",
        "name": "before",
        "input": ["text", "image"],
        "cost": {"input": 1, "output": 2},
        "thinkingLevelMap": {"low": None},
    }
    override = {
        "id": "not an id",
        "name": "after",
        "input": ["text"],
        "cost": {"output": 3},
        "thinkingLevelMap": {"high": "h"},
        "maxTokens": 7,
    }
    catalog = read_provider(tmp_path, models=[model], modelOverrides={"m": override})

    after = catalog.models_of("local")[0]
    assert ("m", "after", ["text"], 7) == (after["id"], after["name"], after["input"], after["maxTokens"])
    assert {"input": 1, "output": 3, "cacheRead": 0, "cacheWrite": 0} == after["cost"]
    assert {"low": None, "high": "h"} == after["thinkingLevelMap"]


def test_an_override_of_a_model_that_is_not_there_is_ignored(tmp_path: Path) -> None:
    catalog = read_provider(tmp_path, models=[{"id": "m"}], modelOverrides={"other": {"name": "x"}})

    assert () == catalog.diagnostics
    assert ["m"] == [model["name"] for model in described(catalog)]


def test_compat_of_provider_model_and_override_are_put_on_each_other(tmp_path: Path) -> None:
    catalog = read_provider(
        tmp_path,
        compat={"a": "provider", "b": "provider", "c": "provider", "openRouterRouting": {"only": ["x"], "order": [1]}},
        models=[{"id": "m", "compat": {"b": "model", "c": "model", "openRouterRouting": {"order": [2]}}}, {"id": "n"}],
        modelOverrides={"m": {"compat": {"c": "override"}}},
    )

    assert catalog.models_of("local")[0]["compat"] == {
        "a": "provider",
        "b": "model",
        "c": "override",
        "openRouterRouting": {"only": ["x"], "order": [2]},
    }
    assert catalog.models_of("local")[1]["compat"]["b"] == "provider"


def test_no_model_holds_a_header_or_a_key(tmp_path: Path) -> None:
    catalog = read_provider(
        tmp_path,
        apiKey="sk-marker",
        headers={"x-a": "sk-marker"},
        models=[{"id": "m", "headers": {"x-b": "sk-marker"}, "apiKey": "sk-marker"}],
        modelOverrides={"m": {"headers": {"x-c": "sk-marker"}, "apiKey": "sk-marker"}},
    )

    assert "sk-marker" not in json.dumps(described(catalog))
    assert "sk-marker" not in repr(catalog)
    assert {"x-b", "x-c"} == set(catalog.headers_of("local")["m"])


@pytest.mark.parametrize(
    "entry",
    [
        {**LOCAL, "apiKey": ["sk-marker"]},
        {**LOCAL, "apiKey": {"key": "sk-marker"}},
        {**LOCAL, "headers": "sk-marker"},
        {**LOCAL, "headers": {"x": ["sk-marker"]}},
        {**LOCAL, "models": "sk-marker"},
        {**LOCAL, "models": ["sk-marker"]},
        {**LOCAL, "models": [{"id": "m", "headers": {"x": {"sk-marker": 1}}}]},
        {**LOCAL, "oauth": {"token": "sk-marker"}},
        {"apiKey": "sk-marker", "models": [{"id": "m"}]},
        '"sk-marker',
    ],
)
def test_problems_of_a_file_never_repeat_its_content(entry: object, tmp_path: Path) -> None:
    text = entry if isinstance(entry, str) else json.dumps({"providers": {"local": entry}})
    catalog = read(tmp_path, text)

    assert catalog.diagnostics
    assert "sk-marker" not in f"{catalog!r} {catalog.diagnostics[0]}"


def test_a_valid_file_is_read_as_one_with_a_mistake_elsewhere_is(tmp_path: Path) -> None:
    """The fast path of valid files: what sorts mistakes out makes the same of them."""
    fast = read(tmp_path, {"providers": WHOLE})
    entries, diagnostics, left_out = usable_entries(tmp_path / "models.json", {"providers": WHOLE})
    slow = Catalog(entries, diagnostics, left_out=LeftOut(*left_out))

    assert () == fast.diagnostics == slow.diagnostics
    assert fast.left_out == slow.left_out
    assert fast.providers() == slow.providers()
    for provider in fast.providers():
        assert fast.models_of(provider) == slow.models_of(provider)
        assert _shown(fast, provider) == _shown(slow, provider)
