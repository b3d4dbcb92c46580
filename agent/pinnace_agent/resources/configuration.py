"""Everything that the user's files and environment say, read once at start.

No file is required, none is written, and none ends the process: what is wrong with them is a list of notices
for stderr. What a project brings is read only if the user trusts it. Reads files, so it belongs before the protocol
starts. Must not know the command line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.resources.catalog import Catalog, read_catalog
from pinnace_agent.resources.credentials import AuthFile, read_auth
from pinnace_agent.resources.key_variables import key_variables_of
from pinnace_agent.resources.known_keys import keys_and_headers
from pinnace_agent.resources.models import ModelRegistry
from pinnace_agent.resources.paths import agent_dir, expand_home, gated_project_files, project_dir
from pinnace_agent.resources.project_sessions import session_dir_in_force
from pinnace_agent.resources.settings import LoadedSettings, Settings, settings_in
from pinnace_agent.resources.settings_reader import read_scope
from pinnace_agent.resources.trust import Trust, decide, trust_file
from pinnace_agent.session.folders import loose_modes

# Whose modes are looked at.
_KEPT_KEYS: Final = ("auth.json", "auth.json.bak")


class Configuration(NamedTuple):
    """What was read."""

    settings: Settings
    registry: ModelRegistry
    notices: tuple[str, ...]
    is_project_trusted: bool = False
    hidden_variables: frozenset[str] = frozenset()
    """Those that shells don't get."""
    refusals: tuple[str, ...] = ()
    """What is wrong with limits and guards of the settings: no run may begin with them."""


def load_configuration(env: Mapping[str, str], cwd: Path, *, approved: bool | None = None) -> Configuration:
    """Read settings, models and keys from the agent folder, and the settings of a project that is trusted.

    Args:
        env: The environment.
        cwd: The working folder.
        approved: Whether the command line trusts the project, if it says so.
    """
    folder = agent_dir(env)
    (settings, problems, refusals), trust = _load_settings(env, cwd, approved)
    catalog = read_catalog(folder / "models.json")
    auth = read_auth(folder / "auth.json")
    diagnostics = [*problems, *trust.diagnostics, *catalog.diagnostics, *auth.diagnostics]
    notices = [*map(str, diagnostics), *_not_trusted(cwd, trust)]
    notices += [loose for name in _KEPT_KEYS if (loose := loose_modes(folder / name)) is not None]
    session_dir, notice = session_dir_in_force(settings, env, cwd)
    if notice is not None:
        notices.append(notice)
    return Configuration(
        replace(settings, session_dir=session_dir),
        ModelRegistry(catalog, auth, env),
        tuple(notices),
        trust.is_trusted,
        frozenset() if settings.shell_provider_keys else _key_variables(catalog, auth),
        refusals,
    )


def shell_of(settings: Settings, env: Mapping[str, str]) -> str | None:
    """Return the path of the shell that the user wants, or None for the usual one."""
    return expand_home(settings.shell_path, env) if settings.shell_path is not None else None


def _load_settings(env: Mapping[str, str], cwd: Path, approved: bool | None) -> tuple[LoadedSettings, Trust]:
    """Read the user's settings, decide on the project with them, and read the project's if it may say something."""
    folder = agent_dir(env)
    user = read_scope(folder / "settings.json")
    loaded = settings_in(user)
    gated = gated_project_files(cwd, env)
    settings = loaded.settings
    trust = decide(
        trust_file(folder),
        cwd,
        gated,
        approved,
        settings.default_project_trust,
        rechecks=env if settings.rechecks_project_trust else None,
    )
    project = project_dir(cwd) / "settings.json"
    # Only what was there when it was decided: what appears later was not asked about.
    if trust.is_trusted and project in gated:
        loaded = settings_in(user, read_scope(project, is_project=True))
    return loaded, trust


def _not_trusted(cwd: Path, trust: Trust) -> Sequence[str]:
    if trust.is_trusted or not trust.gated:
        return ()
    from pinnace_agent.visible_text import visible_line  # most starts are in a project that is trusted

    gated = (path.relative_to(cwd) if path.is_relative_to(cwd) else path for path in trust.gated)
    names = ", ".join(visible_line(str(path)) for path in gated)
    return [
        f"{visible_line(str(cwd))}: this project is not trusted, so what it brings is not read ({names}). "
        "`pinnace trust` trusts it from now on, --approve for one run."
    ]


def _key_variables(catalog: Catalog, auth: AuthFile) -> frozenset[str]:
    keys, headers = keys_and_headers(catalog, auth)
    return key_variables_of(keys, [value for each in headers for value in each.values()])
