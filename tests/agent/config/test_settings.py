"""settings.json: a wrong value is reported with file, key and expectation, and its default is used."""

import json
from dataclasses import fields, replace
from math import inf
from pathlib import Path

import pytest

from pinnace_agent.config.sandbox_settings import SandboxSettings
from pinnace_agent.config.settings import (
    CompactionSettings,
    LoadedSettings,
    ResourceSettings,
    RetrySettings,
    RunLimits,
    Settings,
    TokenOverride,
    read_settings,
)
from pinnace_agent.engine.run_job import NO_MODEL
from pinnace_agent.redaction.policy import Secret
from pinnace_spec.records.messages import Model


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
    "modelThinkingLevels": {"local/m": "low"},
    "thinkingBudgets": {"minimal": 1, "high": 2},
    "enabledModels": ["local/*", "m:low"],
    "defaultTools": ["+grep"],
    "steeringMode": "all",
    "followUpMode": "all",
    "sandbox": {
        "mode": "read-only",
        "network": "on",
        "writable": ["/w"],
        "readable": ["/r"],
        "hide": ["~/h"],
        "unixSockets": True,
        "escalation": "never",
        "mechanism": "bubblewrap",
        "enforced": True,
    },
    "sessionDir": "~/sessions",
    "shellPath": "/bin/sh",
    "shellCommandPrefix": "set -e",
    "shellProviderKeys": True,
    "compaction": {
        "enabled": False,
        "reserveTokens": 0,
        "keepRecentTokens": 10.0,
        "modelOverrides": {"local/m": {"reserveTokens": 3}},
    },
    "retry": {
        "enabled": False,
        "maxRetries": 0,
        "baseDelayMs": 1,
        "maxAgentDelayMs": 2,
        "provider": {"timeoutMs": 3, "maxRetries": 4, "maxRetryDelayMs": 5},
    },
    "httpIdleTimeoutMs": 0,
    "httpProxy": "http://proxy:1",
    "images": {"blockImages": True, "autoResize": False},
    "limits": {"maxTurns": 5, "maxCost": 0.5, "maxRunSeconds": 60},
    "tools": {"timeoutSeconds": 1.5, "maxSubagents": 2, "maxSubagentDepth": 0},
    "cacheWarming": "streaming",
    "defaultProjectTrust": "never",
    "recheckProjectTrust": True,
    "enableSkillCommands": False,
    "packages": ["npm:x", {"source": "npm:y", "skills": []}],
    "extensions": ["e.py"],
    "skills": ["s"],
    "prompts": ["p.md"],
}


def read_in(folder: Path) -> Settings:
    """`ALL`, as it is to be read."""
    return Settings(
        default_provider="local",
        default_model="m",
        default_thinking_level="high",
        model_thinking_levels={"local/m": "low"},
        thinking_budgets={"minimal": 1, "high": 2},
        enabled_models=("local/*", "m:low"),
        default_tools=("+grep",),
        steering_mode="all",
        follow_up_mode="all",
        session_dir="~/sessions",
        shell_path="/bin/sh",
        shell_command_prefix="set -e",
        shell_provider_keys=True,
        compaction=CompactionSettings(False, 0, 10, {"local/m": TokenOverride(reserve_tokens=3)}),
        retry=RetrySettings(False, 0, 1, 2, 3, 5),
        http_idle_timeout_ms=0,
        http_proxy=Secret("http://proxy:1"),
        resizes_images=False,
        blocks_images=True,
        cache_warming="streaming",
        limits=RunLimits(5, 0.5, 60.0),
        tool_timeout_s=1.5,
        max_subagents=2,
        max_subagent_depth=0,
        default_project_trust="never",
        rechecks_project_trust=True,
        enables_skill_commands=False,
        sandbox=SandboxSettings("read-only", "on", ("/w",), ("/r",), ("~/h",), True, "never", "bubblewrap", True),
        resources=(
            ResourceSettings(folder, False, ("npm:x", {"source": "npm:y", "skills": []}), ("e.py",), ("s",), ("p.md",)),
        ),
    )


def test_every_setting_of_the_user_is_read(tmp_path: Path) -> None:
    loaded = read(tmp_path, ALL)

    expected = read_in(tmp_path)
    assert ((), ()) == (loaded.diagnostics, loaded.others)
    assert loaded.settings.http_proxy is not None
    assert "http://proxy:1" == loaded.settings.http_proxy.reveal()
    assert replace(expected, http_proxy=None) == replace(loaded.settings, http_proxy=None)
    default = Settings()
    same = [field.name for field in fields(Settings) if getattr(expected, field.name) == getattr(default, field.name)]
    assert ["project_session_dir", "project_sandbox"] == same


@pytest.mark.parametrize(
    ("content", "key", "message"),
    [
        ({"shelPath": "/bin/sh"}, "shelPath", "is not known; did you mean shellPath?"),
        ({"default_model": "m"}, "default_model", "is not known; did you mean defaultModel?"),
        ({"STEERINGMODE": "all"}, "STEERINGMODE", "is not known; did you mean steeringMode?"),
        ({"theem": "dark"}, "theem", "is not known; did you mean theme?"),
        ({"images": {"autoResizes": True}}, "images.autoResizes", "is not known; did you mean autoResize?"),
        ({"terminal": {"zzz": 1}}, "terminal.zzz", "is not known"),
        ({"thinkingBudgets": {"hihg": 5}}, "thinkingBudgets.hihg", "is not known; did you mean high?"),
        ({"mcp": {"maxTool": 5}}, "mcp.maxTool", "is not known; did you mean maxTools?"),
    ],
)
def test_an_unknown_key_is_a_hint_that_names_the_nearest_known_one(
    content: dict[str, object], key: str, message: str, tmp_path: Path
) -> None:
    loaded = read(tmp_path, content)

    assert [f"{tmp_path / 'settings.json'}: {key}: {message} (ignored)"] == list(map(str, loaded.diagnostics))
    assert [] == [text for each in loaded.diagnostics for text in each.mistakes()]
    assert (Settings(), (), ()) == (loaded.settings, loaded.refusals, loaded.others)


def test_an_unknown_key_that_resembles_none_may_be_an_extensions(tmp_path: Path) -> None:
    loaded = read(tmp_path, {"permissions": {"deny": []}, "webSearch": {}})

    assert (Settings(), (), ()) == (loaded.settings, loaded.diagnostics, loaded.refusals)
    assert ["permissions", "webSearch"] == [problem.path for each in loaded.others for problem in each.problems]


def test_every_key_that_the_original_knows_is_known(tmp_path: Path) -> None:
    """Those of the schema of pi 1.5.2: settings of its terminal, of updates and of telemetry among them."""
    of_groups = {
        "branchSummary": ["reserveTokens", "skipPrompt"],
        "codemode": ["mode", "inlineBudget"],
        "compaction": ["enabled", "reserveTokens", "keepRecentTokens", "modelOverrides"],
        "images": ["autoResize", "blockImages"],
        "markdown": ["codeBlockIndent", "mermaid"],
        "retry": ["enabled", "maxRetries", "baseDelayMs", "maxAgentDelayMs", "provider", "maxDelayMs"],
        "terminal": "showImages imageWidthCells clearOnShrink showTerminalProgress hyperlinks images trueColor".split(),
        "thinkingBudgets": ["minimal", "low", "medium", "high"],
        "warnings": ["anthropicExtraUsage"],
    }
    others = """
        $schema lastChangelogVersion extensionChangelogVersions defaultProvider defaultModel defaultThinkingLevel
        modelThinkingLevels transport sessionShareDestination steeringMode followUpMode theme hideThinkingBlock
        showCacheMissNotices externalEditor shellPath quietStartup defaultProjectTrust shellCommandPrefix npmCommand
        selfUpdateCommand collapseChangelog enableInstallTelemetry enableAnalytics trackingId packages extensions
        deviceId skills prompts themes enableSkillCommands enabledModels defaultTools doubleEscapeAction treeFilterMode
        editorPaddingX outputPad autocompleteMaxVisible showHardwareCursor sessionDir httpProxy httpIdleTimeoutMs
        cacheWarming websocketConnectTimeoutMs tuiMode fullscreenExitOutput fullscreenScrollbar fullscreenCopyOnSelect
        fullscreenWheelScrollLines queueMode websockets
    """.split()
    content = {**dict.fromkeys(others), **{group: dict.fromkeys(names) for group, names in of_groups.items()}}

    assert LoadedSettings(Settings()) == read(tmp_path, content)


@pytest.mark.parametrize("name", ["packages", "extensions", "skills", "prompts", "themes"])
def test_a_wrong_item_of_a_list_costs_itself_alone(name: str, tmp_path: Path) -> None:
    loaded = read(tmp_path, {name: ["a", 1, "b", None]})

    assert ("a", "b") == getattr(loaded.settings.resources[0], name)
    assert [f"{name}[1]", f"{name}[3]"] == [problem.path for problem in loaded.diagnostics[0].problems]
    assert "left out" == loaded.diagnostics[0].consequence


@pytest.mark.parametrize("wrong", [5.5, "?", [[]], {"?": []}, False, None], ids=repr)
def test_a_wrong_value_changes_no_other(wrong: object, tmp_path: Path) -> None:
    """Each key of `ALL` is damaged; whatever another key decides is what it was."""
    before = read(tmp_path, ALL).settings
    own = {
        field.name: {key for key in ALL if getattr(read(tmp_path, _without(key)).settings, field.name) != value}
        for field in fields(Settings)
        if (value := getattr(before, field.name)) is not None
    }
    for key in ALL:
        after = read(tmp_path, {**ALL, key: wrong}).settings
        for name, keys in own.items():
            if keys and key not in keys:
                assert getattr(before, name) == getattr(after, name), key


def _without(key: str) -> dict[str, object]:
    return {name: value for name, value in ALL.items() if name != key}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"shellPath": "/no/such/shell"}, "shellPath: no such file, so that commands will fail"),
        ({"shellPath": "zsch"}, "shellPath: must be a path, such as /bin/bash; there is no such file here, so that"),
        ({"shellPath": "/"}, "shellPath: is a folder, so that commands will fail"),
        ({"shellPath": "{not executable}"}, "shellPath: is not executable, so that commands will fail"),
        ({"shellPath": "/bin/sh"}, None),
        ({"httpProxy": "proxy"}, "httpProxy: it is no address of a proxy, such as http://HOST:PORT, so that requests"),
        ({"httpProxy": "ftp://proxy:1"}, "httpProxy: it is no address of a proxy"),
        ({"httpProxy": "http://user:hidden@:1"}, "httpProxy: it is no address of a proxy"),
        ({"httpProxy": "http://proxy:1"}, None),
        ({"defaultModel": "m"}, "defaultModel: has no effect without defaultProvider"),
        ({"defaultProvider": "p"}, "defaultProvider: has no effect without defaultModel"),
        ({"defaultProvider": "p", "defaultModel": "m"}, None),
    ],
)
def test_a_value_that_cannot_work_is_reported(content: dict[str, str], problem: str | None, tmp_path: Path) -> None:
    if content.get("shellPath") == "{not executable}":
        content = {"shellPath": str(tmp_path / "shell")}
        (tmp_path / "shell").touch(0o644)
    loaded = read(tmp_path, content)

    assert (problem is not None) == bool(loaded.diagnostics)
    for each in loaded.diagnostics:
        assert str(each).startswith(f"{tmp_path / 'settings.json'}: {problem}")
        assert [] == each.mistakes()
        assert "hidden" not in str(each)


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
_TIME = f'{_WHOLE}, or "disabled"'
_OVERRIDE = "must be an object whose reserveTokens and keepRecentTokens are whole numbers"
_PACKAGES = "must be a list of strings and objects with a source"
_LEVEL = "must be one of off, minimal, low, medium, high, xhigh, max"


@pytest.mark.parametrize(
    ("content", "key", "expectation"),
    [
        ({"defaultProvider": 1}, "defaultProvider", "must be a string"),
        ({"defaultModel": ["m"]}, "defaultModel", "must be a string"),
        ({"defaultThinkingLevel": "extreme"}, "defaultThinkingLevel", _LEVEL),
        ({"defaultThinkingLevel": ["high"]}, "defaultThinkingLevel", _LEVEL),
        ({"enabledModels": "m"}, "enabledModels", "must be a list of strings"),
        ({"enabledModels": ["m", 1]}, "enabledModels", "must be a list of strings"),
        ({"steeringMode": "some"}, "steeringMode", "must be all or one-at-a-time"),
        ({"steeringMode": {}}, "steeringMode", "must be all or one-at-a-time"),
        ({"followUpMode": 1}, "followUpMode", "must be all or one-at-a-time"),
        ({"queueMode": "some"}, "steeringMode", "must be all or one-at-a-time"),
        ({"modelThinkingLevels": "high"}, "modelThinkingLevels", "must be an object"),
        ({"modelThinkingLevels": {"a/b": "x"}}, "modelThinkingLevels.a/b", _LEVEL),
        ({"thinkingBudgets": 1}, "thinkingBudgets", "must be an object"),
        ({"thinkingBudgets": {"low": "1"}}, "thinkingBudgets.low", _WHOLE),
        ({"defaultTools": "read"}, "defaultTools", "must be a list of strings"),
        ({"sessionDir": 1}, "sessionDir", "must be a string"),
        ({"shellProviderKeys": "yes"}, "shellProviderKeys", "must be true or false"),
        ({"compaction": {"modelOverrides": {"a/b": 1}}}, "compaction.modelOverrides.a/b", _OVERRIDE),
        (
            {"compaction": {"modelOverrides": {"a/b": {"reserveTokens": -1}}}},
            "compaction.modelOverrides.a/b",
            _OVERRIDE,
        ),
        ({"retry": {"provider": 1}}, "retry.provider", "must be an object"),
        ({"retry": {"provider": {"timeoutMs": -1}}}, "retry.provider.timeoutMs", _TIME),
        ({"retry": {"provider": {"maxRetryDelayMs": -1}}}, "retry.provider.maxRetryDelayMs", _WHOLE),
        ({"retry": {"maxDelayMs": -1}}, "retry.provider.maxRetryDelayMs", _WHOLE),
        ({"httpProxy": 1}, "httpProxy", "must be a string"),
        ({"limits": 5}, "limits", "must be an object"),
        ({"limits": {"maxTurns": 1.5}}, "limits.maxTurns", "must be a whole number"),
        ({"limits": {"maxCost": "1"}}, "limits.maxCost", "must be a number of USD"),
        ({"limits": {"maxRunSeconds": -1}}, "limits.maxRunSeconds", "must be a number of seconds"),
        ({"tools": {"timeoutSeconds": True}}, "tools.timeoutSeconds", "must be a number of seconds"),
        ({"tools": {"maxSubagents": 1.5}}, "tools.maxSubagents", "must be a whole number"),
        ({"defaultProjectTrust": True}, "defaultProjectTrust", "must be one of ask, always, never"),
        ({"cacheWarming": True}, "cacheWarming", "must be one of off, streaming, idle"),
        ({"enableSkillCommands": 1}, "enableSkillCommands", "must be true or false"),
        ({"packages": "npm:x"}, "packages", _PACKAGES),
        ({"skills": "s"}, "skills", "must be a list of strings"),
        ({"images": {"autoResize": 1}}, "images.autoResize", "must be true or false"),
        ({"shellPath": 1}, "shellPath", "must be a string"),
        ({"shellCommandPrefix": False}, "shellCommandPrefix", "must be a string"),
        ({"compaction": []}, "compaction", "must be an object"),
        ({"compaction": {"enabled": "no"}}, "compaction.enabled", "must be true or false"),
        ({"compaction": {"reserveTokens": -1}}, "compaction.reserveTokens", _WHOLE),
        ({"compaction": {"keepRecentTokens": 1.5}}, "compaction.keepRecentTokens", _WHOLE),
        ({"retry": "off"}, "retry", "must be an object"),
        ({"retry": {"enabled": 0}}, "retry.enabled", "must be true or false"),
        ({"retry": {"maxRetries": True}}, "retry.maxRetries", _WHOLE),
        ({"retry": {"baseDelayMs": "2s"}}, "retry.baseDelayMs", _WHOLE),
        ({"retry": {"maxAgentDelayMs": 1e300}}, "retry.maxAgentDelayMs", _WHOLE),
        ({"httpIdleTimeoutMs": "x"}, "httpIdleTimeoutMs", _TIME),
        ({"images": {"blockImages": "yes"}}, "images.blockImages", "must be true or false"),
    ],
)
def test_a_wrong_value_is_reported_with_file_key_and_expectation_and_its_default_is_used(
    content: dict[str, object], key: str, expectation: str, tmp_path: Path
) -> None:
    loaded = read(tmp_path, content)

    file = tmp_path / "settings.json"
    assert [f"{file}: {key}: {expectation} (the default is used in its place)"] == list(map(str, loaded.diagnostics))
    assert Settings() == loaded.settings


def test_what_is_right_beside_a_wrong_value_is_used(tmp_path: Path) -> None:
    loaded = read(tmp_path, {**ALL, "defaultModel": 1, "retry": {"enabled": 1, "maxRetries": 9}})

    assert [("defaultModel", "must be a string"), ("retry.enabled", "must be true or false")] == [
        (problem.path, problem.message) for problem in loaded.diagnostics[0].problems
    ]
    assert (loaded.settings.default_provider, loaded.settings.default_model) == ("local", None)
    assert loaded.settings.retry == RetrySettings(max_retries=9)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"retry": {}} // comment', '{"a": 1,}', "\x00", '{"a": 1e999}']
)
def test_a_damaged_file_is_reported_and_left_alone_and_all_defaults_are_used(text: str, tmp_path: Path) -> None:
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


def test_a_folder_in_the_place_of_the_file_is_reported(tmp_path: Path) -> None:
    loaded = read_settings(tmp_path)

    assert "can't be read: Is a directory" in str(loaded.diagnostics[0])
    assert Settings() == loaded.settings


def test_diagnostics_never_repeat_the_value(tmp_path: Path) -> None:
    loaded = read(tmp_path, {name: {"x": "sk-marker"} for name in ALL})

    assert loaded.diagnostics
    assert "sk-marker" not in f"{loaded.diagnostics[0]} {loaded!r}"


@pytest.mark.parametrize(
    ("text", "place"), [('{"a": 1,\n  "b": }', "line 2, column 8"), ("\ufeff[1,\n\n x]", "line 3, column 2")]
)
def test_a_syntax_error_is_reported_with_line_and_column(text: str, place: str, tmp_path: Path) -> None:
    assert f"({place})" in str(read(tmp_path, text).diagnostics[0])


def test_a_damaged_file_is_reported_with_its_last_good_state_if_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "settings.json.bak").write_text("{}")

    assert f"{tmp_path / 'settings.json.bak'} is how it was" in str(read(tmp_path, "{").diagnostics[0])


@pytest.mark.parametrize(
    ("content", "timeout_s"),
    [
        ({}, 300.0),
        ({"httpIdleTimeoutMs": "disabled"}, None),
        ({"httpIdleTimeoutMs": 0}, None),
        ({"httpIdleTimeoutMs": 1000, "retry": {"provider": {"timeoutMs": 2000}}}, 2.0),
        ({"httpIdleTimeoutMs": 1000, "retry": {"provider": {"timeoutMs": 0}}}, None),
    ],
)
def test_how_long_a_server_may_be_silent(content: object, timeout_s: float | None, tmp_path: Path) -> None:
    assert timeout_s == read(tmp_path, content).settings.idle_timeout_s


@pytest.mark.parametrize(
    ("content", "longest_s"),
    [({}, None), ({"retry": {"maxDelayMs": 5000}}, 5.0), ({"retry": {"provider": {"maxRetryDelayMs": 0}}}, inf)],
)
def test_how_long_a_server_may_make_us_wait(content: object, longest_s: float | None, tmp_path: Path) -> None:
    assert longest_s == read(tmp_path, content).settings.max_retry_after_s


@pytest.mark.parametrize(
    ("content", "skills", "commands"),
    [
        ({"skills": {"enableSkillCommands": False, "customDirectories": ["a"]}}, ("a",), False),
        ({"skills": {"customDirectories": []}}, None, True),
        ({"skills": {"enableSkillCommands": False}, "enableSkillCommands": True}, None, True),
    ],
)
def test_skills_of_older_releases_are_read(
    content: object, skills: tuple[str, ...] | None, commands: bool, tmp_path: Path
) -> None:
    loaded = read(tmp_path, content)

    assert () == loaded.diagnostics
    assert [skills] * bool(skills) == [one.skills for one in loaded.settings.resources]
    assert commands == loaded.settings.enables_skill_commands


def test_a_model_has_its_own_figures_for_compaction_as_far_as_they_go() -> None:
    model: Model = {**NO_MODEL, "provider": "p", "id": "m"}
    settings = CompactionSettings(True, 1, 2, {"p/m": TokenOverride(keep_recent_tokens=9)})

    assert CompactionSettings(True, 1, 9) == settings.for_model(model)
    assert settings == settings.for_model({**model, "id": "n"}) == settings.for_model(None)


def test_a_model_has_its_own_level_to_start_with() -> None:
    model: Model = {**NO_MODEL, "provider": "p", "id": "m"}
    settings = Settings(default_thinking_level="low", model_thinking_levels={"p/m": "high"})

    assert ("high", "low") == (settings.thinking_level_of(model), settings.thinking_level_of({**model, "id": "n"}))


def test_settings_are_shown_without_the_password_of_a_proxy(tmp_path: Path) -> None:
    assert "hunter2" not in repr(read(tmp_path, {"httpProxy": "http://me:hunter2@proxy:1"}))
