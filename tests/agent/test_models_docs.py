"""docs/models.md: its example is a models.json, its variables are those that are looked at."""

import json
import re
from pathlib import Path

from pinnace_agent.llm.providers import SUPPORTED_APIS
from pinnace_agent.resources.builtin import all_key_variables, index
from pinnace_agent.resources.catalog import read_catalog
from pinnace_agent.resources.credentials import AUTHENTICATION_HEADERS, AuthFile
from pinnace_agent.resources.model_patterns import ModelRequest, full_name
from pinnace_agent.resources.models import ModelRegistry

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


def test_its_example_is_a_models_json(tmp_path: Path) -> None:
    [example] = re.findall(r"^```json\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    (tmp_path / "models.json").write_text(example)
    catalog = read_catalog(tmp_path / "models.json")

    assert () == catalog.diagnostics
    for provider, entry in json.loads(example)["providers"].items():
        assert all(catalog.find(provider, model["id"]) for model in entry.get("models", []))
        assert all(catalog.find(provider, model_id) for model_id in entry.get("modelOverrides", {}))


def test_the_variables_that_it_names_are_looked_at() -> None:
    named = set(re.findall(r"`([A-Z0-9_]+(?:_KEY|_TOKEN))`", TEXT)) - {"_API_KEY"}
    assert 10 < len(named)
    assert named <= all_key_variables()


def test_the_providers_and_apis_that_it_names_are_there() -> None:
    assert f"{len(index().providers)} providers" in TEXT
    assert [] == [api for api in SUPPORTED_APIS if api != "offline" and f"`{api}`" not in TEXT]
    assert [] == [name for name in AUTHENTICATION_HEADERS if name not in TEXT.lower()]


def test_the_command_of_the_readme_means_the_newest_opus(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "ANTHROPIC_API_KEY=... pinnace --mode rpc --model opus\n" in readme

    registry = ModelRegistry(read_catalog(tmp_path / "absent"), AuthFile({}), {"ANTHROPIC_API_KEY": "k"})
    found = registry.resolve(ModelRequest("opus")).model
    assert found is not None
    assert f"anthropic/{index().providers['anthropic'].default_model}" == full_name(found)
