"""Whether a project is trusted, and how the decision is kept."""

import json
from pathlib import Path

import pytest

from pinnace_agent.config.settings import ProjectTrust
from pinnace_agent.config.trust import decide, save_decision
from pinnace_agent.files.paths import gated_project_files
from pinnace_agent.files.relaxed_json import ConfigurationFileError

GATED = (Path("settings.json"),)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "trust.json"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "work" / "project"
    folder.mkdir(parents=True)
    return folder


def is_trusted(
    file: Path,
    project: Path,
    *,
    approved: bool | None = None,
    default: ProjectTrust = "ask",
    gated: tuple[Path, ...] = GATED,
) -> bool:
    return decide(file, project, gated, approved, default).is_trusted


def test_a_project_without_a_decision_is_not_trusted(file: Path, project: Path) -> None:
    assert not is_trusted(file, project)
    assert not file.parent.exists()


@pytest.mark.parametrize(("default", "expected"), [("ask", False), ("never", False), ("always", True)])
def test_the_users_default_holds_where_nothing_was_decided(
    default: ProjectTrust, expected: bool, file: Path, project: Path
) -> None:
    assert expected == is_trusted(file, project, default=default)


def test_a_project_that_brings_nothing_is_trusted_unless_it_was_decided_otherwise(file: Path, project: Path) -> None:
    assert is_trusted(file, project, gated=(), default="never")
    save_decision(file, project, False)

    assert not is_trusted(file, project, gated=())


@pytest.mark.parametrize("approved", [True, False])
def test_the_command_line_takes_precedence_and_is_not_stored(approved: bool, file: Path, project: Path) -> None:
    save_decision(file, project, not approved)
    before = file.read_text()

    assert approved == is_trusted(file, project, approved=approved, default="never" if approved else "always")
    assert before == file.read_text()


def test_the_nearest_folder_with_a_decision_counts(file: Path, project: Path) -> None:
    save_decision(file, project.parents[1], True)
    assert is_trusted(file, project, default="never")
    save_decision(file, project.parent, False)
    assert not is_trusted(file, project, default="always")


def test_null_is_no_decision(file: Path, project: Path) -> None:
    save_decision(file, project.parent, True)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, str(project): None}))

    assert is_trusted(file, project)


def test_a_folder_is_known_by_its_real_path(file: Path, project: Path) -> None:
    link = project.parents[1] / "link"
    link.symlink_to(project)
    save_decision(file, link, True)

    assert {str(project): True} == json.loads(file.read_text())
    assert is_trusted(file, link)


def test_a_folder_whose_name_only_begins_alike_is_another(file: Path, project: Path) -> None:
    save_decision(file, project, True)

    assert not is_trusted(file, project.with_name("project-2"))


@pytest.mark.parametrize("wrong", ["yes", 1, {}, 0])
def test_s2_a_value_that_is_no_decision_costs_its_folder_the_trust_and_no_other(
    wrong: object, file: Path, project: Path
) -> None:
    save_decision(file, project.with_name("good"), True)
    content = {**json.loads(file.read_text()), str(project): wrong}
    file.write_text(json.dumps(content))

    assert is_trusted(file, project.with_name("good"))
    for folder in (project, project / "below"):
        trust = decide(file, folder, GATED, None, "always")
        assert not trust.is_trusted
        assert [str(project)] == [problem.path for found in trust.diagnostics for problem in found.problems]
    save_decision(file, project.with_name("new"), True)
    assert {**content, str(project.with_name("new")): True} == json.loads(file.read_text())
    save_decision(file, project, True)
    assert is_trusted(file, project)


@pytest.mark.parametrize("text", ["{", "[]", "1", ""])
def test_s2_an_invalid_file_trusts_nothing_is_reported_and_stays(text: str, file: Path, project: Path) -> None:
    file.parent.mkdir()
    file.write_text(text)
    trust = decide(file, project, (), None, "always")

    assert not trust.is_trusted
    assert str(trust.diagnostics[0]).startswith(f"{file}: ")
    with pytest.raises(ConfigurationFileError):
        save_decision(file, project, True)
    assert text == file.read_text()


def test_decisions_are_written_as_the_original_does(file: Path, project: Path) -> None:
    for name in ("b", "a"):
        save_decision(file, project / name, name == "a")

    assert f'{{\n  "{project}/a": true,\n  "{project}/b": false\n}}\n' == file.read_text()


def test_a_decision_that_is_there_already_is_not_new(file: Path, project: Path) -> None:
    assert [True, False, True] == [save_decision(file, project, decision) for decision in (True, True, False)]


# What needs trust.


def names(folder: Path, home: Path, **env: str) -> list[str]:
    return [str(path.relative_to(home.parent)) for path in gated_project_files(folder, {"HOME": str(home), **env})]


@pytest.mark.parametrize(
    "name", "settings.json extensions skills prompts themes SYSTEM.md APPEND_SYSTEM.md mcp.json".split()
)
def test_what_a_project_brings_in_its_own_folder_needs_trust(name: str, project: Path, tmp_path: Path) -> None:
    (project / ".pi" / name).mkdir(parents=True)

    assert [f"home/work/project/.pi/{name}"] == names(project, tmp_path / "home")


def test_a_bare_folder_and_what_is_unknown_in_it_need_none(project: Path, tmp_path: Path) -> None:
    (project / ".pi" / "notes").mkdir(parents=True)

    assert [] == names(project, tmp_path / "home")


def test_a_link_to_nowhere_needs_trust_since_it_may_lead_somewhere_later(project: Path, tmp_path: Path) -> None:
    (project / ".pi").mkdir()
    (project / ".pi" / "settings.json").symlink_to("nowhere")

    assert ["home/work/project/.pi/settings.json"] == names(project, tmp_path / "home")


def test_skills_for_any_agent_need_trust_here_and_above_but_not_the_users_own(project: Path, tmp_path: Path) -> None:
    for folder in (project, project.parent, tmp_path / "home"):
        (folder / ".agents" / "skills").mkdir(parents=True)

    assert ["home/work/project/.agents/skills", "home/work/.agents/skills"] == names(project, tmp_path / "home")


def test_the_agent_folder_is_the_users_own_also_as_the_folder_of_a_project(project: Path, tmp_path: Path) -> None:
    (project / ".pi").mkdir()
    (project / ".pi" / "settings.json").touch()

    assert [] == names(project, tmp_path / "home", PI_CODING_AGENT_DIR=str(project / ".pi"))
