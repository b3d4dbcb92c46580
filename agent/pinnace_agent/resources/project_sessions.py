"""Where session files go when a project has a wish: a transcript holds what the user reads and types.

A project that is not trusted has no say: its settings are not read at all. One that is may choose a folder, but none
inside a repository, where the next commit would take the transcripts along. The command line and the environment are
not asked here: they go before. Reads nothing but whether a folder is a repository.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pinnace_agent.resources.paths import expand_home
from pinnace_agent.resources.settings import Settings


def session_dir_in_force(settings: Settings, env: Mapping[str, str], cwd: Path) -> tuple[str | None, str | None]:
    """Return the folder that the settings choose, if any, and what the user is to be told."""
    wanted = settings.project_session_dir
    if wanted is None:
        return settings.session_dir, None
    folder = cwd / expand_home(wanted, env)
    repository = _repository_around(folder)
    if repository is None:
        return str(folder), None
    return settings.session_dir, (
        f"{cwd / '.pi' / 'settings.json'}: sessionDir is in the repository {repository}, where a commit would take the "
        "transcripts along, so it is not used; --session-dir is."
    )


def _repository_around(folder: Path) -> Path | None:
    real = Path(os.path.realpath(folder))
    return next((each for each in (real, *real.parents) if os.path.lexists(each / ".git")), None)
