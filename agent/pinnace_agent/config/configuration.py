"""Everything that the user's files and environment configure, read once at start.

Every file is optional, none is written, and none ends the process: problems are returned as notices for stderr. What a
project brings is read only if the user trusts the project. Reads files, so it runs before the protocol starts. Has no
access to the command line.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.config.credentials.credentials import AuthFile, read_auth
from pinnace_agent.config.credentials.known_keys import key_variables_of, keys_and_headers
from pinnace_agent.config.models.builtin import all_key_variables
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.settings import LoadedSettings, Settings, settings_in
from pinnace_agent.config.settings_reader import read_scope
from pinnace_agent.config.trust import TRUST_REMEDY, Trust, decide, trust_file
from pinnace_agent.config.values import problem_of
from pinnace_agent.core.diagnostics import Diagnostic
from pinnace_agent.core.surroundings import CLIENT_ROUTES
from pinnace_agent.core.user_warnings import Notice
from pinnace_agent.files.folders import loose_modes
from pinnace_agent.files.paths import agent_dir, expand_home, gated_project_files, project_dir
from pinnace_agent.redaction.policy import Secret
from pinnace_spec.records.messages import WarningKind

# Files whose modes are checked.
_KEPT_KEYS: Final = ("auth.json", "auth.json.bak")


class Configuration(NamedTuple):
    """The whole configuration of a process."""

    settings: Settings
    registry: ModelRegistry
    notices: tuple[Notice, ...]
    is_project_trusted: bool = False
    hidden_variables: frozenset[str] = frozenset()
    """Variables that shells don't get."""
    refusals: tuple[str, ...] = ()
    """The problems in limits and guards of the settings; no run may start with them."""
    mistakes: tuple[str, ...] = ()
    """Every problem in a file but hints, with its place and what was expected; no reload is done with them."""
    others: tuple[Diagnostic, ...] = ()
    """Unknown keys of settings.json, which may be an extension's."""
    has_trusted_files: bool = False
    """Whether a project that is trusted has brought files."""


def load_configuration(env: Mapping[str, str], cwd: Path, *, approved: bool | None = None) -> Configuration:
    """Read settings, models and keys from the agent folder, and the settings of a project that is trusted.

    Args:
        env: The environment.
        cwd: The working folder.
        approved: Whether the command line trusts the project; None: it leaves that open.
    """
    folder = agent_dir(env)
    (settings, problems, refusals, others), trust = _load_settings(env, cwd, approved)
    catalog = read_catalog(folder / "models.json")
    if CLIENT_ROUTES in env:
        from pinnace_agent.config.models.routes import routed

        catalog = routed(catalog)
    auth = read_auth(folder / "auth.json")
    found: dict[WarningKind, Sequence[Diagnostic]] = {
        "settings": problems,
        "project_trust": trust.diagnostics,
        "models": catalog.diagnostics,
        "credentials": auth.diagnostics,
    }
    diagnostics = [each for group in found.values() for each in group]
    notices = [
        *(Notice(kind, str(each), source=each.file) for kind, group in found.items() for each in group),
        *_not_trusted(cwd, trust),
    ]
    for name in _KEPT_KEYS:
        if (loose := loose_modes(folder / name)) is not None:
            notices.append(Notice("credentials", loose, source=str(folder / name)))
    names = [*env]
    for name in sorted(all_key_variables().intersection(names)):
        if env[name] and (why := problem_of(Secret(f"${name}"), env)):
            notices.append(Notice("credentials", f"the variable {name} can't be used: {why}", source=name))
    notices += [Notice("settings", text, source=text.partition(":")[0]) for text in _of_variables(env, auth)]
    session_dir, notice = configured_session_dir(settings, env, cwd)
    if notice is not None:
        notices.append(Notice("settings", notice))
    hidden: frozenset[str] = frozenset()
    if not settings.shell_provider_keys:
        keys, headers = keys_and_headers(catalog, auth)
        hidden = key_variables_of(keys, [value for each in headers for value in each.values()])
    return Configuration(
        replace(settings, session_dir=session_dir),
        ModelRegistry(catalog, auth, env),
        tuple(notices),
        trust.is_trusted,
        hidden,
        refusals,
        tuple(text for each in diagnostics for text in each.mistakes()),
        others,
        trust.is_trusted and bool(trust.gated),
    )


def shell_of(settings: Settings, env: Mapping[str, str]) -> str | None:
    """Return the path of the shell that the settings name, or None for the default one."""
    return expand_home(settings.shell_path, env) if settings.shell_path is not None else None


def trust_recheck(
    settings: Settings, project: Path, gated: Sequence[Path], env: Mapping[str, str]
) -> Callable[[], bool] | None:
    """Return the comparison of a project with what was trusted; None where `recheckProjectTrust` is off."""
    if not settings.rechecks_project_trust:
        return None

    def has_changed() -> bool:
        from pinnace_agent.config.trust_digest import is_changed

        return is_changed(trust_file(agent_dir(env)), project, gated, env)

    return has_changed


def _load_settings(env: Mapping[str, str], cwd: Path, approved: bool | None) -> tuple[LoadedSettings, Trust]:
    """Read the user's settings, decide with them on the project, and read the project's if it is trusted."""
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
        has_changed=trust_recheck(settings, cwd, gated, env),
    )
    project = project_dir(cwd) / "settings.json"
    # Only files that existed at the decision: the decision does not cover later ones.
    if trust.is_trusted and project in gated:
        loaded = settings_in(user, read_scope(project, is_project=True))
    return loaded, trust


def _of_variables(env: Mapping[str, str], auth: AuthFile) -> Iterator[str]:
    """Yield what is wrong with variables that are used later. What knows them is loaded where one may be set."""
    if any(name.lower().endswith("_proxy") for name in env):
        from pinnace_agent.llm.transport.proxies import environment_problems

        yield from environment_problems(env)
    if any(name.endswith("_CA_CERTS") for name in env):
        from pinnace_agent.llm.transport.authorities import authorities_problem

        if (problem := authorities_problem(env)) is not None:
            yield problem
    for variables in (env, *(entry.variables() for entry in auth.entries.values())):
        if any(name.startswith("AZURE_OPENAI_") for name in variables):
            from pinnace_agent.llm.azure import deployment_problems

            yield from deployment_problems(variables)


def _not_trusted(cwd: Path, trust: Trust) -> Sequence[Notice]:
    if trust.is_trusted or not trust.gated:
        return ()
    from pinnace_agent.core.visible_text import visible_line  # most starts are in a project that is trusted

    gated = (path.relative_to(cwd) if path.is_relative_to(cwd) else path for path in trust.gated)
    names = ", ".join(visible_line(str(path)) for path in gated)
    text = f"{visible_line(str(cwd))}: this project is not trusted, so what it brings is not read ({names})"
    return [Notice("project_trust", text, TRUST_REMEDY, str(cwd))]


def configured_session_dir(settings: Settings, env: Mapping[str, str], cwd: Path) -> tuple[str | None, str | None]:
    """Return the session folder of the settings, if any, and a notice for the user, if any.

    A trusted project may choose a folder, but none inside a repository, where the next commit would include the
    transcripts. The command line and the environment take precedence and are not considered here.
    """
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
