"""Context files: what a model is to know about a project, of all folders from the root to the working one.

The user's own come first. Each folder has at most one, by a few names in their order. They need no trust, so it matters
who wrote them: a file of somebody else is skipped, and above the project one that anybody may write, since the folders
above may be shared. Reads files, decides nothing about a prompt.
"""

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.files.text_file import TextFileError, is_regular, printable, read_beginning

NAMES: Final = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
_MAX_GIT_FILE_BYTES: Final = 8_192


class ContextFile(NamedTuple):
    """One file."""

    path: str
    text: str


class ContextFiles(NamedTuple):
    """What was found, and what to tell about it."""

    files: tuple[ContextFile, ...] = ()
    notices: tuple[str, ...] = ()


def read_context_files(agent_dir: Path, cwd: Path) -> ContextFiles:
    """Read the context files for a working folder."""
    files: dict[str, ContextFile] = {}
    notices: list[str] = []
    root = repository_root(cwd)
    twins = _twins(root, cwd)
    owners = {os.geteuid(), 0} | _owner(cwd)
    for folder in (agent_dir, *reversed(cwd.parents), cwd):
        path = _context_file(folder)
        if path is None or path in files or (folder in twins and _context_file(twins[folder]) is not None):
            continue
        is_users = folder == agent_dir
        is_inside = folder == root or root in folder.parents
        problem = None if is_users else _foreign(path, owners, is_inside=is_inside)
        try:
            read = None if problem else read_beginning(path)
        except TextFileError as error:
            read, problem = None, error.text
        if read is None:
            notices.append(printable(f"{path}: {problem}, so it is not read"))
            continue
        text = read.text
        if read.left_out_bytes:
            notices.append(printable(f"{path}: is too long for a model, so only its beginning is used"))
            text += f"\n[The last {read.left_out_bytes} bytes of this file are left out.]"
        if text.strip():
            files[path] = ContextFile(path, text)
    return ContextFiles(tuple(files.values()), tuple(notices))


def repository_root(cwd: Path) -> Path:
    """Return the nearest folder that is a repository's, or the folder itself."""
    return next((folder for folder in (cwd, *cwd.parents) if os.path.lexists(folder / ".git")), cwd)


def _context_file(folder: Path) -> str | None:
    paths = (os.path.join(folder, name) for name in NAMES)
    return next((path for path in paths if is_regular(path)), None)


def _owner(folder: Path) -> set[int]:
    try:
        return {os.stat(folder).st_uid}
    except OSError:
        return set()


# DEVIATION D-39: what strangers wrote is not what the user says.
def _foreign(path: str, owners: set[int], *, is_inside: bool) -> str | None:
    """Say why somebody else may have written a file: who may make links in a shared folder may point to any file."""
    try:
        statuses = os.lstat(path), os.stat(path)
    except OSError as error:
        return f"can't be read: {error.strerror}"
    if any(status.st_uid not in owners for status in statuses):
        return "belongs to another user"
    if not is_inside and statuses[-1].st_mode & stat.S_IWOTH:
        return "may be written by anybody"
    return None


def _twins(root: Path, cwd: Path) -> dict[Path, Path]:
    """Map folders of a main checkout to those of a worktree inside of it: what both have is meant to be read once."""
    main = _main_checkout(root)
    if main is None or main not in root.parents:
        return {}
    above = (main, *(folder for folder in root.parents if main in folder.parents))
    return {folder: root / folder.relative_to(main) for folder in above}


def _main_checkout(root: Path) -> Path | None:
    """Return where the repository of a worktree was first checked out; None: the folder is no worktree."""
    link = root / ".git"
    if not is_regular(str(link)):
        return None
    try:
        first, _, folder = read_beginning(str(link), _MAX_GIT_FILE_BYTES).text.strip().partition("gitdir:")
        if first or not folder:
            return None
        git_dir = root / folder.strip()
        shared = read_beginning(str(git_dir / "commondir"), _MAX_GIT_FILE_BYTES).text.strip()
    except TextFileError:
        return None
    common = Path(os.path.normpath(git_dir / shared))
    return common.parent if common.name == ".git" else None
