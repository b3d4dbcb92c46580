"""Where the user's files are: the agent folder, and a project's own folder.

Decides paths only, from an environment that it is given; checks nothing but whether a file exists. pi shares these
folders, so the names are fixed.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # loaded where a file is opened or checked that a repository or a model names
    from pinnace_agent.files.protected import Places

AGENT_DIR_VARIABLE: Final = "PI_CODING_AGENT_DIR"

# What a project may bring along that configures an agent or runs code in it; a bare `.pi` protects nothing.
_GATED: Final = (
    "settings.json",
    "extensions",
    "skills",
    "prompts",
    "themes",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
    "mcp.json",
)


def home_dir(env: Mapping[str, str]) -> Path:
    """Return the user's home folder: HOME, or the one that the system knows."""
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def expand_home(path: str, env: Mapping[str, str]) -> str:
    """Replace a leading `~` or `~/` by the home folder; `~other` stays as it is."""
    if path == "~":
        return str(home_dir(env))
    if path.startswith("~/"):
        return str(home_dir(env) / path[2:])
    return path


def agent_dir(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's settings, models and credentials. It may not exist."""
    chosen = env.get(AGENT_DIR_VARIABLE)
    if chosen:
        return Path(expand_home(chosen, env)).absolute()
    return home_dir(env) / ".pi" / "agent"


def project_dir(cwd: Path) -> Path:
    """Return the folder in which a project brings its own configuration. It may not exist."""
    return cwd / ".pi"


def nested_prompts(cwd: Path) -> Path:
    """Return the other folder of a project's prompt templates: the published protocol shows them there."""
    # DEVIATION D-53
    return project_dir(cwd) / "agent" / "prompts"


def protected_places(env: Mapping[str, str], extensions: Iterable[str] = ()) -> "Places":
    """Return the user's protected places with all links resolved; `extensions` are files and folders of loaded ones."""
    from pinnace_agent.files.protected import HIDDEN, Places

    home, folder = (os.path.realpath(each) for each in (home_dir(env), agent_dir(env)))
    return Places(home, folder, tuple(os.path.realpath(each) for each in extensions), tuple(HIDDEN))


def gated_project_files(cwd: Path, env: Mapping[str, str]) -> list[Path]:
    """Return what is there and is read only when the project is trusted: in its `.pi`, and skills in folders above it.

    What is the user's own is not among it: the agent folder, also where it is the `.pi` of the working folder, and the
    skills in the home folder.
    """
    gated: list[Path] = []
    if os.path.lexists(folder := project_dir(cwd)):  # each start asks, several times, and mostly there is none
        own = os.path.realpath(agent_dir(env))
        if os.path.realpath(folder) != own:
            gated = [path for name in _GATED if os.path.lexists(path := folder / name)]
        # In the home folder it is the user's own.
        if os.path.lexists(nested := nested_prompts(cwd)) and os.path.realpath(nested.parent) != own:
            gated.append(nested)
    for above in (cwd, *cwd.parents):
        skills = os.path.join(above, ".agents", "skills")
        if os.path.lexists(skills) and os.path.realpath(above) != os.path.realpath(home_dir(env)):
            gated.append(Path(skills))
    return gated
