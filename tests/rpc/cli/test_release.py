"""Which release this is: the version, and in a checkout its commit."""

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from pinnace_rpc.options.shown.version import checkout_commit, shown_version


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_commit_is_read_wherever_git_keeps_it(tmp_path: Path) -> None:
    """A loose reference, a packed one, a detached head, and a worktree, which has the first two elsewhere."""
    folder, other = tmp_path / "one", tmp_path / "two"
    folder.mkdir()
    git(folder, "init", "-q")
    assert checkout_commit(folder) is None  # nothing is committed yet
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    first = git(folder, "rev-parse", "HEAD")
    assert first == checkout_commit(folder)
    git(folder, "worktree", "add", "-q", "-b", "side", str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "second")
    second = git(other, "rev-parse", "HEAD")
    assert [first, second] == [checkout_commit(folder), checkout_commit(other)]
    git(folder, "pack-refs", "--all")
    assert [first, second] == [checkout_commit(folder), checkout_commit(other)]
    git(folder, "checkout", "-q", "--detach")
    assert first == checkout_commit(folder)


@pytest.mark.parametrize("head", [b"", b"ref: refs/heads/gone", b"\xff", b"not a commit"])
def test_what_is_no_checkout_has_no_commit(head: bytes, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(head)

    assert checkout_commit(tmp_path) is None
    assert checkout_commit(tmp_path / "nothing") is None


def test_the_version_begins_with_that_of_the_distribution() -> None:
    assert shown_version().partition("+g")[0] == version("pinnace")
