"""Everything of the user's that is read at start: from which folder, and that it stays as it is."""

from pathlib import Path

import pytest

from pinnace_agent.resources.configuration import load_configuration, shell_of
from pinnace_agent.resources.settings import Settings


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
    loaded = load_configuration({"HOME": str(tmp_path)}, tmp_path / "work")

    assert [str(folder / name) for name in names] == [notice.partition(": ")[0] for notice in loaded.notices]
    assert Settings() == loaded.settings
    assert [] == loaded.registry.available()


def test_a_project_is_not_trusted_and_the_user_is_told(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".pi" / "extensions").mkdir(parents=True)
    (project / ".pi" / "settings.json").write_text('{"steeringMode": "all"}')
    loaded = load_configuration({"HOME": str(tmp_path)}, project)

    assert Settings() == loaded.settings
    [notice] = loaded.notices
    assert notice.startswith(f"{project / '.pi'}: this project is not trusted")
    assert "(settings.json, extensions)" in notice


def test_a_bare_project_folder_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / ".pi").mkdir()

    assert () == load_configuration({"HOME": str(tmp_path / "home")}, tmp_path).notices


@pytest.mark.parametrize(
    ("path", "shell"), [(None, None), ("/bin/dash", "/bin/dash"), ("~/sh", "/home/me/sh"), ("~me/sh", "~me/sh")]
)
def test_the_path_of_a_shell_may_begin_at_home(path: str | None, shell: str | None) -> None:
    assert shell == shell_of(Settings(shell_path=path), {"HOME": "/home/me"})
