"""Context files: the instructions of all folders from the root to the working folder, and of additional folders.

The user's own come first, those of additional folders last. Each folder has at most one, by a list of names in their
order. They need no trust, so their owner and the targets of links are checked (`project_reach`): a file of another
user, one above the project that anyone may write, and one outside of the project are skipped. Reads files, decides
nothing about a prompt.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.files.paths import protected_places
from pinnace_agent.files.regular_file import is_regular
from pinnace_agent.files.text_file import TextFileError, read_beginning
from pinnace_spec.printable import printable

if TYPE_CHECKING:  # loaded where a project brings something
    from pinnace_agent.files.project_reach import ProjectReach

NAMES: Final = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
_MAX_GIT_FILE_BYTES: Final = 8_192


class ContextFile(NamedTuple):
    """A file such as AGENTS.md whose text goes into the system prompt."""

    path: str
    text: str


class ContextFiles(NamedTuple):
    """The context files, and notices about skipped ones."""

    files: tuple[ContextFile, ...] = ()
    notices: tuple[str, ...] = ()


def read_context_files(
    agent_dir: Path, cwd: Path, env: Mapping[str, str], additional: Sequence[Path] = ()
) -> ContextFiles:
    """Read the context files for a working folder; `env` locates the user's protected places.

    Args:
        agent_dir: Has the user's own.
        cwd: The working folder.
        env: Of the process.
        additional: More folders, without those above them.
    """
    files: dict[str, ContextFile] = {}
    notices: list[str] = []
    root = repository_root(cwd)
    twins = _twins(root, cwd)
    project: ProjectReach | None = None
    for folder in (agent_dir, *reversed(cwd.parents), cwd, *additional):
        path = _context_file(folder)
        if path is None or path in files or (folder in twins and _context_file(twins[folder]) is not None):
            continue
        reach = None
        if folder in additional:
            reach = project_reach(folder, env).of_instructions(folder)
        elif folder != agent_dir:
            project = project or project_reach(cwd, env)
            reach = project.of_instructions(folder)
        try:
            read = read_beginning(path, reach=reach)
        except TextFileError as error:
            notices.append(printable(f"{path}: {error.text}, so it is not read"))
            continue
        text = read.text
        if read.left_out_bytes:
            notices.append(printable(f"{path}: is too long for a model, so only its beginning is used"))
            text += f"\n[The last {read.left_out_bytes} bytes of this file are left out.]"
        if text.strip():
            files[path] = ContextFile(path, text)
    return ContextFiles(tuple(files.values()), tuple(notices))


# DEVIATION D-39: files of other users, and files that links of a repository lead to, are not instructions.
def project_reach(cwd: Path, env: Mapping[str, str]) -> "ProjectReach":
    """Return where links of a working folder's files may lead."""
    from pinnace_agent.files.project_reach import ProjectReach

    return ProjectReach(cwd, repository_root(cwd), protected_places(env))


def repository_root(cwd: Path) -> Path:
    """Return the root of the repository around a folder, or the folder itself."""
    return next((folder for folder in (cwd, *cwd.parents) if os.path.lexists(folder / ".git")), cwd)


def _context_file(folder: Path) -> str | None:
    paths = (os.path.join(folder, name) for name in NAMES)
    return next((path for path in paths if is_regular(path)), None)


def _twins(root: Path, cwd: Path) -> dict[Path, Path]:
    """Map folders of a main checkout to those of a worktree inside it: a file of both is read once."""
    main = _main_checkout(root)
    if main is None or main not in root.parents:
        return {}
    above = (main, *(folder for folder in root.parents if main in folder.parents))
    return {folder: root / folder.relative_to(main) for folder in above}


def _main_checkout(root: Path) -> Path | None:
    """Return the main checkout of a worktree; None if the folder is no worktree."""
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
