"""Everything that the user's files and environment say, read once at start.

No file is required, none is written, and none ends the process: what is wrong with them is a list of notices
for stderr. Reads files, so it belongs before the protocol starts. Must not know the command line.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pinnace_agent.resources.catalog import read_catalog
from pinnace_agent.resources.credentials import read_auth
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.resources.paths import agent_dir, expand_home, gated_project_files
from pinnace_agent.resources.settings import Settings, read_settings


class Configuration(NamedTuple):
    """What was read."""

    settings: Settings
    registry: ModelRegistry
    notices: tuple[str, ...]


def load_configuration(env: Mapping[str, str], cwd: Path) -> Configuration:
    """Read settings, models and keys from the agent folder."""
    folder = agent_dir(env)
    settings, problems = read_settings(folder / "settings.json")
    catalog = read_catalog(folder / "models.json")
    auth = read_auth(folder / "auth.json")
    notices = [str(diagnostic) for diagnostic in (*problems, *catalog.diagnostics, *auth.diagnostics)]
    if gated := gated_project_files(cwd):
        names = ", ".join(path.name for path in gated)
        notices.append(
            f"{cwd / '.pi'}: this project is not trusted, so nothing there is read ({names}). "
            "Projects can't be trusted in this release."
        )
    return Configuration(settings, ModelRegistry(catalog, auth, env), tuple(notices))


def shell_of(settings: Settings, env: Mapping[str, str]) -> str | None:
    """Return the path of the shell that the user wants, or None for the usual one."""
    return expand_home(settings.shell_path, env) if settings.shell_path is not None else None
