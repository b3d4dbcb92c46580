"""Context files: which are read, in which order, and which are not."""

import os
import subprocess
from pathlib import Path

import pytest

from pinnace_agent.files.text_file import MAX_TEXT_BYTES
from pinnace_agent.prompting.context_files import NAMES, ContextFiles, read_context_files

NOBODY = 65_534


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working folder in a project in a folder."""
    work = tmp_path / "above" / "project" / "work"
    (work.parent / ".git").mkdir(parents=True)
    work.mkdir()
    (tmp_path / "agent").mkdir()
    return work


def read(work: Path) -> ContextFiles:
    """Read what is below the folder of the test: what is above it is not the test's."""
    root = next(folder for folder in work.parents if (folder / "agent").is_dir())
    found = read_context_files(
        root / "agent", work, {"HOME": str(root / "home"), "PI_CODING_AGENT_DIR": str(root / "agent")}
    )
    return ContextFiles(
        tuple(each for each in found.files if each.path.startswith(f"{root}/")),
        tuple(each for each in found.notices if each.startswith(f"{root}/")),
    )


def texts(work: Path) -> list[str]:
    found = read(work)
    assert not found.notices
    return [each.text for each in found.files]


def test_the_users_own_comes_first_and_the_nearest_last(work: Path, tmp_path: Path) -> None:
    for number, folder in enumerate((tmp_path / "agent", tmp_path, tmp_path / "above", work.parent, work)):
        (folder / "AGENTS.md").write_text(str(number))
    assert ["0", "1", "2", "3", "4"] == texts(work)


def test_a_folder_has_one_by_the_order_of_names(work: Path) -> None:
    for name in reversed(NAMES):
        (work / name).write_text(name)
        assert [name] == texts(work)


def test_a_folder_that_has_the_name_of_one_is_none(work: Path) -> None:
    (work / "AGENTS.md").mkdir()
    (work / "CLAUDE.md").write_text("x")
    assert ["x"] == texts(work)


def test_a_pipe_without_a_writer_is_not_waited_for(work: Path) -> None:
    os.mkfifo(work / "AGENTS.md")
    (work / "AGENTS.MD").symlink_to("/dev/zero")
    (work / "CLAUDE.md").symlink_to("AGENTS.md")
    (work / "CLAUDE.MD").write_text("x")
    assert ["x"] == texts(work)


def test_blank_files_say_nothing_and_a_mark_of_the_byte_order_is_none(work: Path) -> None:
    (work / "AGENTS.md").write_bytes(b"\xef\xbb\xbfx")
    (work.parent / "AGENTS.md").write_text(" \n")
    assert ["x"] == texts(work)


def test_bytes_that_are_no_text_are_replaced(work: Path) -> None:
    (work / "AGENTS.md").write_bytes(b"a\xffb")
    assert ["a\ufffdb"] == texts(work)


def test_the_beginning_of_a_long_file_is_used_with_a_notice(work: Path) -> None:
    lines = b"line\n" * (MAX_TEXT_BYTES // 5 + 1_000)
    (work / "AGENTS.md").write_bytes(lines)
    (file,), (notice,) = read(work)
    left = len(lines) - MAX_TEXT_BYTES // 5 * 5
    assert file.text.endswith(f"\nline\n\n[The last {left} bytes of this file are left out.]")
    assert len(file.text) < MAX_TEXT_BYTES + 100
    assert "AGENTS.md: is too long for a model, so only its beginning is used" in notice


@pytest.mark.skipif(os.geteuid() == 0, reason="everything can be read")
def test_one_that_can_not_be_read_is_reported(work: Path) -> None:
    (work / "AGENTS.md").write_text("x")
    (work / "AGENTS.md").chmod(0)
    assert "Permission denied, so it is not read" in read(work).notices[0]


# Who wrote it.


def test_s4_a_world_writable_file_above_the_project_is_skipped_and_reported(work: Path) -> None:
    for folder in (work.parents[1], work.parent, work):
        (folder / "AGENTS.md").write_text(folder.name)
        (folder / "AGENTS.md").chmod(0o666)
    files, (notice,) = read(work)
    assert ["project", "work"] == [each.text for each in files]
    assert f"{work.parents[1]}/AGENTS.md: may be written by anybody, so it is not read" == notice


def test_s4_without_a_repository_all_above_the_working_folder_is_above_the_project(work: Path) -> None:
    (work.parent / ".git").rmdir()
    (work.parent / "AGENTS.md").write_text("x")
    (work.parent / "AGENTS.md").chmod(0o602)
    assert () == read(work).files


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of another user")
@pytest.mark.parametrize("place", ["above", "above/project", "above/project/work"])
def test_s4_a_file_of_another_user_is_skipped_and_reported(place: str, work: Path, tmp_path: Path) -> None:
    file = tmp_path / place / "AGENTS.md"
    file.write_text("x")
    os.chown(file, NOBODY, -1)
    files, (notice,) = read(work)
    assert (f"{file}: belongs to another user, so it is not read", ()) == (notice, files)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of another user")
def test_s4_a_link_of_another_user_to_a_file_of_this_one_is_skipped(work: Path, tmp_path: Path) -> None:
    (tmp_path / "above" / "secret").write_text("secret")
    link = tmp_path / "above" / "AGENTS.md"
    link.symlink_to("secret")
    assert ["secret"] == texts(work)
    os.lchown(link, NOBODY, -1)
    assert () == read(work).files


@pytest.mark.skipif(os.geteuid() != 0, reason="needs files of another user")
def test_s4_the_owner_of_the_working_folder_is_believed(work: Path) -> None:
    for path in (work, work.parent / "AGENTS.md"):
        if path != work:
            path.write_text("x")
        os.chown(path, NOBODY, -1)
    assert ["x"] == texts(work)


def test_s4_what_the_agent_folder_holds_is_the_users(work: Path, tmp_path: Path) -> None:
    (tmp_path / "agent" / "AGENTS.md").write_text("x")
    (tmp_path / "agent" / "AGENTS.md").chmod(0o666)
    assert ["x"] == texts(work)


def test_a_deceptive_name_is_reported_in_one_line(work: Path) -> None:
    odd = work / "a\x1b[2Jb\nc"
    odd.mkdir()
    (odd / "AGENTS.md").write_bytes(b"x\n" * MAX_TEXT_BYTES)
    (notice,) = read(odd).notices
    assert notice.isprintable()


# Worktrees.


@pytest.fixture
def worktree(work: Path) -> Path:
    """A worktree inside of the main checkout, with a context file that both have."""
    main = work.parent

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=main, check=True, timeout=30)

    (main / ".git").rmdir()
    (main / "AGENTS.md").write_text("both")
    git("init", "--quiet")
    git("add", "-A")
    git("commit", "--quiet", "-m", "first")
    git("worktree", "add", "--quiet", "trees/branch")
    (main / "trees" / "AGENTS.md").write_text("trees")
    (main / "AGENTS.md").write_text("main")
    return main / "trees" / "branch"


def test_in_a_worktree_the_main_checkouts_copy_is_not_read(worktree: Path) -> None:
    assert ["trees", "both"] == texts(worktree)
    (worktree / "sub").mkdir()
    assert ["trees", "both"] == texts(worktree / "sub")


def test_what_only_the_main_checkout_has_is_read(worktree: Path) -> None:
    (worktree / "AGENTS.md").unlink()
    assert ["main", "trees"] == texts(worktree)


def test_a_repository_in_a_repository_is_no_worktree(worktree: Path) -> None:
    (worktree / ".git").write_text("gitdir: ../../.git/modules/branch\n")
    assert ["main", "trees", "both"] == texts(worktree)


@pytest.mark.parametrize(
    "text", ["", "gitdir:", "gitdir: /nowhere", "x gitdir: y", "gitdir: \0", "gitdir: " + "x" * 9_999]
)
def test_a_damaged_link_to_a_repository_is_none(text: str, worktree: Path) -> None:
    (worktree / ".git").write_text(text)
    assert ["main", "trees", "both"] == texts(worktree)
