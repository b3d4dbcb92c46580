"""`pinnace install`, `remove`, `list` and `update`: the packages of extensions, skills, prompts and themes.

Settings and folders are pi's, so that either program uses what the other has installed. Exit codes: 0 done, 1 it can't
be done, 2 usage error. Loaded by these commands alone.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.config.configuration import Configuration, load_configuration
from pinnace_agent.core.visible_text import visible_line
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.paths import agent_dir, gated_project_files
from pinnace_agent.files.relaxed_json import ConfigurationFileError
from pinnace_agent.packages.managing import Change, ConfiguredPackage, PackageManager, counts_of, npm_command
from pinnace_agent.packages.programs import PackageError, Programs
from pinnace_agent.packages.sources import GitSource, SourceError, parse_source
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_rpc.options.options import says_offline
from pinnace_rpc.options.parser import Argument, CommandError, Option, Subcommand, UsageError, parse
from pinnace_rpc.options.shown.tables import JSON, echo_json
from pinnace_rpc.options.streams import echo
from pinnace_rpc.options.unsupported import UPDATES, UnsupportedFeatureError

_SOURCE: Final = "npm:NAME[@VERSION], git:HOST/PATH[@REF] or a folder"
_LOCAL: Final = Option(("--local", "-l"), "is_local", "Use .pi/settings.json of this folder instead of the user's.")
_APPROVE: Final = [
    Option(("--approve", "-a"), "approves", "Trust the project for this command."),
    Option(("--no-approve", "-na"), "denies", "Do not trust the project for this command."),
]
_SCRIPTS: Final = Option(
    ("--allow-scripts",), "runs_scripts", "Let packages run programs while they are installed (npm's scripts)."
)
_INSTALL: Final = Subcommand(
    "pinnace install",
    f"Install a package and add it to settings. SOURCE is {_SOURCE}.",
    [_LOCAL, _SCRIPTS, *_APPROVE],
    [Argument("source", "SOURCE")],
)
_REMOVE: Final = Subcommand(
    "pinnace remove",
    "Remove a package from settings, and its files. Also called uninstall.",
    [_LOCAL, *_APPROVE],
    [Argument("source", "SOURCE")],
)
_LIST: Final = Subcommand(
    "pinnace list", "List the packages of the user and of a trusted project, and where they are.", [JSON, *_APPROVE]
)
_UPDATE: Final = Subcommand(
    "pinnace update",
    "Bring packages, all or one, to what settings ask for: the newest version, or the named version or ref.",
    [
        Option(("--extensions",), "is_all", "Update all packages, as without SOURCE."),
        Option(("--extension",), "extension", "The same as SOURCE.", "SOURCE"),
        Option(("--all", "--self", "--models", "--force"), "of_pi"),
        _SCRIPTS,
        *_APPROVE,
    ],
    [Argument("source", "[SOURCE]", is_required=False)],
)
_COMMANDS: Final[Mapping[str, Subcommand]] = {
    "install": _INSTALL,
    "remove": _REMOVE,
    "uninstall": _REMOVE,
    "list": _LIST,
    "update": _UPDATE,
}


def main(name: str, words: Sequence[str]) -> int:
    """Run one of the commands with these words and return the exit code."""
    given = parse(_COMMANDS[name], words)
    if given["approves"] and given["denies"]:
        raise UsageError("--approve and --no-approve exclude each other")
    approved = True if given["approves"] else False if given["denies"] else None
    try:
        match name:
            case "install":
                return _install(str(given["source"]), given, approved)
            case "list":
                return _list(approved, as_json=given["as_json"] is True)
            case "update":
                return _update(given, approved)
            case _:
                return _remove(str(given["source"]), approved, is_local=given["is_local"] is True)
    except SourceError as error:
        raise UsageError(_shown(str(error))) from None
    except (PackageError, LockHeld, ConfigurationFileError) as error:
        raise CommandError(_shown(str(error))) from None
    except OSError as error:
        raise CommandError(f"{error.filename or 'a file'}: {error.strerror or error}") from None


def _install(text: str, given: Mapping[str, object], approved: bool | None) -> int:
    _learn(text)
    is_local = given["is_local"] is True
    configuration = _configuration(approved, needs_project=is_local)
    parse_source(text)
    manager = _manager(runs_scripts=given["runs_scripts"] is True)
    echo(f"Installing {_shown(text)} ...", is_error=True)
    package = trio.run(partial(manager.install, text, is_local=is_local))
    _keep_trust(configuration, is_local=is_local)
    echo(f"Installed {_named(package)}")
    counts = counts_of(package, lambda problem: echo(f"pinnace: warning: {_shown(problem)}", is_error=True))
    brings = ", ".join(f"{count} {kind if count > 1 else kind.removesuffix('s')}" for kind, count in counts.items())
    echo(f"  {brings or 'no extension, skill, prompt or theme'} in {_shown(package.path or '')}")
    return 0


def _remove(text: str, approved: bool | None, *, is_local: bool) -> int:
    _learn(text)
    configuration = _configuration(approved, needs_project=is_local)
    manager = _manager()
    problem = trio.run(partial(manager.remove, text, is_local=is_local))
    _keep_trust(configuration, is_local=is_local)
    echo(f"Removed {_shown(text)}")
    if problem is not None:
        raise CommandError(
            f"{_shown(text)} is no longer in settings, but its files could not be removed: {_shown(problem)}"
        )
    return 0


def _list(approved: bool | None, *, as_json: bool) -> int:
    scopes = _scopes(_configuration(approved))
    manager = _manager()
    packages = [(is_local, each) for is_local in scopes for each in manager.configured(is_local=is_local)]
    for is_local, each in packages:
        _learn(each.text)
        if as_json:
            scope = "project" if is_local else "user"
            record = {"source": each.text, "scope": scope, "filtered": each.is_filtered, "path": each.path}
            echo_json({**record, "version": each.version})
    if as_json:
        return 0
    if not packages:
        echo("No packages installed.")
    for is_local in scopes:
        own = [each for is_project, each in packages if is_project == is_local]
        if own:
            echo("Project packages:" if is_local else "User packages:")
        for each in own:
            echo(f"  {_shown(each.text)}{' (filtered)' if each.is_filtered else ''}")
            if each.path is not None:
                echo(f"    {visible_line(each.path)}")
            elif each.source is not None:
                echo("    not installed")
    return 0


def _update(given: Mapping[str, object], approved: bool | None) -> int:
    sources = [str(each) for each in (given["source"], given["extension"]) if each is not None]
    if given["of_pi"] or sources in (["self"], ["pi"]):
        raise UnsupportedFeatureError(UPDATES)
    if len(sources) > 1 or (sources and given["is_all"]):
        raise UsageError("update takes one SOURCE, or --extensions for all packages")
    scopes = _scopes(_configuration(approved))
    if says_offline(os.environ):
        echo("Skipped package updates (offline mode)")
        return 0
    manager = _manager(runs_scripts=given["runs_scripts"] is True)

    def begin(package: ConfiguredPackage) -> None:
        _learn(package.text)
        echo(f"Updating {_shown(package.text)} ...", is_error=True)

    text = sources[0] if sources else None
    changes, problems = trio.run(manager.update, text, scopes, begin)
    for change in changes:
        echo(_change(change))
    if not changes and not problems:
        echo(f"{_shown(text)} is already up to date" if text else "Packages are already up to date")
    if problems:
        raise CommandError("\n".join(map(_shown, problems)))
    return 0


def _change(change: Change) -> str:
    is_git = isinstance(change.package.source, GitSource)
    before, after = (
        "(none)" if each is None else each[:7] if is_git else each for each in (change.before, change.after)
    )
    scope = " (project)" if change.package.places.scope == "project" else ""
    return f"Updated {_shown(change.package.text)}{scope} {before} -> {after}"


def _configuration(approved: bool | None, *, needs_project: bool = False) -> Configuration:
    """Return the configuration of the user and, if it is trusted, of the project."""
    cwd = Path.cwd()
    configuration = load_configuration(os.environ, cwd, approved=approved)
    is_new = approved is None and not gated_project_files(cwd, os.environ)
    if needs_project and not configuration.is_project_trusted and not is_new:
        raise CommandError(
            f"{visible_line(str(cwd))}: this project is not trusted: run pinnace trust, or add --approve"
        )
    return configuration


def _scopes(configuration: Configuration) -> list[bool]:
    """Return whether each scope whose packages count is the project's."""
    cwd = Path.cwd()
    if configuration.is_project_trusted and (cwd / ".pi").resolve() != agent_dir(os.environ).resolve():
        return [False, True]
    return [False]


def _keep_trust(configuration: Configuration, *, is_local: bool) -> None:
    """Let a project that was trusted as it was stay trusted after a change that the user has ordered."""
    if not is_local:
        return
    cwd = Path.cwd()
    if configuration.settings.rechecks_project_trust and configuration.is_project_trusted:
        from pinnace_agent.config.trust import trust_file
        from pinnace_agent.config.trust_digest import keep_digest

        keep_digest(trust_file(agent_dir(os.environ)), cwd, gated_project_files(cwd, os.environ), os.environ)
    elif not configuration.is_project_trusted:
        echo("pinnace: its packages are loaded when the project is trusted (pinnace trust)", is_error=True)


def _manager(*, runs_scripts: bool = False) -> PackageManager:
    command = npm_command(agent_dir(os.environ) / "settings.json")
    return PackageManager(os.environ, Path.cwd(), Programs(os.environ, command, runs_scripts=runs_scripts))


def _named(package: ConfiguredPackage) -> str:
    version = f" ({package.version})" if package.version is not None else ""
    return f"{_shown(package.text)}{version}"


def _learn(text: str) -> None:
    """Let the password in an address be hidden in all output."""
    try:
        source = parse_source(text)
    except SourceError:
        return
    if isinstance(source, GitSource):
        REDACTOR.learn_address(source.url)


def _shown(text: str) -> str:
    return "\n".join(visible_line(REDACTOR.text(line)) for line in text.splitlines())
