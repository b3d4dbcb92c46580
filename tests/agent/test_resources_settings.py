"""settings.json: a wrong value is told with file, key and expectation, and its default is used."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from pinnace_agent.resources.settings import (
    CompactionSettings,
    LoadedSettings,
    RetrySettings,
    Settings,
    read_settings,
)


def read(folder: Path, content: object) -> LoadedSettings:
    file = folder / "settings.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_settings(file)


def test_a_missing_file_means_the_defaults_and_is_not_made(tmp_path: Path) -> None:
    assert LoadedSettings(Settings()) == read_settings(tmp_path / "settings.json")
    assert [] == list(tmp_path.iterdir())


def test_the_defaults_are_those_of_pi() -> None:
    settings = Settings()

    assert settings.default_thinking_level == "medium"
    assert (settings.steering_mode, settings.follow_up_mode) == ("one-at-a-time", "one-at-a-time")
    assert settings.compaction == CompactionSettings(True, 16_384, 20_000)
    assert settings.retry == RetrySettings(True, 3, 2_000, 60_000)
    assert settings.http_idle_timeout_ms == 300_000


ALL = {
    "defaultProvider": "local",
    "defaultModel": "m",
    "defaultThinkingLevel": "high",
    "enabledModels": ["local/*", "m:low"],
    "steeringMode": "all",
    "followUpMode": "all",
    "sessionDir": "~/sessions",
    "shellPath": "~/bin/sh",
    "shellCommandPrefix": "set -e",
    "compaction": {"enabled": False, "reserveTokens": 0, "keepRecentTokens": 10.0},
    "retry": {"enabled": False, "maxRetries": 0, "baseDelayMs": 1, "maxAgentDelayMs": 2},
    "httpIdleTimeoutMs": 0,
    "images": {"blockImages": True},
}
READ = Settings(
    default_provider="local",
    default_model="m",
    default_thinking_level="high",
    enabled_models=("local/*", "m:low"),
    steering_mode="all",
    follow_up_mode="all",
    session_dir="~/sessions",
    shell_path="~/bin/sh",
    shell_command_prefix="set -e",
    compaction=CompactionSettings(False, 0, 10),
    retry=RetrySettings(False, 0, 1, 2),
    http_idle_timeout_ms=0,
    blocks_images=True,
)


def test_every_setting_is_read(tmp_path: Path) -> None:
    assert LoadedSettings(READ) == read(tmp_path, ALL)
    default = Settings()
    assert [] == [field.name for field in fields(Settings) if getattr(READ, field.name) == getattr(default, field.name)]


def test_unknown_keys_are_the_business_of_other_programs(tmp_path: Path) -> None:
    content = {"theme": "dark", "packages": ["x"], "compaction": {"new": 1}, "retry": {"provider": {"timeoutMs": 1}}}

    assert LoadedSettings(Settings()) == read(tmp_path, content)


def test_null_is_as_good_as_absent(tmp_path: Path) -> None:
    assert LoadedSettings(Settings()) == read(tmp_path, dict.fromkeys(ALL))


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    assert "m" == read(tmp_path, '\ufeff{"defaultModel": "m"}').settings.default_model


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        ({"queueMode": "all"}, "all"),
        ({"queueMode": "all", "steeringMode": "one-at-a-time"}, "one-at-a-time"),
    ],
)
def test_the_old_name_of_the_steering_mode_counts_where_the_new_one_is_absent(
    content: object, mode: str, tmp_path: Path
) -> None:
    assert mode == read(tmp_path, content).settings.steering_mode


_WHOLE = "must be a whole number from 0 to 34359738368"
_LEVEL = "must be one of off, minimal, low, medium, high, xhigh, max"


@pytest.mark.parametrize(
    ("content", "key", "expectation"),
    [
        ({"defaultProvider": 1}, "defaultProvider", "must be a text"),
        ({"defaultModel": ["m"]}, "defaultModel", "must be a text"),
        ({"defaultThinkingLevel": "extreme"}, "defaultThinkingLevel", _LEVEL),
        ({"defaultThinkingLevel": ["high"]}, "defaultThinkingLevel", _LEVEL),
        ({"enabledModels": "m"}, "enabledModels", "must be a list of texts"),
        ({"enabledModels": ["m", 1]}, "enabledModels", "must be a list of texts"),
        ({"steeringMode": "some"}, "steeringMode", "must be all or one-at-a-time"),
        ({"steeringMode": {}}, "steeringMode", "must be all or one-at-a-time"),
        ({"followUpMode": 1}, "followUpMode", "must be all or one-at-a-time"),
        ({"queueMode": "some"}, "queueMode", "must be all or one-at-a-time"),
        ({"shellPath": 1}, "shellPath", "must be a text"),
        ({"shellCommandPrefix": False}, "shellCommandPrefix", "must be a text"),
        ({"compaction": []}, "compaction", "must be an object"),
        ({"compaction": {"enabled": "no"}}, "compaction.enabled", "must be true or false"),
        ({"compaction": {"reserveTokens": -1}}, "compaction.reserveTokens", _WHOLE),
        ({"compaction": {"keepRecentTokens": 1.5}}, "compaction.keepRecentTokens", _WHOLE),
        ({"retry": "off"}, "retry", "must be an object"),
        ({"retry": {"enabled": 0}}, "retry.enabled", "must be true or false"),
        ({"retry": {"maxRetries": True}}, "retry.maxRetries", _WHOLE),
        ({"retry": {"baseDelayMs": "2s"}}, "retry.baseDelayMs", _WHOLE),
        ({"retry": {"maxAgentDelayMs": 1e300}}, "retry.maxAgentDelayMs", _WHOLE),
        ({"httpIdleTimeoutMs": "x"}, "httpIdleTimeoutMs", _WHOLE),
        ({"images": {"blockImages": "yes"}}, "images.blockImages", "must be true or false"),
    ],
)
def test_a_wrong_value_is_told_with_file_key_and_expectation_and_its_default_is_used(
    content: dict[str, object], key: str, expectation: str, tmp_path: Path
) -> None:
    loaded = read(tmp_path, content)

    file = tmp_path / "settings.json"
    assert [f"{file}: {key}: {expectation} (the default is used in its place)"] == list(map(str, loaded.diagnostics))
    assert Settings() == loaded.settings


def test_what_is_right_beside_a_wrong_value_is_used(tmp_path: Path) -> None:
    loaded = read(tmp_path, {**ALL, "defaultModel": 1, "retry": {"enabled": 1, "maxRetries": 9}})

    assert [("defaultModel", "must be a text"), ("retry.enabled", "must be true or false")] == list(
        loaded.diagnostics[0].problems
    )
    assert (loaded.settings.default_provider, loaded.settings.default_model) == ("local", None)
    assert loaded.settings.retry == RetrySettings(max_retries=9)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"retry": {}} // comment', '{"a": 1,}', "\x00", '{"a": 1e999}']
)
def test_a_damaged_file_is_told_and_left_alone_and_all_defaults_are_used(text: str, tmp_path: Path) -> None:
    loaded = read(tmp_path, text)

    [diagnostic] = loaded.diagnostics
    assert Settings() == loaded.settings
    assert str(diagnostic).startswith(f"{tmp_path / 'settings.json'}: is not ")
    assert str(diagnostic).endswith("(default settings are used)")
    assert text == (tmp_path / "settings.json").read_text()


def test_bytes_that_are_no_text_are_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b'{"defaultModel": "\xff"}')
    loaded = read_settings(tmp_path / "settings.json")

    assert "is not UTF-8 text" in str(loaded.diagnostics[0])
    assert Settings() == loaded.settings


def test_a_folder_in_the_place_of_the_file_is_told(tmp_path: Path) -> None:
    loaded = read_settings(tmp_path)

    assert "can't be read: Is a directory" in str(loaded.diagnostics[0])
    assert Settings() == loaded.settings


def test_what_is_told_never_repeats_the_value(tmp_path: Path) -> None:
    loaded = read(tmp_path, {name: {"x": "sk-marker"} for name in ALL})

    assert loaded.diagnostics
    assert "sk-marker" not in f"{loaded.diagnostics[0]} {loaded!r}"
