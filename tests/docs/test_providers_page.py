"""docs/providers.md: its example is a valid models.json, and its variables, providers and APIs exist."""

import json
import re
from pathlib import Path

from tests.source_tree import REPOSITORY

from pinnace_agent.config.credentials.credentials import AUTHENTICATION_HEADERS, AuthFile
from pinnace_agent.config.credentials.known_keys import CLOUD_KEYS
from pinnace_agent.config.models.builtin import all_key_variables, index
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.patterns import ModelRequest, full_name
from pinnace_agent.llm.providers import SUPPORTED_APIS

TEXT = (REPOSITORY / "docs" / "providers.md").read_text(encoding="utf-8")


def test_the_example_is_a_valid_models_json(tmp_path: Path) -> None:
    [example] = re.findall(r"^```json\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    (tmp_path / "models.json").write_text(example)
    catalog = read_catalog(tmp_path / "models.json")

    assert () == catalog.diagnostics
    for provider, entry in json.loads(example)["providers"].items():
        assert all(catalog.find(provider, model["id"]) for model in entry.get("models", []))
        assert all(catalog.find(provider, model_id) for model_id in entry.get("modelOverrides", {}))


def test_the_variables_of_the_page_hold_keys_of_providers() -> None:
    named = set(re.findall(r"`([A-Z0-9_]+(?:_KEY|_TOKEN))`", TEXT)) - {"_API_KEY"}
    assert 10 < len(named)
    assert named <= all_key_variables() | set(CLOUD_KEYS)


def test_the_page_names_the_number_of_providers_and_every_api() -> None:
    assert f"{len(index().providers)} providers" in TEXT
    assert [] == [api for api in SUPPORTED_APIS if api != "offline" and f"`{api}`" not in TEXT]
    assert [] == [name for name in AUTHENTICATION_HEADERS if name not in TEXT.lower()]


def test_the_command_of_the_readme_selects_the_newest_opus(tmp_path: Path) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert "ANTHROPIC_API_KEY=... pinnace --mode rpc --model opus\n" in readme

    registry = ModelRegistry(read_catalog(tmp_path / "absent"), AuthFile({}), {"ANTHROPIC_API_KEY": "k"})
    found = registry.resolve(ModelRequest("opus")).model
    assert found is not None
    assert f"anthropic/{index().providers['anthropic'].default_model}" == full_name(found)
