"""Where the user's files are: the agent folder, and a project's own folder.

Decides paths only, from an environment that it is given; reads nothing but whether a file exists. Must not
know what the files hold. pi shares these folders, so the names are fixed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

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
    """Return the user's home folder: HOME, or what the system says."""
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


def gated_project_files(cwd: Path) -> list[Path]:
    """Return what lies in the project's `.pi` and is read only when the project is trusted."""
    return [path for name in _GATED if (path := cwd / ".pi" / name).exists()]
