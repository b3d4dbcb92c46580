"""Everything of the user's that is read at start: from which folder, and that it stays as it is."""

import json
from pathlib import Path

import pytest

from pinnace_agent.config.configuration import load_configuration, shell_of
from pinnace_agent.config.settings import Settings
from pinnace_agent.core.user_warnings import Notice


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


def test_what_is_wrong_with_each_file_is_a_notice(tmp_path: Path) -> None:
    folder = tmp_path / ".pi" / "agent"
    folder.mkdir(parents=True)
    names = ["settings.json", "models.json", "auth.json"]
    for name in names:
        (folder / name).write_text("[")
        (folder / name).chmod(0o600)
    loaded = load_configuration({"HOME": str(tmp_path)}, tmp_path / "work")

    assert [str(folder / name) for name in names] == [notice.text.partition(": ")[0] for notice in loaded.notices]
    assert Settings() == loaded.settings
    assert [] == loaded.registry.available()


def test_s2_an_untrusted_project_is_reported_to_the_user(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".pi" / "extensions").mkdir(parents=True)
    (project / ".pi" / "settings.json").write_text('{"steeringMode": "all"}')
    (tmp_path / ".agents" / "skills").mkdir(parents=True)
    loaded = load_configuration({"HOME": str(tmp_path / "home")}, project)

    assert (Settings(), False) == (loaded.settings, loaded.is_project_trusted)
    [notice] = loaded.notices
    assert notice.text.startswith(f"{project}: this project is not trusted")
    assert f"(.pi/settings.json, .pi/extensions, {tmp_path}/.agents/skills)" in notice.text


def test_a_trusted_project_is_read_without_a_notice(tmp_path: Path) -> None:
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text('{"steeringMode": "all"}')
    loaded = load_configuration({"HOME": str(tmp_path / "home")}, tmp_path, approved=True)

    assert ("all", True, ()) == (loaded.settings.steering_mode, loaded.is_project_trusted, loaded.notices)


def test_problems_in_the_settings_of_a_trusted_project_are_reported(tmp_path: Path) -> None:
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text("{")
    loaded = load_configuration({"HOME": str(tmp_path / "home")}, tmp_path, approved=True)

    assert [f"{tmp_path / '.pi' / 'settings.json'}"] == [notice.text.partition(": ")[0] for notice in loaded.notices]


@pytest.mark.parametrize("approved", [True, None])
def test_s3_the_folder_for_sessions_of_a_project_counts_only_if_it_is_trusted(
    approved: bool | None, tmp_path: Path
) -> None:
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text('{"sessionDir": "there"}')
    loaded = load_configuration({"HOME": str(tmp_path / "home")}, tmp_path, approved=approved)

    assert (str(tmp_path / "there") if approved else None) == loaded.settings.session_dir


def test_the_variables_that_hold_keys_are_known_unless_the_user_wants_shells_to_have_them(tmp_path: Path) -> None:
    folder = tmp_path / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "auth.json").write_text('{"a": {"type": "api_key", "key": "$MINE"}}')
    (folder / "models.json").write_text('{"providers": {"openai": {"headers": {"X": "$THEIRS"}}}}')
    env = {"HOME": str(tmp_path)}
    assert {"MINE", "THEIRS", "OPENAI_API_KEY"} <= load_configuration(env, tmp_path / "work").hidden_variables

    (folder / "settings.json").write_text('{"shellProviderKeys": true}')
    assert frozenset() == load_configuration(env, tmp_path / "work").hidden_variables


def test_deployments_that_are_not_used_are_named_wherever_they_are(tmp_path: Path) -> None:
    folder = tmp_path / ".pi" / "agent"
    folder.mkdir(parents=True)
    entry = {"type": "api_key", "key": "k", "env": {"AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "=lost"}}
    (folder / "auth.json").write_text(json.dumps({"azure-openai-responses": entry}))
    (folder / "auth.json").chmod(0o600)
    env = {"HOME": str(tmp_path), "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "a=b, odd ,"}

    notices = load_configuration(env, tmp_path / "work").notices

    assert [("settings", "AZURE_OPENAI_DEPLOYMENT_NAME_MAP")] * 2 == [(each.kind, each.source) for each in notices]
    assert [name in each.text for each, name in zip(notices, ("'odd'", "'=lost'"), strict=True)] == [True, True]


def test_a_bare_project_folder_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / ".pi").mkdir()

    assert () == load_configuration({"HOME": str(tmp_path / "home")}, tmp_path).notices


@pytest.mark.parametrize(
    ("path", "shell"), [(None, None), ("/bin/dash", "/bin/dash"), ("~/sh", "/home/me/sh"), ("~me/sh", "~me/sh")]
)
def test_the_path_of_a_shell_may_begin_at_home(path: str | None, shell: str | None) -> None:
    assert shell == shell_of(Settings(shell_path=path), {"HOME": "/home/me"})


@pytest.mark.parametrize(
    ("name", "address", "is_wrong"),
    [
        ("HTTPS_PROXY", "http://proxy:8080", False),
        ("https_proxy", "proxy:8080", False),
        ("ALL_PROXY", "http://", True),
        ("HTTP_PROXY", "http://proxy:port", True),
        ("all_proxy", "ftp://hidden@proxy", True),
        ("HTTPS_PROXY", "", False),
    ],
)
def test_a_proxy_of_the_environment_that_is_no_address_is_reported_without_it(
    name: str, address: str, is_wrong: bool, tmp_path: Path
) -> None:
    env = {"HOME": str(tmp_path), name: address}
    expected = f"{name}: it is no address of a proxy, such as http://HOST:PORT, so that requests through it will fail"

    assert load_configuration(env, tmp_path).notices == (
        (Notice("settings", expected, source=name),) if is_wrong else ()
    )
    # An exemption of every server means that none is used.
    assert load_configuration({**env, "NO_PROXY": "*"}, tmp_path).notices == ()


def test_hints_are_no_mistakes_so_that_a_reload_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "settings.json").write_text('{"shelPath": "/bin/sh", "shellPath": "/no/shell", "mine": 1}')
    (folder / "models.json").write_text('{"providers": {"anthropic": {"baseURL": "http://127.0.0.1:9"}}}')
    found = load_configuration({"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(folder)}, tmp_path)

    assert 3 == sum(each.text.count("did you mean") + each.text.count("no such file") for each in found.notices)
    assert ((), ()) == (found.mistakes, found.refusals)
    assert ["mine"] == [problem.path for each in found.others for problem in each.problems]
