"""`pinnace doctor`: checks what a start would read and use, and says what to do about what is wrong.

Each check calls the reader of the start. Extensions are loaded, as `--help` loads them: those of the user, and of the
project if it is trusted. No MCP server is started, no command of a configuration file runs, nothing is sent, and no key
is shown. Exit codes: 0 nothing is wrong, 1 something is, 2 usage error.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pinnace_agent.config.configuration import Configuration, load_configuration
from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.credentials.key_status import KeyStatus, key_status
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.selection import Choice, select_initial
from pinnace_agent.config.server_entries import ServerEntry
from pinnace_agent.config.values import UnresolvedValue, interpolate, is_command
from pinnace_agent.core.installing import how_to_install
from pinnace_agent.core.user_warnings import Notice
from pinnace_agent.core.visible_text import visible_line
from pinnace_agent.files.paths import agent_dir, expand_home, gated_project_files, project_dir
from pinnace_agent.files.relaxed_json import ConfigurationFileError, read_object
from pinnace_agent.mcp.configuration import configured, project_file, read_settings
from pinnace_agent.mcp.oauth.credentials import FILE_NAME as MCP_LOGINS
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.session.folders import choose_folder
from pinnace_agent.telemetry.variables import wanted as wanted_telemetry
from pinnace_rpc.options.extension_hints import in_load_order
from pinnace_rpc.options.extension_preview import Preview, add_providers, preview
from pinnace_rpc.options.parser import Option, Subcommand, parse
from pinnace_rpc.options.shown.tables import JSON
from pinnace_rpc.options.shown.version import shown_version
from pinnace_rpc.options.streams import echo
from pinnace_spec.rules.errors import GIVE_A_KEY
from pinnace_spec.wire.json_text import encode_record

State = Literal["ok", "absent", "note", "problem"]
VERSION: Final = 1
"""Of the JSON form."""

COMMAND: Final = Subcommand(
    "pinnace doctor",
    "Check what a start would use: files, keys, extras, the sandbox, extensions and MCP servers. Says what is wrong "
    "and what to do. Exit code 1 if something is wrong.",
    [
        JSON,
        Option(("--no-extensions", "-ne"), "no_extensions", "Load no extensions."),
    ],
)
# The module of each extra that shows whether it is installed.
_EXTRAS: Final[Mapping[str, str]] = {
    "bedrock": "cryptography",
    "dask": "distributed",
    "images": "PIL",
    "mcp": "mcp",
    "otel": "opentelemetry.sdk",
    "ray": "ray",
    "tui": "textual",
    "vertex": "cryptography",
}
_TITLES: Final[Mapping[str, str]] = {
    "program": "Program",
    "files": "Files",
    "environment": "Environment",
    "project": "Project",
    "keys": "Keys",
    "model": "Model",
    "extras": "Extras",
    "sandbox": "Sandbox",
    "extensions": "Extensions",
    "mcp": "MCP servers",
    "sessions": "Sessions",
}
AREAS: Final = tuple(_TITLES)
"""What is checked, in this order."""
_SOURCES: Final[Mapping[str, str]] = {
    "auth.json": "key in auth.json",
    "models.json": "apiKey in models.json",
    "header": "header in models.json",
    "login": "login in auth.json",
}


class Check(NamedTuple):
    """The outcome of one check."""

    area: str
    name: str
    """What was checked: a path, a provider, an extra, a server."""
    state: State
    """`absent`: it is not there, and need not be. `note`: worth knowing, and nothing is wrong."""
    text: str = ""
    remedy: str | None = None
    """What to do; only of notes, absences and problems."""


def main(words: Sequence[str]) -> int:
    """Run `pinnace doctor` with these words and return the exit code."""
    given = parse(COMMAND, words)
    checks = sorted(run_checks(loads_extensions=not given["no_extensions"]), key=lambda each: AREAS.index(each.area))
    problems = sum(each.state == "problem" for each in checks)
    if given["as_json"]:
        _print_json(checks, problems)
    else:
        _print(checks, problems)
    return 1 if problems else 0


def run_checks(*, loads_extensions: bool = True) -> Iterator[Check]:
    """Yield the outcomes of all checks in the current folder. Reads files, loads extensions, probes the sandbox."""
    cwd = Path.cwd()
    yield Check("program", "pinnace", "ok", f"{shown_version()}, Python {sys.version.split()[0]}, {sys.executable}")
    configuration = load_configuration(os.environ, cwd)
    servers = configured(os.environ, cwd, is_trusted=configuration.is_project_trusted)
    yield from _files(configuration, servers.errors, cwd)
    yield from _project(configuration, cwd)
    seen = Preview({}, ())
    if loads_extensions:
        seen = preview((), is_discovering=True, reports=False)
    yield from _extensions(seen, is_loaded=loads_extensions)
    yield from _packages(configuration)
    yield from _keys()
    yield from _model(configuration, seen)
    yield from _extras(has_servers=bool(servers.enabled))
    yield from _sandbox(configuration, cwd)
    for line in servers.overridden:
        yield Check("mcp", line.partition(" ")[0], "note", f"overridden: {visible_line(line)}")
    for entry in servers.servers.values():
        yield _server(entry, cwd)
    yield _sessions(configuration, cwd)


def _files(configuration: Configuration, of_servers: Sequence[str], cwd: Path) -> Iterator[Check]:
    """Check each file; a notice that names none is one of the environment or of the project."""
    folder, project = agent_dir(os.environ), project_dir(cwd)
    files = [folder / name for name in ("settings.json", "models.json", "auth.json", "mcp.json", "trust.json")]
    files += [folder / "keybindings.json", folder / MCP_LOGINS, folder / "auth.json.bak"]
    if configuration.is_project_trusted and project.resolve() != folder.resolve():
        files += [project / "settings.json", project_file(cwd)]
    # A notice repeats a refusal, with what is done about it if no agent is started.
    notices = [each for each in configuration.notices if not each.text.startswith(configuration.refusals)]
    for file in files:
        refused = [text for text in configuration.refusals if text.startswith(f"{file}: ")]
        yield from (
            Check("files", str(file), "problem", f"{_own(file, text)} (so no agent starts)", f"correct {file}")
            for text in refused
        )
        found = [each for each in notices if each.source == str(file)]
        others = [text for text in of_servers if text.startswith(f"{file}: ")] + _other_problems(file)
        found += [Notice("settings", text) for text in others]
        for notice in found:
            remedy = notice.remedy or _remedy_of(file, notice.text)
            yield Check("files", str(file), "problem", _own(file, notice.text), remedy)
        for diagnostic in configuration.others:
            if diagnostic.file == str(file):
                names = ", ".join(problem.path for problem in diagnostic.problems)
                yield Check("files", str(file), "note", f"not known, and {diagnostic.consequence}: {names}")
        if not refused and not found:
            yield Check("files", str(file), "ok" if file.exists() else "absent")
    checked = frozenset(map(str, files))
    for notice in notices:
        # Of a project that is not trusted `_project` reports.
        if notice.source not in checked and notice.source != str(cwd):
            name = notice.source or notice.kind
            yield Check("environment", name, "problem", notice.text.removeprefix(f"{name}: "), notice.remedy)


def _own(file: Path, text: str) -> str:
    return text.removeprefix(f"{file}: ")


def _other_problems(file: Path) -> list[str]:
    """Return what is wrong with a file that `load_configuration` does not read, or not for everything."""
    if file.name == "keybindings.json":
        if find_spec("textual") is None:
            return []
        # The terminal client is known by its name alone.
        problems: list[str] = import_module("pinnace_tui.input.keys").read_keys(file)[1]
        return problems
    if file.name in (MCP_LOGINS, "settings.json"):
        try:
            content = read_object(file, is_relaxed=False) or {}
        except ConfigurationFileError as error:
            return [f"{file}: {error}"] if file.name == MCP_LOGINS else []
        if file.name == "settings.json":
            return [f"{file}: {text.removeprefix('settings.json: ')}" for text in read_settings(content).problems]
    return []


def _remedy_of(file: Path, text: str) -> str:
    if "chmod 600" in text:
        return f"chmod 600 {file}"
    backup = file.with_name(f"{file.name}.bak")
    is_damaged = "is not valid JSON" in text and backup.exists()
    return f"correct {file}, or restore it from {backup}" if is_damaged else f"correct {file}"


def _project(configuration: Configuration, cwd: Path) -> Iterator[Check]:
    gated = gated_project_files(cwd, os.environ)
    if not gated:
        yield Check("project", str(cwd), "ok", "brings nothing that needs trust")
    elif configuration.is_project_trusted:
        yield Check("project", str(cwd), "ok", "trusted")
    else:
        names = ", ".join(visible_line(path.name) for path in gated)
        yield Check("project", str(cwd), "note", f"not trusted, so this is not read: {names}", "pinnace trust")


def _extensions(seen: Preview, *, is_loaded: bool) -> Iterator[Check]:
    if not is_loaded:
        yield Check("extensions", "extensions", "note", "not loaded, as --no-extensions asks")
    for path in seen.loaded:
        yield Check("extensions", path, "ok", "loaded")
    for failure in seen.failures:
        remedy = "correct it, or remove it; until then sessions run without it"
        yield Check("extensions", failure.path, "problem", failure.error, remedy)
    for notice in seen.notices:
        yield Check("extensions", notice.partition(": ")[0], "note", notice.partition(": ")[2] or notice)


def _packages(configuration: Configuration) -> Iterator[Check]:
    """Check what settings name of npm, git and folders."""
    resources = in_load_order(configuration.settings.resources)
    if not any(each.packages for each in resources):
        return
    from pinnace_agent.packages.resolution import resolve_settings

    for notice in resolve_settings(resources, os.environ).notices:
        yield Check("extensions", "packages", "problem", notice, "install it, or correct packages in settings.json")


def _keys() -> Iterator[Check]:
    folder = agent_dir(os.environ)
    catalog, auth = read_catalog(folder / "models.json"), read_auth(folder / "auth.json")
    for provider in dict.fromkeys([*catalog.providers(), *auth.entries]):
        status = key_status(provider, catalog, auth, os.environ)
        if status.problem is not None:
            remedy = f"pinnace auth login {provider}"
            yield Check("keys", provider, "problem", f"{_source(status)}: {status.problem}", remedy)
        elif status.source is not None:
            yield Check("keys", provider, "ok", _source(status))


def _source(status: KeyStatus) -> str:
    text = f"variable {status.variable}" if status.source == "variable" else _SOURCES[status.source or "login"]
    return f"{text}, what a command prints (it was not run)" if status.needs_command else text


def _model(configuration: Configuration, seen: Preview) -> Iterator[Check]:
    """Check the model that a start without flags would have."""
    registry = configuration.registry
    add_providers(registry, seen.providers)
    selection = select_initial(registry, configuration.settings, Choice())
    for warning in selection.warnings:
        yield Check("model", "default", "problem", warning, "correct defaultProvider and defaultModel in settings.json")
    if selection.model is None:
        text = selection.error or "no model can be used: no provider has a key"
        yield Check("model", "start", "problem", text, GIVE_A_KEY)
    else:
        yield Check("model", "start", "ok", f"{selection.model['provider']}/{selection.model['id']}")


def _extras(*, has_servers: bool) -> Iterator[Check]:
    telemetry = wanted_telemetry(os.environ) is not None
    reasons = {"mcp": "mcp.json names servers" if has_servers else None, "otel": "OTEL_… asks for an export"}
    wanted = {"mcp": has_servers, "otel": telemetry}
    for extra, module in _EXTRAS.items():
        if _is_installed(module):
            yield Check("extras", extra, "ok", "installed")
        elif wanted.get(extra):
            yield Check("extras", extra, "problem", f"not installed, and {reasons[extra]}", how_to_install(extra))
        else:
            yield Check("extras", extra, "absent", "not installed", how_to_install(extra))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of its package
        return False


def _sandbox(configuration: Configuration, cwd: Path) -> Iterator[Check]:
    from pinnace_agent.sandbox.sandbox import Unavailable, asks_for_sandbox, tried_sandbox

    is_wanted = asks_for_sandbox(configuration.settings)
    name = "settings.json" if is_wanted else "off"
    try:
        line = tried_sandbox(configuration.settings, str(cwd))
    except Unavailable as error:
        if is_wanted:
            remedy = "see docs/sandbox.md; without a sandbox that works no agent starts"
            yield Check("sandbox", name, "problem", str(error), remedy)
        else:
            yield Check("sandbox", name, "note", f"none would work here: {error}")
    else:
        prefix = "" if is_wanted else "off; with --sandbox workspace-write "
        yield Check("sandbox", name, "ok", f"{prefix}{line}")


def _server(entry: ServerEntry, cwd: Path) -> Check:
    """Check a server as it is configured; nothing is started or connected."""
    if not entry.is_enabled:
        return Check("mcp", entry.name, "ok", "disabled")
    for name, value in (*entry.env.items(), *entry.headers.items()):
        try:
            if not is_command(value):
                interpolate(value, os.environ)
        except UnresolvedValue as why:
            return Check("mcp", entry.name, "problem", f"{name}: {why}", f"set it, or correct {entry.source}")
    if entry.command is not None:
        folder = os.path.join(cwd, expand_home(entry.cwd or ".", os.environ))
        if not os.path.isdir(folder):
            return Check("mcp", entry.name, "problem", f"cwd: there is no folder {folder}", f"correct {entry.source}")
        path = entry.env["PATH"].reveal() if "PATH" in entry.env else os.environ.get("PATH")
        program = expand_home(entry.command, os.environ)
        if shutil.which(program if os.sep not in program else os.path.join(folder, program), path=path) is None:
            text = f"the program {visible_line(entry.command)} was not found"
            return Check("mcp", entry.name, "problem", text, f"install it, or correct {entry.source}")
    return Check("mcp", entry.name, "ok", f"configured ({entry.transport}); pinnace mcp test {entry.name} connects it")


def _sessions(configuration: Configuration, cwd: Path) -> Check:
    chosen = choose_folder(agent_dir(os.environ), str(cwd), None, os.environ, configuration.settings.session_dir)
    path = chosen.path
    there = next((each for each in (path, *path.parents) if each.exists()), path)
    if not there.is_dir():
        return Check("sessions", str(path), "problem", f"{there} is no folder", "remove it, or set sessionDir")
    if not os.access(there, os.W_OK | os.X_OK):
        remedy = "make it writable, or set sessionDir in settings.json"
        return Check("sessions", str(path), "problem", f"{there} is not writable", remedy)
    return Check("sessions", str(path), "ok" if path.exists() else "absent", "" if path.exists() else "no sessions yet")


def _print(checks: Sequence[Check], problems: int) -> None:
    area = ""
    for check in checks:
        if check.area != area:
            area = check.area
            echo(f"{_TITLES[area]}:")
        text = f": {REDACTOR.text(check.text)}" if check.text else ""
        mark = {"ok": "ok", "absent": "-", "note": "note", "problem": "PROBLEM"}[check.state]
        echo(f"  {mark:<7}  {visible_line(check.name)}{text}")
        if check.remedy is not None and check.state in ("note", "problem"):
            echo(f"  {'':<7}  -> {REDACTOR.text(check.remedy)}")
    if problems:
        echo(f"{problems} problem{'s' if problems > 1 else ''}: see -> for what to do")
    else:
        echo("Nothing is wrong.")


def _print_json(checks: Sequence[Check], problems: int) -> None:
    record: dict[str, Any] = {"version": VERSION, "ok": not problems, "problems": problems}
    record["checks"] = [{**each._asdict(), "text": REDACTOR.text(each.text)} for each in checks]
    sys.stdout.buffer.write(encode_record(record))
    sys.stdout.buffer.flush()
