"""Where sessions lie: the folder of a working folder's sessions, and what others may do with it.

Other programs share these folders, so their names are fixed. Transcripts hold what the user reads and types, so what
is made here is the user's alone; what is there already keeps its mode, and the user is told. A project has no say in
where its sessions go. Must not know what a session file holds.
"""

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.resources.paths import expand_home

SESSION_DIR_VARIABLE: Final = "PI_CODING_AGENT_SESSION_DIR"
FOLDER_MODE: Final = 0o700

# What the file systems of today allow one name to have, in bytes.
_MAX_NAME_BYTES: Final = 255
# 128 bits: two folders with one name would mix the sessions of two projects.
_DIGEST_DIGITS: Final = 32
_DASHES: Final = str.maketrans("/\\:", "---")
_OTHERS_MAY_READ: Final = stat.S_IRGRP | stat.S_IROTH
_OTHERS_MAY_ENTER: Final = stat.S_IXGRP | stat.S_IXOTH


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
    """Decide where sessions go: as the command line says, the environment, the user's settings, or the default.

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
    root = sessions_root(agent_dir)
    unshortened = root / _dashed(cwd)
    # On a file system that allows longer names another program may have made it.
    path = unshortened if os.path.isdir(unshortened) else root / folder_name(cwd)
    return SessionFolder(path, is_flat=False)


def folder_name(cwd: str) -> str:
    """Name the folder of a working folder's sessions.

    Two working folders may have the same name (`/a/b` and `/a-b`): a session's header says whose it is. A name that
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


def make_folder(path: Path) -> None:
    """Create a folder and those above it that are missing, for the user alone; what exists keeps its mode.

    Raises:
        OSError: It can't be created, or is no folder.
    """
    missing: list[Path] = []
    existing = path
    while not os.path.lexists(existing):
        missing.append(existing)
        existing = existing.parent
    try:
        for folder in reversed(missing):
            # Another process may make it at the same moment; what is no folder fails in the next step.
            with suppress(FileExistsError):
                folder.mkdir(FOLDER_MODE)
    except ValueError:  # a NUL character, or one that no file name has
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from None
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def loose_modes(path: Path) -> str | None:
    """Return a sentence for people if others may read what lies in a folder, or a file in a folder that they may enter.

    None too if it does not exist, or its mode can't be read.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            is_loose, wanted = mode & _OTHERS_MAY_READ, "700"
        else:
            is_loose, wanted = mode & _OTHERS_MAY_READ and path.parent.stat().st_mode & _OTHERS_MAY_ENTER, "600"
    except (OSError, ValueError):
        return None
    if not is_loose:
        return None
    return f"other users may read {path} (mode {stat.S_IMODE(mode):03o}); `chmod {wanted}` keeps it private"


def _dashed(cwd: str) -> str:
    path = _absolute(cwd) if cwd.startswith("/") else cwd
    path = path[1:] if path.startswith(("/", "\\")) else path
    return f"--{path.translate(_DASHES)}--"


def _absolute(path: str, cwd: str = "") -> str:
    """Resolve `.`, `..` and a missing beginning by the text alone: links stay, as in the header of a session."""
    path = os.path.abspath(os.path.join(cwd, path))
    # POSIX gives two leading slashes a meaning of their own; the other programs don't.
    return "/" + path.lstrip("/") if path.startswith("//") else path
