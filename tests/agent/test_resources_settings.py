"""settings.json: defaults, values, and what is wrong with it."""

import json
from pathlib import Path

import pytest

from pinnace_agent.resources.configuration import load_configuration
from pinnace_agent.resources.settings import (
    CompactionSettings,
    LoadedSettings,
    RetrySettings,
    Settings,
    read_settings,
)


def read(tmp_path: Path, content: object) -> LoadedSettings:
    file = tmp_path / "settings.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_settings(file)


def test_a_missing_file_means_the_defaults(tmp_path: Path) -> None:
    assert LoadedSettings(Settings()) == read_settings(tmp_path / "settings.json")


def test_every_value_is_read(tmp_path: Path) -> None:
    content = {
        "defaultProvider": "p",
        "defaultModel": "m",
        "defaultThinkingLevel": "high",
        "enabledModels": ["p/*", "q"],
        "steeringMode": "all",
        "followUpMode": "all",
        "shellPath": "/bin/dash",
        "shellCommandPrefix": "set -e",
        "compaction": {"enabled": False, "reserveTokens": 1, "keepRecentTokens": 2},
        "retry": {"enabled": False, "maxRetries": 0, "baseDelayMs": 4, "maxAgentDelayMs": 5},
        "httpIdleTimeoutMs": 0,
        "images": {"blockImages": True},
    }
    expected = Settings(
        default_provider="p",
        default_model="m",
        default_thinking_level="high",
        enabled_models=("p/*", "q"),
        steering_mode="all",
        follow_up_mode="all",
        shell_path="/bin/dash",
        shell_command_prefix="set -e",
        compaction=CompactionSettings(is_enabled=False, reserve_tokens=1, keep_recent_tokens=2),
        retry=RetrySettings(is_enabled=False, max_retries=0, base_delay_ms=4, max_delay_ms=5),
        http_idle_timeout_ms=0,
        blocks_images=True,
    )
    assert LoadedSettings(expected) == read(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        ({"defaultModel": 1}, "defaultModel", "a text"),
        ({"defaultThinkingLevel": "lots"}, "defaultThinkingLevel", "one of off, minimal"),
        ({"enabledModels": ["a", 1]}, "enabledModels", "a list of texts"),
        ({"enabledModels": "a"}, "enabledModels", "a list of texts"),
        ({"steeringMode": "some"}, "steeringMode", "all or one-at-a-time"),
        ({"compaction": {"enabled": "yes"}}, "compaction.enabled", "true or false"),
        ({"compaction": {"enabled": 1}}, "compaction.enabled", "true or false"),
        ({"retry": {"maxRetries": -1}}, "retry.maxRetries", "a whole number"),
        ({"retry": {"maxRetries": 1.5}}, "retry.maxRetries", "a whole number"),
        ({"retry": {"maxRetries": True}}, "retry.maxRetries", "a whole number"),
        ({"retry": {"baseDelayMs": 1e300}}, "retry.baseDelayMs", "a whole number"),
        ({"retry": 3}, "retry", "an object"),
        ({"httpIdleTimeoutMs": "1"}, "httpIdleTimeoutMs", "a whole number"),
    ],
)
def test_a_wrong_value_is_told_and_its_default_used(
    content: dict[str, object], name: str, expected: str, tmp_path: Path
) -> None:
    settings, diagnostics = read(tmp_path, {**content, "followUpMode": "all"})
    assert Settings(follow_up_mode="all") == settings
    (diagnostic,) = diagnostics
    assert str(diagnostic).startswith(f"{tmp_path / 'settings.json'}: {name}: must be {expected}")
    assert "default is used" in str(diagnostic)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1} // no comments here', "\x00"])
def test_a_damaged_file_is_told_and_all_defaults_used(content: str, tmp_path: Path) -> None:
    settings, diagnostics = read(tmp_path, content)
    assert Settings() == settings
    assert 1 == len(diagnostics)


def test_null_and_unknown_keys_are_as_good_as_absent(tmp_path: Path) -> None:
    content = {"defaultModel": None, "retry": {"maxRetries": None}, "images": None, "theme": {"x": [1]}}
    assert LoadedSettings(Settings()) == read(tmp_path, content)


def test_the_old_name_of_the_queue_mode_still_works(tmp_path: Path) -> None:
    assert "all" == read(tmp_path, {"queueMode": "all"}).settings.steering_mode
    both = read(tmp_path, {"queueMode": "all", "steeringMode": "one-at-a-time"})
    assert "one-at-a-time" == both.settings.steering_mode


def test_the_file_is_not_touched(tmp_path: Path) -> None:
    read(tmp_path, {"queueMode": "all"})
    assert [tmp_path / "settings.json"] == list(tmp_path.iterdir())
    assert {"queueMode": "all"} == json.loads((tmp_path / "settings.json").read_text())


def test_the_project_is_not_trusted_and_the_user_is_told(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".pi").mkdir(parents=True)
    (project / ".pi" / "settings.json").write_text('{"steeringMode": "all"}')
    (project / ".pi" / "extensions").mkdir()
    loaded = load_configuration({"HOME": str(tmp_path)}, project)
    assert Settings() == loaded.settings
    (notice,) = loaded.notices
    assert "not trusted" in notice
    assert "settings.json, extensions" in notice


def test_a_bare_project_folder_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / ".pi").mkdir()
    assert () == load_configuration({"HOME": str(tmp_path / "home")}, tmp_path).notices


@pytest.mark.parametrize(
    ("variable", "folder"),
    [(None, "home/.pi/agent"), ("", "home/.pi/agent"), ("~/mine", "home/mine"), ("{tmp}/other", "other")],
)
def test_the_agent_folder_is_the_users_or_where_the_variable_says(
    variable: str | None, folder: str, tmp_path: Path
) -> None:
    env = {"HOME": str(tmp_path / "home")}
    if variable is not None:
        env["PI_CODING_AGENT_DIR"] = variable.format(tmp=tmp_path)
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "settings.json").write_text('{"defaultModel": "here"}')
    assert "here" == load_configuration(env, tmp_path).settings.default_model


def test_nothing_is_created_in_the_agent_folder(tmp_path: Path) -> None:
    load_configuration({"HOME": str(tmp_path)}, tmp_path)
    assert [] == list(tmp_path.iterdir())
