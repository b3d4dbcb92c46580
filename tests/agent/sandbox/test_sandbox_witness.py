"""What is reported of something protected that was changed while a command ran. Nothing is run. R-SBX-08."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace_agent.sandbox.bubblewrap import Layout
from pinnace_agent.sandbox.protections import Protections
from pinnace_agent.sandbox.witness import MOST_DIGEST_BYTES, MOST_ENTRIES, Witness


def write_alike(path: Path, text: str) -> None:
    """Write a file in place, with the times that it had."""
    status = path.stat()
    path.write_text(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(path: Path, text: str) -> None:
    """Replace a file, as `git config` does."""
    new = path.with_name("new")
    new.write_text(text)
    new.replace(path)


CHANGES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "nothing": (lambda _: None, None),
    "another content of the same size and times": (
        lambda git: write_alike(git / "config", "[evil]"),
        "/config: changed while a command ran",
    ),
    "a file replaced by an equal one": (
        lambda git: replace(git / "config", "[core]"),
        "/config: replaced while a command ran, which could write there from then on",
    ),
    "a folder replaced": (lambda git: (git / "hooks").rename(git / "old"), "/hooks: replaced"),
    "a hook": (lambda git: (git / "hooks" / "pre-commit").write_text(""), "/hooks: changed"),
    "the content of a large file": (
        lambda git: (git / "large").write_text("y" * (MOST_DIGEST_BYTES + 1)),
        "/large: changed",
    ),
    "what is not protected": (lambda git: (git / "index").write_text("x"), None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_reported_with_what_has_become_of_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "hooks").mkdir()
    (tmp_path / "config").write_text("[core]")
    (tmp_path / "large").write_text("x" * (MOST_DIGEST_BYTES + 1))
    protected = tuple(str(tmp_path / each) for each in ("config", "hooks", "large"))
    witness = Witness(Layout("bwrap", str(tmp_path), "/private", protected=protected), Protections())
    change, expected = CHANGES[name]
    change(tmp_path)
    problem = witness.problem()

    assert (problem is None) == (expected is None)
    assert expected is None or f"{tmp_path}{expected}" in str(problem)


def test_session_files_in_a_protected_folder_are_written_meanwhile(tmp_path: Path) -> None:
    sessions = tmp_path / ".pi" / "sessions"
    sessions.mkdir(parents=True)
    protected = (str(tmp_path / ".pi"), str(sessions))
    witness = Witness(Layout("bwrap", str(tmp_path), "/private", protected=protected), Protections())
    (sessions / "s.jsonl").write_text("x")

    assert witness.problem() is None


def test_a_protected_folder_with_many_files_costs_no_more(tmp_path: Path) -> None:
    (tmp_path / ".pi").mkdir()
    for number in range(MOST_ENTRIES + 5):
        (tmp_path / ".pi" / f"{number:04}").touch()
    witness = Witness(Layout("bwrap", str(tmp_path), "/private", protected=(str(tmp_path / ".pi"),)), Protections())
    (tmp_path / ".pi" / f"{MOST_ENTRIES + 2:04}").write_text("x")
    assert witness.problem() is None
    (tmp_path / ".pi" / "0001").write_text("x")

    assert "/.pi: changed" in str(witness.problem())
