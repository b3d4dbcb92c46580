"""Where sessions lie: the folder of a working folder's sessions, and what others may do with it.

Other programs share these folders, so their names are fixed. Transcripts hold what the user reads and types, so what
is made here is the user's alone; what exists already keeps its mode, and the user is warned. A project can't choose
where its sessions go.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.files.paths import expand_home

SESSION_DIR_VARIABLE: Final = "PI_CODING_AGENT_SESSION_DIR"

# What the file systems of today allow one name to have, in bytes.
_MAX_NAME_BYTES: Final = 255
# 128 bits: two folders with one name would mix the sessions of two projects.
_DIGEST_DIGITS: Final = 32
_DASHES: Final = str.maketrans("/\\:", "---")


class SessionFolder(NamedTuple):
    """A folder with session files."""

    path: Path
    is_flat: bool
    """Chosen by the user, with the sessions of all working folders; else it has those of one, or of a few that share
    a name."""


def sessions_root(agent_dir: Path) -> Path:
    """Return the folder of the folders of all working folders."""
    return agent_dir / "sessions"


def choose_folder(
    agent_dir: Path, cwd: str, flag: str | None, env: Mapping[str, str], setting: str | None
) -> SessionFolder:
    """Decide where sessions go: by the command line, the environment, the user's settings, or the default.

    Creates nothing. What is chosen may begin with `~` and is relative to `cwd`; what is empty chooses nothing.

    Args:
        agent_dir: The user's agent folder.
        cwd: The absolute working folder.
        flag: From the command line.
        env: The environment.
        setting: From the user's own settings, never from a project's: a cloned repository could send the transcripts
            to where it can read them.
    """
    chosen = flag or env.get(SESSION_DIR_VARIABLE) or setting
    if chosen:
        return SessionFolder(Path(_absolute(expand_home(chosen, env), cwd)), is_flat=True)
    return default_folder(sessions_root(agent_dir), cwd)


def default_folder(root: Path, cwd: str) -> SessionFolder:
    """Return the folder of a working folder's sessions below the folder of all."""
    unshortened = root / _dashed(cwd)
    # On a file system that allows longer names another program may have made it.
    path = unshortened if os.path.isdir(unshortened) else root / folder_name(cwd)
    return SessionFolder(path, is_flat=False)


def folder_name(cwd: str) -> str:
    """Name the folder of a working folder's sessions.

    Two working folders may have the same name (`/a/b` and `/a-b`): a session's header names its folder. A name that
    is too long for a file system keeps its beginning and ends in a digest of the whole.
    """
    name = _dashed(cwd)
    if len(os.fsencode(name)) <= _MAX_NAME_BYTES:
        return name
    from hashlib import sha256  # loads OpenSSL

    digest = sha256(os.fsencode(_absolute(cwd))).hexdigest()[:_DIGEST_DIGITS]
    ending = f"-{digest}--"
    # A character that the limit cuts in two is left out: the name stays UTF-8, which some file systems insist on.
    beginning = os.fsencode(name)[: _MAX_NAME_BYTES - len(ending)].decode(errors="ignore")
    return beginning + ending


def _dashed(cwd: str) -> str:
    path = _absolute(cwd) if cwd.startswith("/") else cwd
    path = path[1:] if path.startswith(("/", "\\")) else path
    return f"--{path.translate(_DASHES)}--"


def _absolute(path: str, cwd: str = "") -> str:
    """Resolve `.`, `..` and a missing beginning by the text alone: links stay, as in the header of a session."""
    path = os.path.abspath(os.path.join(cwd, path))
    # POSIX gives two leading slashes a meaning of their own; the other programs don't.
    return "/" + path.lstrip("/") if path.startswith("//") else path
