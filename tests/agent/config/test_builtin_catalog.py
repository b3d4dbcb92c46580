"""The built-in catalog: its data is complete, sensible and read only where it is needed."""

import json
import os
import string
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_agent.config.credentials.vendor_logins import has_login
from pinnace_agent.config.models.builtin import FOLDER, all_key_variables, index, key_variables, read_descriptions
from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.config.models.catalog_schema import check_built_in_models
from pinnace_agent.config.models.models import clamp_level, next_level, supported_levels
from pinnace_agent.llm.providers import SUPPORTED_APIS
from pinnace_spec.records.messages import THINKING_LEVELS, Model

PROVIDERS = list(index().providers)
ALL_MODELS = list(Catalog().models())
LOCATED = [model for model in ALL_MODELS if model["provider"] != "azure"]
# A flag that no provider of an API knows is a slip of the pen.
FLAGS = {
    "openai-completions": "supportsStore supportsDeveloperRole supportsReasoningEffort maxTokensField thinkingFormat "
    "supportsStrictMode supportsLongCacheRetention supportsUsageInStreaming sendSessionAffinityHeaders "
    "chatTemplateArgs requiresReasoningContentOnAssistantMessages supportsMidConvoSystemMessages "
    "supportsMidConvoToolAdditions cacheControlFormat zaiToolStream",
    "anthropic-messages": "supportsMidConvoSystemMessages supportsMidConvoToolChanges forceAdaptiveThinking "
    "supportsStrictTools allowedFallbackModels supportsMidConvoEffort supportsTemperature allowEmptySignature "
    "sendSessionAffinityHeaders supportsEagerToolInputStreaming supportsCacheControlOnTools supportsLongCacheRetention",
    "openai-responses": "supportsStrictMode supportsOpenAIGrammarTools supportsAdditionalTools supportsToolSearch "
    "supportsMidConvoSystemMessages supportsMidConvoEffort supportsExplicitPromptCacheMode sessionAffinityFormat "
    "supportsReasoningEffort supportsLongCacheRetention",
    "google-generative-ai": "",
    "bedrock-converse-stream": "supportsStrictMode",
    "mistral-conversations": "",
    "google-vertex": "",
    "pi-messages": "",
    "openai-codex-responses": "supportsOpenAIGrammarTools supportsAdditionalTools supportsToolSearch "
    "supportsMidConvoSystemMessages",
    "azure-openai-responses": "supportsOpenAIGrammarTools",
}
# Dollars for a million tokens. The dearest so far is 600; beyond this a comma has slipped.
MAX_RATE = 1_000


def names(models: list[Model]) -> list[str]:
    return [f"{model['provider']}/{model['id']}" for model in models]


def test_every_file_is_in_the_index_and_has_models() -> None:
    assert sorted([*PROVIDERS, "index"]) == sorted(path.stem for path in FOLDER.iterdir())
    assert [] == [provider for provider in PROVIDERS if not read_descriptions(provider)]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_models_of_a_provider_follow_the_schema(provider: str) -> None:
    assert [] == check_built_in_models(read_descriptions(provider))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_id_is_there_once(provider: str) -> None:
    count = Counter(str(one["id"]) for one in read_descriptions(provider))
    assert [] == [model_id for model_id, times in count.items() if times > 1]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_has_one_model_a_line(provider: str) -> None:
    text = (FOLDER / f"{provider}.json").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert ("[", "]", "\n") == (lines[0], lines[-1], text[-1])
    assert [json.loads(line.rstrip(",")) for line in lines[1:-1]] == json.loads(text)


def test_every_model_speaks_an_api_that_this_release_speaks() -> None:
    assert {model["api"] for model in ALL_MODELS} <= set(SUPPORTED_APIS) - {"offline"}
    assert [] == names([model for model in LOCATED if not model["baseUrl"].startswith("https://")])


def test_a_resource_of_azure_has_no_built_in_address() -> None:
    assert {""} == {model["baseUrl"] for model in ALL_MODELS if model["provider"] == "azure"}


def test_every_flag_is_one_that_its_api_has() -> None:
    strange = [model for model in ALL_MODELS if not set(model.get("compat", {})) <= set(FLAGS[model["api"]].split())]
    assert [] == names(strange)


def test_prices_are_sane() -> None:
    def rates(model: Model) -> list[float]:
        cost: Any = model["cost"]
        tiers = [tier[name] for tier in cost.get("tiers", []) for name in ("input", "output")]
        return [cost["input"], cost["output"], cost["cacheRead"], cost["cacheWrite"], *tiers]

    assert [] == names([model for model in ALL_MODELS if not all(0 <= rate <= MAX_RATE for rate in rates(model))])
    assert [] == names([model for model in ALL_MODELS if model["cost"]["cacheRead"] > model["cost"]["input"]])
    assert [] == names([model for model in ALL_MODELS if model["cost"]["output"] < model["cost"]["input"] / 2])


def test_an_answer_fits_into_the_context() -> None:
    assert [] == names([model for model in ALL_MODELS if model["maxTokens"] > model["contextWindow"]])


def test_the_default_of_every_provider_is_one_of_its_models_and_has_an_order() -> None:
    missing = [name for name, facts in index().providers.items() if Catalog().find(name, facts.default_model) is None]
    assert [] == missing
    assert sorted(PROVIDERS) == sorted(index().default_order)


def test_every_provider_says_which_variables_hold_its_key() -> None:
    letters = set(string.ascii_uppercase + string.digits + "_")
    assert [] == [name for name in PROVIDERS if not key_variables(name) and not has_login(name)]
    assert [] == [name for name in all_key_variables() if not set(name) <= letters]
    assert ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY") == key_variables("anthropic")
    assert ("MISTRAL_API_KEY",) == key_variables("mistral")
    assert () == key_variables("nobody")
    assert {"ANTHROPIC_AUTH_TOKEN"} == index().bearer_variables


@pytest.mark.parametrize("provider", PROVIDERS)
def test_levels_hold_for_every_model(provider: str) -> None:
    for model in Catalog().models_of(provider):
        levels = supported_levels(model)
        assert levels == [level for level in THINKING_LEVELS if level in levels] != []
        assert model["reasoning"] or levels == ["off"]
        named = model.get("thinkingLevelMap", {})
        assert all(level == "off" or named.get(level, "") is not None for level in levels)
        assert not {"xhigh", "max"} & set(levels) - set(named)
        for wanted in THINKING_LEVELS:
            level = clamp_level(model, wanted)
            higher = [one for one in levels if THINKING_LEVELS.index(one) >= THINKING_LEVELS.index(wanted)]
            assert level == (higher[0] if higher else levels[-1])
        following = [next_level(model, level) for level in levels]
        assert following == ([None] if len(levels) == 1 else [*levels[1:], levels[0]])


def test_models_without_a_user_s_word_are_complete() -> None:
    needed = {"id", "name", "api", "provider", "baseUrl", "reasoning", "input", "cost", "contextWindow", "maxTokens"}
    assert [] == names([model for model in ALL_MODELS if not needed <= set(model)])
    assert [] == names([model for model in ALL_MODELS if "headers" in model or "apiKey" in model])


# Python reports every opened file through its audit hooks.
START = """
import os, sys
opened = []
def watch(event, args):
    if event == "open" and isinstance(args[0], (str, os.PathLike)) and "config/models/providers" in os.fspath(args[0]):
        opened.append(os.path.basename(os.fspath(args[0])))
sys.addaudithook(watch)
from pinnace_rpc.cli import main as cli
code = cli.main(sys.argv[1:])
sys.stderr.write("opened: " + " ".join(opened))
sys.exit(code)
"""


def opened_by(folder: Path, *arguments: str, **env: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", START, *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": PYTHONPATH, **env},
        input='{"type":"get_state"}\n',
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.split("opened: ")[1].split()


SERVE = ("--mode", "rpc", "--no-session")
KEYS = {"OPENROUTER_API_KEY": "k", "XAI_API_KEY": "k"}


@pytest.mark.parametrize(
    ("arguments", "opened"),
    [
        ((*SERVE, "--provider", "xai", "--model", "grok-4.7"), ["index.json", "xai.json"]),
        ((*SERVE, "--model", "xai/grok-4.7:low"), ["index.json", "xai.json"]),
        ((*SERVE,), ["index.json", "openrouter.json"]),
        ((*SERVE, "--provider", "offline"), ["index.json"]),
        (("--list-models",), ["index.json", "openrouter.json", "xai.json"]),
        (("--version",), []),
    ],
)
def test_a_process_reads_the_models_of_the_providers_that_it_uses(
    arguments: tuple[str, ...], opened: list[str], tmp_path: Path
) -> None:
    assert opened == opened_by(tmp_path, *arguments, **KEYS)


def test_without_a_key_no_models_are_read(tmp_path: Path) -> None:
    assert ["index.json"] == opened_by(tmp_path, *SERVE)
    assert ["index.json"] == opened_by(tmp_path, "--list-models")
