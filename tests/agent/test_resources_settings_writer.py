"""A setting is changed in its file; everything else in it is somebody else's."""

import json
from pathlib import Path

import pytest

from pinnace_agent.resources.relaxed_json import ConfigurationFileError
from pinnace_agent.resources.settings_writer import REMOVED, change_settings


def test_l19_a_change_is_in_the_file_when_it_returns(tmp_path: Path) -> None:
    assert change_settings(tmp_path / "settings.json", {("compaction", "enabled"): False})

    assert '{\n  "compaction": {\n    "enabled": false\n  }\n}' == (tmp_path / "settings.json").read_text()


def test_only_the_changed_keys_change(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"theme": "dark", "compaction": {"new": 1, "enabled": true}, "zzz": [1, {"x": null}]}')
    change_settings(file, {("compaction", "enabled"): False, ("defaultModel",): "m"})

    changed = json.loads(file.read_text())
    assert ["theme", "compaction", "zzz", "defaultModel"] == list(changed)
    assert {"new": 1, "enabled": False} == changed["compaction"]
    assert [1, {"x": None}] == changed["zzz"]


def test_settings_can_be_removed(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"a": 1, "b": {"c": 1, "d": 2}}')
    change_settings(file, {("a",): REMOVED, ("b", "c"): REMOVED, ("e", "f"): REMOVED})

    assert {"b": {"d": 2}} == json.loads(file.read_text())


def test_old_names_become_those_of_today_so_that_they_cant_come_back(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"queueMode": "all", "websockets": true, "retry": {"maxDelayMs": 5, "enabled": false}}')
    change_settings(file, {("steeringMode",): "one-at-a-time"})

    assert {
        "steeringMode": "one-at-a-time",
        "transport": "websocket",
        "retry": {"enabled": False, "provider": {"maxRetryDelayMs": 5}},
    } == json.loads(file.read_text())


def test_something_else_in_the_place_of_an_object_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"retry": "off"}')
    with pytest.raises(ConfigurationFileError, match="retry: must be an object"):
        change_settings(file, {("retry", "enabled"): False})

    assert '{"retry": "off"}' == file.read_text()


def test_l18_settings_as_they_were_are_kept_beside_them(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"a": 1}')
    change_settings(file, {("a",): 2})

    assert '{"a": 1}' == (tmp_path / "settings.json.bak").read_text()
