"""The model and level that a process starts with."""

import json
from pathlib import Path

import pytest

from pinnace_agent.config.configuration import Configuration, load_configuration
from pinnace_agent.config.models.patterns import full_name
from pinnace_agent.config.models.selection import Choice, Selection, select_initial

LOCAL = {"baseUrl": "http://127.0.0.1:1/v1", "api": "openai-completions"}
PROVIDERS = {
    "bare": {**LOCAL, "models": [{"id": "without-key"}]},
    "foreign": {**LOCAL, "api": "made-up", "apiKey": "k", "models": [{"id": "f"}]},
    "fake": {**LOCAL, "apiKey": "k", "models": [{"id": "m1"}, {"id": "m2", "reasoning": True}]},
    "more": {**LOCAL, "apiKey": "k", "models": [{"id": "m3", "reasoning": True}]},
}


def load(tmp_path: Path, settings: dict[str, object] | None = None, providers: object = PROVIDERS) -> Configuration:
    (tmp_path / "models.json").write_text(json.dumps({"providers": providers}))
    (tmp_path / "settings.json").write_text(json.dumps(settings or {}))
    return load_configuration({"PI_CODING_AGENT_DIR": str(tmp_path), "HOME": str(tmp_path)}, tmp_path)


def select(loaded: Configuration, choice: Choice | None = None, api_key: str | None = None) -> Selection:
    return select_initial(loaded.registry, loaded.settings, choice or Choice(), api_key)


def name(selection: Selection) -> str | None:
    return None if selection.model is None else full_name(selection.model)


def test_the_command_line_goes_first(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"defaultProvider": "fake", "defaultModel": "m1"})
    assert "more/m3" == name(select(loaded, Choice(model="m3", scope=("fake/*",))))


def test_then_the_scope_with_the_saved_default_before_its_first(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"defaultProvider": "fake", "defaultModel": "m2"})
    assert "more/m3" == name(select(loaded, Choice(scope=("m3", "m1"))))
    selection = select(loaded, Choice(scope=("m3", "m2:low")))
    assert ("fake/m2", "low") == (name(selection), selection.level)
    assert ["more/m3", "fake/m2"] == [full_name(scoped.model) for scoped in selection.scope]


def test_the_scope_of_the_settings_counts_without_one_on_the_command_line(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"enabledModels": ["m3"]})
    assert "more/m3" == name(select(loaded))
    assert "fake/m1" == name(select(loaded, Choice(scope=("m1",))))


def test_then_the_saved_default(tmp_path: Path) -> None:
    assert "more/m3" == name(select(load(tmp_path, {"defaultProvider": "more", "defaultModel": "m3"})))


def test_then_the_first_that_is_available(tmp_path: Path) -> None:
    assert "fake/m1" == name(select(load(tmp_path)))


@pytest.mark.parametrize(
    ("provider", "model"), [("bare", "without-key"), ("foreign", "f"), ("fake", "gone"), ("gone", "m1")]
)
def test_a_saved_default_that_is_not_available_is_reported_and_ignored(
    provider: str, model: str, tmp_path: Path
) -> None:
    selection = select(load(tmp_path, {"defaultProvider": provider, "defaultModel": model}))
    assert "fake/m1" == name(selection)
    assert f"{provider}/{model} is not available" in selection.warnings[0]


def test_without_any_model_the_process_lives(tmp_path: Path) -> None:
    selection = select(load(tmp_path, providers={}))
    assert Selection(None, "off", "medium") == selection


@pytest.mark.parametrize(
    "settings", [{}, {"defaultProvider": "offline", "defaultModel": "rehearsal"}, {"enabledModels": ["*"]}]
)
def test_the_offline_model_is_never_picked_silently(settings: dict[str, object], tmp_path: Path) -> None:
    loaded = load(tmp_path, settings, providers={})
    assert name(select(loaded)) is None
    assert [] == loaded.registry.available()


def test_the_offline_provider_needs_no_model_and_is_offered_from_then_on(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert "offline/rehearsal" == name(select(loaded, Choice(provider="offline")))
    assert "offline/rehearsal" in [full_name(model) for model in loaded.registry.available()]


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        (Choice(model="nope"), 'Model "nope" not found'),
        (Choice(provider="fake"), "--provider needs --model"),
        (Choice(provider="nobody", model="m1"), 'Unknown provider "nobody"'),
        (Choice(model="foreign/f"), "is not supported"),
        (Choice(provider="offline", model="absent.yaml"), "not found"),
    ],
)
def test_what_cannot_be_resolved_is_an_error_and_nothing_is_picked(choice: Choice, error: str, tmp_path: Path) -> None:
    selection = select(load(tmp_path), choice)
    assert selection.model is None
    assert error in (selection.error or "")


def test_an_unknown_id_of_a_known_provider_starts_with_a_warning(tmp_path: Path) -> None:
    selection = select(load(tmp_path), Choice(provider="fake", model="nope"))
    assert "fake/nope" == name(selection)
    assert selection.error is None
    assert "nope" in selection.warnings[0]


async def test_the_key_of_the_command_line_is_for_the_provider_of_the_model(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    selection = select(loaded, Choice(model="bare/without-key"), api_key="mine")
    assert selection.model is not None
    assert "mine" == (await loaded.registry.credentials(selection.model)).api_key
    assert "bare/without-key" in [full_name(model) for model in loaded.registry.available()]


def test_a_key_without_a_model_is_an_error(tmp_path: Path) -> None:
    assert "--api-key needs a model" in (select(load(tmp_path), api_key="mine").error or "")
    assert "fake/m1" == name(select(load(tmp_path), Choice(scope=("m1",)), api_key="mine"))


@pytest.mark.parametrize(
    ("choice", "settings", "level", "preferred"),
    [
        (Choice(model="m2"), {}, "medium", "medium"),
        (Choice(model="m1"), {}, "off", "medium"),
        (Choice(model="m2"), {"defaultThinkingLevel": "low"}, "low", "low"),
        (Choice(model="m2:high"), {"defaultThinkingLevel": "low"}, "high", "high"),
        (Choice(model="m2:high", level="minimal"), {}, "minimal", "minimal"),
        (Choice(model="m2", level="max"), {}, "high", "max"),
        (Choice(model="m1", level="high"), {}, "off", "high"),
        (Choice(model="m2:off"), {}, "off", "off"),
    ],
)
def test_the_level_is_the_flags_else_the_patterns_else_the_saved_one_and_fits_the_model(
    choice: Choice, settings: dict[str, object], level: str, preferred: str, tmp_path: Path
) -> None:
    selection = select(load(tmp_path, settings), choice)
    assert (level, preferred) == (selection.level, selection.preferred_level)
