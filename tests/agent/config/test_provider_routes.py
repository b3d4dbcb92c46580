"""Routes of providers: they replace what models.json says, literally, and a disabled provider has no model."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.patterns import ModelRequest
from pinnace_agent.config.models.routes import (
    Route,
    Routes,
    read_routes,
    routed,
    routing,
    routings,
    taken_variables,
    written,
)
from pinnace_agent.config.models.unusable import why_unusable
from pinnace_agent.core.surroundings import CLIENT_ROUTES, Surroundings, environment, surrounded_by
from pinnace_agent.redaction.policy import Secret
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_rpc.acp.providers import ClientProviders
from pinnace_rpc.acp.translation.params import InvalidParams, Params

KEY = "sekret-of-a-gateway-4711"
ODD = {"x-gateway-key": KEY, "x-dollar": "$HOME", "x-command": "!echo gone"}
OWN: dict[str, Any] = {
    "baseUrl": "http://user:pass@127.0.0.1:1/v1?key=k",
    "api": "openai-completions",
    "apiKey": "k",
    "headers": {"x-former": "1"},
    "models": [{"id": "m", "headers": {"x-of-model": "2"}}, {"id": "n", "baseUrl": "http://127.0.0.1:1/v1"}],
}


@pytest.fixture(autouse=True)
def surroundings() -> Iterator[None]:
    """The routes that a test takes are those of an agent of its own."""
    with surrounded_by(Surroundings(dict(os.environ))):
        yield


def registry(folder: Path, routes: Routes, *, providers: object = None, **env: str) -> ModelRegistry:
    (folder / "models.json").write_text(json.dumps({"providers": {"own": OWN} if providers is None else providers}))
    variables = {"PI_CODING_AGENT_DIR": str(folder), "HOME": str(folder), **env}
    environment()[CLIENT_ROUTES] = written(routes)
    return load_configuration({**variables, CLIENT_ROUTES: ""}, folder).registry


def set_to(address: str, **headers: str) -> Route:
    return Route(address, {name: Secret(value) for name, value in headers.items()})


async def test_a_route_replaces_the_address_and_all_headers_of_a_provider_and_its_models(tmp_path: Path) -> None:
    found = registry(tmp_path, {"own": set_to("http://gate/v1", **ODD)})
    model = found.find("own", "m")
    assert model is not None
    credentials = await found.credentials(model)

    assert ["http://gate/v1"] * 2 == [each["baseUrl"] for each in found.models_of("own")]
    assert ("k", ODD) == (credentials.api_key, credentials.headers)
    assert KEY not in REDACTOR.text(f"the gateway says {KEY}")


async def test_a_route_may_bring_the_key_of_a_provider_that_is_built_in(tmp_path: Path) -> None:
    assert [] == registry(tmp_path, {}, providers={}).available()
    found = registry(tmp_path, {"anthropic": set_to("http://gate", Authorization="Bearer k")}, providers={})
    models = found.available()

    assert {("anthropic", "http://gate")} == {(each["provider"], each["baseUrl"]) for each in models}


def test_a_disabled_provider_has_no_model_and_is_named_where_one_is_wanted(tmp_path: Path) -> None:
    found = registry(tmp_path, {"groq": None}, GROQ_API_KEY="k")
    found.describe_provider("groq", {"baseUrl": "http://x", "api": "openai-completions", "models": [{"id": "m"}]})

    assert [] == found.models_of("groq")
    assert 'The provider "groq" is disabled by the editor.' == found.resolve(ModelRequest("m", "groq")).error
    assert 'the provider "groq" is disabled by the editor' == why_unusable(found, "groq", "m")


def test_routes_are_taken_out_of_the_environment_and_shown_by_no_error(tmp_path: Path) -> None:
    routes: Routes = {"own": set_to("http://gate/v1", **ODD), "groq": None}

    assert KEY not in repr(routes)
    assert {} == taken_variables()
    for broken in ("{", "[]", '{"own": {"headers": {}}}', f'{{"own": "{KEY}"}}'):
        environment()[CLIENT_ROUTES] = broken
        (problem,) = routed(Catalog()).diagnostics
        assert f"{CLIENT_ROUTES}: must be what an editor's agent passes on (it is ignored)" in str(problem)
    registry(tmp_path, routes)
    assert CLIENT_ROUTES not in environment()
    assert routes == read_routes(taken_variables()[CLIENT_ROUTES])


def test_a_provider_is_listed_with_its_one_protocol_and_address_and_without_a_key_in_it() -> None:
    one = {**OWN, "models": [{"id": "m"}]}
    found = {each.provider: each for each in routings(Catalog({"own": one, "two": OWN}))}

    assert ("own", "openai", "http://127.0.0.1:1/v1") == found["own"]
    assert ("anthropic", "anthropic", "https://api.anthropic.com") == found["anthropic"]
    assert "_google-generative-ai" == found["google"].protocol
    # Of several protocols or addresses, or with variables in them.
    assert {"two", "openrouter", "cloudflare-workers-ai", "amazon-bedrock", "azure"}.isdisjoint(found)
    assert routing(routed(Catalog({"own": one}), {"own": None}), "own") is None


@pytest.fixture
def providers(tmp_path: Path) -> ClientProviders:
    one = {**OWN, "models": [{"id": "m"}]}
    (tmp_path / "models.json").write_text(json.dumps({"providers": {"own": one, "named": one, "two": OWN}}))
    environment()["PI_CODING_AGENT_DIR"] = str(tmp_path)
    options: Any = SimpleNamespace(provider=None, model="named/m")
    return ClientProviders(options)


GOOD: dict[str, Any] = {"providerId": "own", "apiType": "openai", "baseUrl": "http://gate/v1"}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"providerId": "no-such"}, "providerId"),
        ({"providerId": "two"}, "providerId"),
        ({"providerId": 7}, "providerId"),
        ({"apiType": "anthropic"}, "apiType"),
        ({"apiType": None}, "apiType"),
        *[({"baseUrl": each}, "baseUrl") for each in ("gate", "ftp://gate", "http://", "http://gate:x/", "http://g h")],
        *[({"baseUrl": f"http://{each}"}, "baseUrl") for each in (f"{KEY}@gate", f"gate?k={KEY}", f"gate#{KEY}")],
        ({"headers": None}, "headers"),
        ({"headers": [KEY]}, "headers"),
        ({"headers": {f"x {KEY}": "1"}}, "headers"),
        *[({"headers": {"x-a": each}}, "headers.x-a") for each in (7, f"{KEY}\r\nx: y", f"{KEY} ", f"{KEY}ä")],
    ],
)
def test_what_can_not_be_set_is_refused_with_its_field_and_changes_nothing(
    providers: ClientProviders, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidParams) as error:
        providers.set(Params({**GOOD, **fields}))

    assert (f"params.{path}", {}) == ((error.value.data or {})["path"], providers.variables())
    assert KEY not in str(error.value)


def test_what_is_set_is_listed_without_headers_and_a_disabled_provider_without_its_address(
    providers: ClientProviders,
) -> None:
    def listed(name: str) -> Any:
        every: Any = providers.listed()["providers"]
        return next((each for each in every if each["providerId"] == name), None)

    providers.set(Params({**GOOD, "headers": ODD}))
    providers.disable(Params({"providerId": "no-such"}))
    for provider in ("two", "named"):
        with pytest.raises(InvalidParams):
            providers.disable(Params({"providerId": provider}))

    was: Any = {"providerId": "own", "supported": ["openai"], "required": False}
    assert {**was, "current": {"apiType": "openai", "baseUrl": "http://gate/v1"}} == listed("own")
    assert (True, None) == (listed("named")["required"], listed("two"))
    assert KEY not in str(providers.listed())
    providers.disable(Params({"providerId": "own"}))
    assert was == listed("own")
    providers.set(Params(GOOD))
    assert {"own": set_to("http://gate/v1")} == read_routes(providers.variables()[CLIENT_ROUTES])
