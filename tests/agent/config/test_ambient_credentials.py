"""The variables by which a cloud gives credentials to programs: they count as a key, and are handed to the provider."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.credentials.key_status import KeyStatus, key_status
from pinnace_agent.config.credentials.known_keys import keyless_environment
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.redaction.redactor import REDACTOR

BEDROCK = "amazon-bedrock"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDAMBIENT", "AWS_SECRET_ACCESS_KEY": "ambient-secret-0123456789"}
TOKEN = {"AWS_BEARER_TOKEN_BEDROCK": "bedrock-api-key-0123456789"}


def registry_of(folder: Path, env: Mapping[str, str], auth: object = None) -> ModelRegistry:
    (folder / "auth.json").write_text(json.dumps(auth or {}))
    return ModelRegistry(read_catalog(folder / "models.json"), read_auth(folder / "auth.json"), env)


@pytest.mark.parametrize(
    ("env", "source"),
    [
        ({}, None),
        ({"AWS_ACCESS_KEY_ID": "AKIDAMBIENT"}, None),
        ({"AWS_REGION": "eu-west-1"}, None),
        (KEYS, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ({"AWS_PROFILE": "work"}, "AWS_PROFILE"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/"}, "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        ({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2"}, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}, "AWS_WEB_IDENTITY_TOKEN_FILE"),
        (KEYS | TOKEN, "AWS_BEARER_TOKEN_BEDROCK"),
    ],
)
async def test_a_whole_group_of_variables_counts_as_a_key(
    env: Mapping[str, str], source: str | None, tmp_path: Path
) -> None:
    registry = registry_of(tmp_path, env)
    models = [model for model in registry.available() if model["provider"] == BEDROCK]
    status = key_status(BEDROCK, read_catalog(tmp_path / "models.json"), read_auth(tmp_path / "auth.json"), env)
    credentials = await registry.provider_credentials(BEDROCK)

    assert bool(models) == status.is_usable == (credentials.problem is None) == (source is not None)
    assert status == KeyStatus(
        BEDROCK,
        "variable" if source else None,
        source,
        is_usable=source is not None,
        settings=frozenset({"AWS_REGION", "AWS_PROFILE"} & env.keys()),
    )
    assert credentials.api_key == env.get("AWS_BEARER_TOKEN_BEDROCK")


async def test_without_credentials_the_error_names_all_variables(tmp_path: Path) -> None:
    problem = (await registry_of(tmp_path, {}).provider_credentials(BEDROCK)).problem or ""
    assert problem.endswith(
        "Set the key, or AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, or AWS_CONTAINER_CREDENTIALS_FULL_URI, or AWS_WEB_IDENTITY_TOKEN_FILE."
    )


async def test_variables_of_an_entry_are_handed_to_the_provider_alone(tmp_path: Path) -> None:
    auth = {BEDROCK: {"type": "api_key", "env": {"AWS_PROFILE": "work"}}}
    registry = registry_of(tmp_path, {}, auth)
    credentials = await registry.provider_credentials(BEDROCK)
    assert (credentials.problem, credentials.variables) == (None, {"AWS_PROFILE": "work"})
    assert "work" not in repr(credentials)
    assert read_auth(tmp_path / "auth.json").diagnostics == ()


def test_another_key_decides_which_default_model_is_taken(tmp_path: Path) -> None:
    def default(env: Mapping[str, str]) -> str | None:
        model = registry_of(tmp_path, env).first_available()
        return None if model is None else model["provider"]

    assert default(KEYS) == BEDROCK
    assert default(KEYS | {"GROQ_API_KEY": "sk-groq"}) == "groq"


def test_the_keys_of_a_cloud_are_redacted_and_stay_with_commands(tmp_path: Path) -> None:
    registry_of(tmp_path, KEYS)
    assert REDACTOR.text(f"x {KEYS['AWS_SECRET_ACCESS_KEY']} y") == "x [redacted] y"
    with surrounded_by(Surroundings({**KEYS, **TOKEN})):
        left = keyless_environment()
    assert KEYS.items() <= left.items()
    assert not left.keys() & TOKEN.keys()
