"""A project's settings over the user's: what is joined, what is replaced, what a project may not say."""

import json
from pathlib import Path

import pytest

from pinnace_agent.config.settings import LoadedSettings, Settings, TokenOverride, read_settings


def read(folder: Path, user: object, project: object) -> LoadedSettings:
    files = folder / "user.json", folder / "project.json"
    for file, content in zip(files, (user, project), strict=True):
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_settings(*files)


def settings(folder: Path, user: object, project: object) -> Settings:
    loaded = read(folder, user, project)
    assert () == loaded.diagnostics
    return loaded.settings


def test_settings_of_the_project_take_precedence_over_the_users(tmp_path: Path) -> None:
    merged = settings(
        tmp_path,
        {
            "defaultProvider": "p",
            "defaultModel": "a",
            "steeringMode": "all",
            "retry": {"maxRetries": 1, "provider": {"timeoutMs": 1}},
        },
        {"defaultModel": "b", "retry": {"baseDelayMs": 2, "provider": {"maxRetryDelayMs": 3}}},
    )

    assert ("b", "all") == (merged.default_model, merged.steering_mode)
    assert (1, 2, 1, 3) == (
        merged.retry.max_retries,
        merged.retry.base_delay_ms,
        merged.retry.timeout_ms,
        merged.retry.max_server_delay_ms,
    )


def test_objects_of_any_keys_are_joined(tmp_path: Path) -> None:
    merged = settings(
        tmp_path,
        {
            "modelThinkingLevels": {"a/a": "low", "b/b": "low"},
            "compaction": {"modelOverrides": {"a/a": {"reserveTokens": 1, "keepRecentTokens": 2}}},
        },
        {
            "modelThinkingLevels": {"b/b": "high"},
            "compaction": {"modelOverrides": {"a/a": {"keepRecentTokens": 3}, "b/b": {}}},
        },
    )

    assert {"a/a": "low", "b/b": "high"} == merged.model_thinking_levels
    assert {"a/a": TokenOverride(1, 3), "b/b": TokenOverride()} == merged.compaction.model_overrides


def test_a_list_of_the_project_replaces_the_users(tmp_path: Path) -> None:
    assert ("b",) == settings(tmp_path, {"enabledModels": ["a"]}, {"enabledModels": ["b"]}).enabled_models


@pytest.mark.parametrize(
    ("user", "project", "words"),
    [
        (None, None, None),
        (["read"], None, ("read",)),
        (["read"], ["bash"], ("bash",)),
        (["read"], [], ()),
        (["read"], ["+grep", "-read"], ("read", "+grep", "-read")),
        (["+ls"], ["-bash"], ("+ls", "-bash")),
        (None, ["+grep"], ("+grep",)),
        ([], ["+grep"], ("-*", "+grep")),
        (["read"], ["bash", "+grep"], ("bash", "+grep")),
    ],
)
def test_changes_of_the_tools_change_the_users_list(
    user: object, project: object, words: tuple[str, ...] | None, tmp_path: Path
) -> None:
    assert words == settings(tmp_path, {"defaultTools": user}, {"defaultTools": project}).default_tools


def test_resources_are_kept_for_each_file_the_projects_first(tmp_path: Path) -> None:
    merged = settings(tmp_path, {"skills": ["a"], "prompts": ["p"]}, {"skills": ["b"]})

    assert [(True, ("b",), ()), (False, ("a",), ("p",))] == [
        (one.is_project, one.skills, one.prompts) for one in merged.resources
    ]


def test_null_of_the_project_is_the_default(tmp_path: Path) -> None:
    user = {"steeringMode": "all", "retry": {"maxRetries": 9}}

    merged = settings(tmp_path, user, {"steeringMode": None, "retry": None})
    assert ("one-at-a-time", 3) == (merged.steering_mode, merged.retry.max_retries)


def test_s2_a_project_can_neither_trust_itself_nor_show_keys_nor_read_what_is_sent(tmp_path: Path) -> None:
    project = {"defaultProjectTrust": "always", "shellProviderKeys": True, "httpProxy": "http://me:1"}

    merged = settings(tmp_path, {}, project)
    assert ("ask", False, None) == (merged.default_project_trust, merged.shell_provider_keys, merged.http_proxy)


def test_a_project_does_not_say_what_a_run_may_cost_but_how_long_its_tools_may_take(tmp_path: Path) -> None:
    user = {"limits": {"maxTurns": 5}, "tools": {"timeoutSeconds": 60}}
    limits = {"maxTurns": 500, "maxCost": 9, "maxRunSeconds": 9}
    project = {"limits": limits, "tools": {"timeoutSeconds": 600}, "cacheWarming": "idle"}

    merged = settings(tmp_path, user, project)
    assert ((5, None, None), 600, "off") == (merged.limits, merged.tool_timeout_s, merged.cache_warming)


def test_where_sessions_go_is_known_by_who_says_it(tmp_path: Path) -> None:
    merged = settings(tmp_path, {"sessionDir": "mine"}, {"sessionDir": "theirs"})

    assert ("mine", "theirs") == (merged.session_dir, merged.project_session_dir)


def test_a_wrong_value_of_the_project_is_reported_and_the_users_counts(tmp_path: Path) -> None:
    loaded = read(tmp_path, {"steeringMode": "all"}, {"steeringMode": "some"})

    assert "all" == loaded.settings.steering_mode
    assert [
        f"{tmp_path / 'project.json'}: steeringMode: must be all or one-at-a-time "
        "(the user's setting or the default is used in its place)"
    ] == list(map(str, loaded.diagnostics))


def test_a_wrong_value_of_the_user_is_reported_also_where_the_projects_counts(tmp_path: Path) -> None:
    loaded = read(tmp_path, {"steeringMode": "some"}, {"steeringMode": "all"})

    assert "all" == loaded.settings.steering_mode
    assert 1 == len(loaded.diagnostics)


def test_a_damaged_file_of_the_project_leaves_the_users(tmp_path: Path) -> None:
    loaded = read(tmp_path, {"steeringMode": "all"}, "{")

    assert "all" == loaded.settings.steering_mode
    assert "line 1, column" in str(loaded.diagnostics[0])
    assert str(loaded.diagnostics[0]).endswith("(the project's settings are not used)")
