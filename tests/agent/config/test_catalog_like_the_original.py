"""The built-in catalog has the models of the original 1.5.2, with what it says of each and three corrections.

    RENEW=1 .venv/bin/python -m pytest tests/agent/config/test_catalog_like_the_original.py     writes the files anew

A file has no model that the original has not: prices and limits that are not renewed become wrong. The corrections: no
answer is longer than the context, no level of thinking is offered of which a request can say nothing, and the default
of a flag is written down where this program has another one.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import pytest
from tests.agent.llm.test_llm_openai_catalog import mute_levels

from pinnace_agent.config.models.builtin import FOLDER, index, read_descriptions
from pinnace_spec.records.messages import Model

pytestmark = pytest.mark.peer
SCRIPT: Final = """
const { ModelRuntime } = await import(process.argv[1]);
const options = { authPath: process.argv[2], modelsPath: null, refreshOnCreate: false };
console.log(JSON.stringify((await ModelRuntime.create(options)).getModels()));
"""
FIELDS: Final = (
    *("id", "name", "api", "baseUrl", "reasoning", "input", "contextWindow", "maxTokens", "cost"),
    *("thinkingLevelMap", "compat", "promptCache"),
)
"""Those that this program uses; what a provider's headers are is known where it is asked."""


def models_of_the_original(original: Sequence[str], home: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the models by provider, as a file of ours would describe them."""
    done = subprocess.run(
        [
            original[0],
            "--input-type=module",
            "-e",
            SCRIPT,
            str(Path(original[-1]).with_name("index.js")),
            str(home / "auth.json"),
        ],
        env={"HOME": str(home), "PI_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for model in json.loads(done.stdout):
        found.setdefault(model["provider"], []).append(described(model))
    return found


def described(model: dict[str, Any]) -> dict[str, Any]:
    """Correct a model, and leave out what the index says of all models of the provider."""
    model = {**model, "maxTokens": min(model["maxTokens"], model["contextWindow"])}
    if model["api"] == "openai-responses":  # where the original takes a missing flag for false
        model["compat"] = {"supportsStrictMode": False} | model.get("compat", {})
    if mute := mute_levels(cast("Model", model)):
        model["thinkingLevelMap"] = model.get("thinkingLevelMap", {}) | dict.fromkeys(mute)
    facts = index().providers.get(model["provider"])
    usual = {} if facts is None else {"api": facts.api, "baseUrl": facts.base_url}
    return {name: model[name] for name in FIELDS if name in model and usual.get(name) != model[name]}


def test_every_model_is_described_as_in_the_original(original_pi: list[str], tmp_path: Path) -> None:
    theirs = models_of_the_original(original_pi, tmp_path)
    if os.environ.get("RENEW"):
        for provider, models in theirs.items():
            lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in models)
            (FOLDER / f"{provider}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    assert sorted(theirs) == sorted(index().providers)
    differences = [
        f"{provider}/{model_id}: {sorted(name for name in {*ours, *wanted} if ours.get(name) != wanted.get(name))}"
        for provider, models in theirs.items()
        for model_id, ours, wanted in matched(read_descriptions(provider), models)
        if ours != wanted
    ]
    assert [] == differences


def matched(
    ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]
) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Return the descriptions by id, an empty one where a model is missing."""
    own, other = ({str(each["id"]): each for each in models} for models in (ours, theirs))
    return [(model_id, own.get(model_id, {}), other.get(model_id, {})) for model_id in {**own, **other}]
