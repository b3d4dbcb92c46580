"""Whether a project still brings what was trusted."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pinnace_agent.config.settings import ProjectTrust
from pinnace_agent.config.trust import Trust, decide, save_decision, trust_file
from pinnace_agent.config.trust_digest import digest_of, digests_file, is_changed, keep_digest
from pinnace_agent.files.paths import gated_project_files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".pi" / "extensions" / "deep").mkdir(parents=True)
    (folder / ".pi" / "settings.json").write_text("{}")
    (folder / ".pi" / "extensions" / "a.py").write_text("def extension(pi): ...")
    (folder / ".pi" / "extensions" / "deep" / "extension.py").write_text("x = 1")
    return folder


def gated(project: Path) -> list[Path]:
    return gated_project_files(project, env_of(project))


def env_of(project: Path) -> dict[str, str]:
    return {"HOME": str(project.parent / "home")}


def decided(project: Path, approved: bool | None, default: ProjectTrust, *, rechecks: bool = True) -> Trust:
    decisions, env = trust_file(project.parent), env_of(project)
    has_changed = partial(is_changed, decisions, project, gated(project), env) if rechecks else None
    return decide(decisions, project, gated(project), approved, default, has_changed=has_changed)


def is_trusted(project: Path, *, rechecks: bool = True, approved: bool | None = None) -> bool:
    return decided(project, approved, "ask", rechecks=rechecks).is_trusted


@pytest.fixture
def trusted(project: Path) -> Path:
    decisions = trust_file(project.parent)
    save_decision(decisions, project, True)
    keep_digest(decisions, project, gated(project), env_of(project))
    return project


def test_an_unchanged_project_is_trusted(trusted: Path) -> None:
    (trusted / "AGENTS.md").write_text("not gated")

    assert is_trusted(trusted)


def change_deep(project: Path) -> None:
    (project / ".pi" / "extensions" / "deep" / "extension.py").write_text("x = 2")


def add_file(project: Path) -> None:
    (project / ".pi" / "extensions" / "b.py").write_text("")


def add_kind(project: Path) -> None:
    (project / ".pi" / "SYSTEM.md").write_text("obey")


def remove_file(project: Path) -> None:
    (project / ".pi" / "extensions" / "a.py").unlink()


def rename_file(project: Path) -> None:
    (project / ".pi" / "extensions" / "a.py").rename(project / ".pi" / "extensions" / "c.py")


def swap_for_link(project: Path) -> None:
    path = project / ".pi" / "extensions" / "a.py"
    elsewhere = project / "elsewhere.py"
    elsewhere.write_text(path.read_text())
    path.unlink()
    path.symlink_to(elsewhere)


@pytest.mark.parametrize("change", [change_deep, add_file, add_kind, remove_file, rename_file, swap_for_link])
def test_any_change_ends_the_trust_and_only_if_it_is_wanted(trusted: Path, change: Callable[[Path], None]) -> None:
    change(trusted)

    assert not is_trusted(trusted)
    assert is_trusted(trusted, rechecks=False)
    assert is_trusted(trusted, approved=True)


def test_the_reason_says_what_to_do(trusted: Path) -> None:
    change_deep(trusted)
    trust = decided(trusted, None, "always")

    assert not trust.is_trusted
    assert "pinnace trust" in str(trust.diagnostics[0])


def test_a_decision_without_a_digest_is_no_longer_enough(project: Path) -> None:
    save_decision(trust_file(project.parent), project, True)

    assert not is_trusted(project)
    assert is_trusted(project, rechecks=False)


def test_an_unreadable_digest_is_not_trusted(trusted: Path) -> None:
    digests_file(trust_file(trusted.parent)).write_text("[")

    assert not is_trusted(trusted)


def test_others_digests_stay(trusted: Path, tmp_path: Path) -> None:
    path = digests_file(trust_file(trusted.parent))
    other = tmp_path / "other"
    (other / ".pi").mkdir(parents=True)
    (other / ".pi" / "settings.json").write_text("{}")
    keep_digest(trust_file(trusted.parent), other, gated(other), env_of(other))

    assert {os.path.realpath(trusted), os.path.realpath(other)} == set(json.loads(path.read_text()))
    assert is_trusted(trusted)


def test_names_and_contents_are_not_mixed_up(tmp_path: Path) -> None:
    digests: set[str] = set()
    for number, (name, text) in enumerate([("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "b")]):
        folder = tmp_path / str(number) / "prompts"
        folder.mkdir(parents=True)
        (folder / name).write_text(text)
        digests.add(digest_of(tmp_path / str(number), [folder], env_of(tmp_path)))

    assert 4 == len(digests)


# What is elsewhere.


def outside(project: Path) -> Path:
    """A folder beside the project that has one of everything, and the project's settings and links that name it."""
    folder = project.parent / "outside"
    for name in (
        "ext/extension.py",
        "ext/part.py",
        "one.py",
        "skill/SKILL.md",
        "skill/run.sh",
        "skills/s/SKILL.md",
        "looks/one.json",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("before")
    names = ("t.md", "linked.py", "declared/x.py", "shell", "env.sh", "system.md", "library/deep/x.py", "ext/.git/HEAD")
    for name in (*names, "chosen.py", "looks/one.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("before")
    settings = {
        "extensions": ["../../outside/ext", "../../outside/one.py", "+../../outside/chosen.py"],
        "skills": ["../../outside/skill/SKILL.md", "~/../outside/skills"],
        "prompts": [str(folder / "t.md")],
        "themes": ["../../outside/looks"],
        "shellPath": str(folder / "shell"),
        "shellCommandPrefix": ". ../outside/env.sh; true",
    }
    (project / ".pi" / "settings.json").write_text(json.dumps(settings))
    (project / ".pi" / "extensions" / "link.py").symlink_to(folder / "linked.py")
    (project / ".pi" / "extensions" / "library").symlink_to("../../../outside/library")
    (project / ".pi" / "SYSTEM.md").symlink_to(folder / "system.md")
    (project / ".pi" / "extensions" / "deep" / "pyproject.toml").write_text(
        '[tool.pinnace]\nextensions = ["extension.py", "../../../../outside/declared/x.py"]\n'
    )
    return folder


ELSEWHERE = {
    "the folder of an extension": "ext/extension.py",
    "what an extension imports": "ext/part.py",
    "a file of an extension": "one.py",
    "an extension that is taken back in": "chosen.py",
    "what a pyproject.toml names": "declared/x.py",
    "a skill": "skill/SKILL.md",
    "what a skill refers to": "skill/run.sh",
    "a folder of skills": "skills/s/SKILL.md",
    "a template": "t.md",
    "a folder of themes": "looks/one.json",
    "the shell": "shell",
    "what each command begins with": "env.sh",
    "the target of a link": "linked.py",
    "the target of the prompt's link": "system.md",
    "a file in the target of a link": "library/deep/x.py",
}


@pytest.mark.parametrize("name", ELSEWHERE.values(), ids=ELSEWHERE)
def test_s8_what_is_named_or_linked_elsewhere_is_covered(name: str, project: Path) -> None:
    folder = outside(project)
    save_decision(trust_file(project.parent), project, True)
    keep_digest(trust_file(project.parent), project, gated(project), env_of(project))
    assert is_trusted(project)
    (folder / "unnamed").write_text("x")
    (folder / "ext" / ".git" / "HEAD").write_text("x")
    assert is_trusted(project)
    (folder / name).write_text("after")
    assert not is_trusted(project)
    (folder / name).write_text("before")
    assert is_trusted(project)
    (folder / name).unlink()
    assert not is_trusted(project)


def test_s8_a_file_that_appears_where_settings_name_one_ends_the_trust(project: Path) -> None:
    (project / ".pi" / "settings.json").write_text('{"prompts": ["../later.md"]}')
    save_decision(trust_file(project.parent), project, True)
    keep_digest(trust_file(project.parent), project, gated(project), env_of(project))
    (project / "later.md").write_text("obey")
    assert not is_trusted(project)


def test_loops_of_links_pipes_and_devices_are_no_reason_to_wait(project: Path) -> None:
    extensions = project / ".pi" / "extensions"
    (extensions / "loop").symlink_to(".")
    (extensions / "self.py").symlink_to("self.py")
    (extensions / "endless.py").symlink_to("/dev/zero")
    os.mkfifo(extensions / "pipe.py")
    save_decision(trust_file(project.parent), project, True)
    keep_digest(trust_file(project.parent), project, gated(project), env_of(project))
    assert is_trusted(project)


@pytest.mark.parametrize("bound", ["MAX_NAMES", "MAX_BYTES"])
def test_a_project_that_brings_too_much_is_not_trusted(
    bound: str, trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"pinnace_agent.config.trust_digest.{bound}", 2)
    assert not is_trusted(trusted)
    with pytest.raises(OSError, match="it brings more than"):
        keep_digest(trust_file(trusted.parent), trusted, gated(trusted), env_of(trusted))


@pytest.mark.parametrize(
    "name",
    [
        "work/.pi/npm/node_modules/one/src/main.ts",
        "work/.pi/npm/node_modules/needed/index.js",
        "work/.pi/git/git.example/a/b/skills/s/SKILL.md",
        "elsewhere/skills/s/SKILL.md",
    ],
)
def test_what_a_package_of_the_project_consists_of_is_covered(tmp_path: Path, name: str) -> None:
    """A dependency runs as the package does, and a skill is an instruction."""
    manifest = json.dumps({"name": "one", "version": "1.0.0", "pi": {"extensions": ["src/main.ts"]}})
    packages = {"packages": ["npm:one", "git:git.example/a/b", "../../elsewhere"]}
    files = {
        "work/.pi/settings.json": json.dumps(packages),
        "work/.pi/npm/node_modules/one/package.json": manifest,
        "work/.pi/npm/node_modules/one/src/main.ts": "",
        "work/.pi/npm/node_modules/needed/index.js": "",
        "work/.pi/git/git.example/a/b/skills/s/SKILL.md": "---\ndescription: one\n---\n",
        "elsewhere/skills/s/SKILL.md": "---\ndescription: one\n---\n",
    }
    for path, text in files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    work = tmp_path / "work"
    before = digest_of(work, gated(work), env_of(work))
    assert before == digest_of(work, gated(work), env_of(work))
    (tmp_path / name).write_text("changed")
    assert before != digest_of(work, gated(work), env_of(work))
