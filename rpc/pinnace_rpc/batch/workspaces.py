"""The working folder of a task: a copy, a clone, an empty folder, or one that exists; and its first files.

A folder of the task's own is made once for each attempt, even if its worker dies in between: it counts as made when its
mark is there. Blocks on the file system.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pinnace_engines.programs import run_program

_MARK: Final = "workspace-made"


class WorkspaceError(Exception):
    """The folder can't be made. The text is for the user."""


def make_workspace(task: Mapping[str, Any], place: Path, *, not_copied: Sequence[str] = ()) -> Path:
    """Return the working folder of a task.

    Args:
        task: The task.
        place: The folder of its attempt.
        not_copied: Folders that a copy leaves out: those of the batch, which may be in what is copied.

    Raises:
        WorkspaceError: It can't be made.
    """
    mark = place / _MARK
    folder = Path(task["cwd"]) if task.get("cwd") else place / "workspace"
    if mark.exists():
        return folder
    try:
        if task.get("cwd"):
            if not folder.is_dir():
                raise WorkspaceError(f"cwd: {folder} is no folder")
        else:
            shutil.rmtree(folder, ignore_errors=True)
            _fill(task.get("workspace") or {}, folder, not_copied)
        for name, content in task.get("files", {}).items():
            path = folder / name
            if not path.resolve().is_relative_to(folder.resolve()):
                raise WorkspaceError(f"files: {name} leads out of the working folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        mark.touch()
    except (OSError, shutil.Error) as error:
        raise WorkspaceError(f"the working folder can't be made: {error}") from None
    return folder


def remove_workspace(place: Path) -> None:
    """Remove a folder of the task's own; one that existed before stays."""
    shutil.rmtree(place / "workspace", ignore_errors=True)


def _fill(workspace: Mapping[str, str], folder: Path, not_copied: Sequence[str]) -> None:
    if "copy" in workspace:
        left_out = {os.path.realpath(each) for each in not_copied}

        def ignored(parent: str, names: list[str]) -> list[str]:
            real = os.path.realpath(parent)
            return [name for name in names if os.path.join(real, name) in left_out]

        shutil.copytree(workspace["copy"], folder, symlinks=True, ignore=ignored)
    elif "git" in workspace:
        _git(["clone", "--quiet", "--no-checkout", "--", workspace["git"], str(folder)], folder.parent)
        _git(["checkout", "--quiet", "--detach", _commit(workspace.get("rev", "HEAD"), folder), "--"], folder)
    else:
        folder.mkdir(parents=True)


def _commit(rev: str, folder: Path) -> str:
    """Return the commit of a tag, a branch or a commit; a clone has only one of the branches under its own name."""
    for name in (rev, f"refs/remotes/origin/{rev}"):
        with suppress(WorkspaceError):
            return _git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"], folder).strip()
    raise WorkspaceError(f"workspace: rev: {rev} is no branch, tag or commit of the repository")


def _git(words: list[str], cwd: Path) -> str:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    with tempfile.TemporaryFile() as output:
        ended = run_program(["git", *words], cwd=str(cwd), env=environment, output=output)
    if ended.code != 0:
        raise WorkspaceError(f"workspace: git {words[0]} failed: {ended.output.strip()}")
    return ended.output
