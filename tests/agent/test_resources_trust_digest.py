"""Whether a project still brings what was trusted (S12)."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace_agent.resources.paths import gated_project_files
from pinnace_agent.resources.trust import decide, save_decision, trust_file
from pinnace_agent.resources.trust_digest import digest_of, digests_file, keep_digest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".pi" / "extensions" / "deep").mkdir(parents=True)
    (folder / ".pi" / "settings.json").write_text("{}")
    (folder / ".pi" / "extensions" / "a.py").write_text("def extension(pi): ...")
    (folder / ".pi" / "extensions" / "deep" / "extension.py").write_text("x = 1")
    return folder


def gated(project: Path) -> list[Path]:
    return gated_project_files(project, {"HOME": str(project.parent / "home")})


def is_trusted(project: Path, *, rechecks: bool = True, approved: bool | None = None) -> bool:
    decisions = trust_file(project.parent)
    return decide(decisions, project, gated(project), approved, "ask", rechecks=rechecks).is_trusted


@pytest.fixture
def trusted(project: Path) -> Path:
    decisions = trust_file(project.parent)
    save_decision(decisions, project, True)
    keep_digest(decisions, project, gated(project))
    return project


def test_what_has_not_changed_is_trusted(trusted: Path) -> None:
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
    trust = decide(trust_file(trusted.parent), trusted, gated(trusted), None, "always", rechecks=True)

    assert not trust.is_trusted
    assert "pinnace trust" in str(trust.diagnostics[0])


def test_a_decision_without_a_digest_is_no_longer_enough(project: Path) -> None:
    save_decision(trust_file(project.parent), project, True)

    assert not is_trusted(project)
    assert is_trusted(project, rechecks=False)


def test_what_can_not_be_read_is_not_trusted(trusted: Path) -> None:
    digests_file(trust_file(trusted.parent)).write_text("[")

    assert not is_trusted(trusted)


def test_others_digests_stay(trusted: Path, tmp_path: Path) -> None:
    path = digests_file(trust_file(trusted.parent))
    other = tmp_path / "other"
    (other / ".pi").mkdir(parents=True)
    (other / ".pi" / "settings.json").write_text("{}")
    keep_digest(trust_file(trusted.parent), other, gated(other))

    assert {os.path.realpath(trusted), os.path.realpath(other)} == set(json.loads(path.read_text()))
    assert is_trusted(trusted)


def test_names_and_contents_are_not_mixed_up(tmp_path: Path) -> None:
    digests: set[str] = set()
    for number, (name, text) in enumerate([("a", "bc"), ("ab", "c"), ("abc", ""), ("a", "b")]):
        folder = tmp_path / str(number) / "prompts"
        folder.mkdir(parents=True)
        (folder / name).write_text(text)
        digests.add(digest_of([folder]))

    assert 4 == len(digests)
