"""Providers whose addresses hold variables: without these they are not available, and others are as ever."""

import json
from pathlib import Path
from typing import Final

import pytest

from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.credentials.key_status import KeyStatus, key_status
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.patterns import ModelRequest, full_name

WORKERS, GATEWAY = "cloudflare-workers-ai", "cloudflare-ai-gateway"
KEY: Final = {"CLOUDFLARE_API_KEY": "k"}
ACCOUNT: Final = {**KEY, "CLOUDFLARE_ACCOUNT_ID": "acc"}
BOTH: Final = {**ACCOUNT, "CLOUDFLARE_GATEWAY_ID": "gate"}


def registry(folder: Path, env: dict[str, str], auth: object = None, models: object = None) -> ModelRegistry:
    (folder / "auth.json").write_text(json.dumps(auth or {}))
    (folder / "models.json").write_text(json.dumps({"providers": models or {}}))
    return ModelRegistry(read_catalog(folder / "models.json"), read_auth(folder / "auth.json"), env)


def available(found: ModelRegistry) -> set[str]:
    return {model["provider"] for model in found.available()}


@pytest.mark.parametrize(
    ("env", "expected"),
    [({}, set[str]()), (KEY, set[str]()), (ACCOUNT, {WORKERS}), (BOTH, {WORKERS, GATEWAY})],
)
def test_a_provider_is_available_with_all_variables_of_its_address(
    env: dict[str, str], expected: set[str], tmp_path: Path
) -> None:
    assert expected == available(registry(tmp_path, env))


def test_missing_variables_cost_no_other_provider_anything(tmp_path: Path) -> None:
    """`xiaomi` is behind them in the order of defaults."""
    found = registry(tmp_path, {**KEY, "XIAOMI_API_KEY": "k"})

    assert {"xiaomi"} == available(found)
    assert (first := found.first_available()) is not None
    assert first["provider"] == "xiaomi"


def test_variables_of_auth_json_are_as_good_and_an_empty_one_is_none(tmp_path: Path) -> None:
    own = {"CLOUDFLARE_ACCOUNT_ID": "acc", "CLOUDFLARE_GATEWAY_ID": "gate"}

    def stored(env: dict[str, str]) -> dict[str, object]:
        return {GATEWAY: {"type": "api_key", "key": "k", "env": env}}

    assert {GATEWAY} == available(registry(tmp_path, {}, stored(own)))
    assert {WORKERS} == available(registry(tmp_path, BOTH, stored({**own, "CLOUDFLARE_GATEWAY_ID": ""})))


def test_an_address_of_the_users_own_needs_no_variable(tmp_path: Path) -> None:
    assert {WORKERS} == available(registry(tmp_path, KEY, models={WORKERS: {"baseUrl": "http://127.0.0.1:1/v1"}}))


def test_a_model_can_be_chosen_all_the_same(tmp_path: Path) -> None:
    """The request says which variable is missing."""
    found = registry(tmp_path, KEY).resolve(ModelRequest("@cf/openai/gpt-oss-120b", WORKERS)).model

    assert found is not None
    assert full_name(found) == f"{WORKERS}/@cf/openai/gpt-oss-120b"


@pytest.mark.parametrize("env", [{}, KEY, ACCOUNT, BOTH])
@pytest.mark.parametrize("auth", [None, {GATEWAY: {"type": "api_key", "key": "stored"}}])
@pytest.mark.parametrize("provider", [WORKERS, GATEWAY])
def test_the_status_of_a_key_agrees(
    provider: str, auth: dict[str, object] | None, env: dict[str, str], tmp_path: Path
) -> None:
    found = registry(tmp_path, env, auth)
    status = key_status(provider, read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json"), env)

    assert status.is_usable == (provider in available(found))
    assert status.is_usable or status.problem is not None or status.source is None


def test_the_status_of_a_stored_key_names_what_is_missing(tmp_path: Path) -> None:
    registry(tmp_path, {}, {GATEWAY: {"type": "api_key", "key": "stored"}})
    catalog, auth = read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json")

    assert key_status(GATEWAY, catalog, auth, {}) == KeyStatus(
        GATEWAY,
        "auth.json",
        problem="the variables CLOUDFLARE_ACCOUNT_ID and CLOUDFLARE_GATEWAY_ID are not set",
    )
