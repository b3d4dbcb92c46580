"""`pinnace auth`: stores a key, removes it, or lists the source of each provider's key.

A key is read from stdin or a prompt without echo, never from an argument: other users can see the arguments of a
process. No command shows it. Providers of extensions may have logins instead (`extension_login`). Exit codes: 0 done; 1
it can't be done, or the provider that `status` was asked about has no key; 2 usage error. Runs no command of a
configuration file; only a login uses the network.
"""

import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pinnace_agent.config.credentials.auth_file import LoginInTheWay, remove_entry, store_key, store_login
from pinnace_agent.config.credentials.credentials import read_auth
from pinnace_agent.config.credentials.key_status import KeyStatus, key_status, login_kinds, status_record
from pinnace_agent.config.credentials.logins import Login, is_token
from pinnace_agent.config.credentials.provider_settings import (
    SettingWrong,
    asked_settings,
    needs_key,
    read_settings,
    set_settings,
)
from pinnace_agent.config.credentials.vendor_logins import has_login
from pinnace_agent.config.models.builtin import OFFLINE_PROVIDER, key_variables, unset_variables
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.values import legacy_variable, literal
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.json_file import JsonEdit
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.files.relaxed_json import ConfigurationFileError
from pinnace_agent.redaction.policy import Secret
from pinnace_rpc.options.extension_hints import may_find_extensions
from pinnace_rpc.options.parser import Argument, CommandError, Option, Subcommand, UsageError, parse, refuse_subcommand
from pinnace_rpc.options.shown.tables import JSON
from pinnace_rpc.options.streams import echo
from pinnace_rpc.server.stdio import die_by
from pinnace_spec.nearest import did_you_mean
from pinnace_spec.records.messages import LoginKind
from pinnace_spec.wire.json_text import encode_record

# Far more than any key: a file that was piped in by mistake is not read to its end.
_MAX_KEY_BYTES: Final = 64 * 1024
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITH_CODES: Final = "amazon-bedrock"
# As wide as the longest id of the built-in catalog.
_WIDTH: Final = 26
_SOURCES: Final[Mapping[str, str]] = {
    "auth.json": "key in auth.json",
    "models.json": "apiKey in models.json",
    "header": "header in models.json",
    "login": "login in auth.json",
    "google": "application default credentials",
}


def main(words: Sequence[str]) -> int:
    """Run `pinnace auth` with these words and return the exit code."""
    if not words:
        from pinnace_rpc.options.help import page

        raise UsageError(f"auth requires a command\n\n{page(_GROUP)}")
    name, *rest = words
    if name.startswith("-"):
        parse(_GROUP, [name])
    for subcommand, run in ((_LOGIN, _login), (_LOGOUT, _logout), (_STATUS, _status)):
        if subcommand.name.endswith(f" {name}"):
            return run(**parse(subcommand, rest))
    refuse_subcommand(name, [each.name.rpartition(" ")[2] for each in _GROUP.subcommands])


def login(provider: str, extensions: Sequence[str] = ()) -> int:
    """Log in with a code or in a browser where the provider has that, else store a key, and return the exit code.

    Args:
        provider: Whose; empty: it is asked for, at a terminal.
        extensions: Those of the command line, whose own logins are used for their providers.

    Raises:
        CommandError: It can't be done.
    """
    if not provider:
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError("--login requires the id of a provider, such as openai, where no terminal can ask for it")
        echo("The id of a provider, such as openai:")
        provider = sys.stdin.readline()
    provider = _checked(provider)
    if extensions:
        from pinnace_rpc.cli.commands.extension_login import providers_with_logins

        if provider in providers_with_logins(extensions):
            return _login(provider, None, None, False, False, (), False, tuple(extensions))
    way = _wanted_way(provider)
    return _login(provider, None, None, way == "device-code", way == "browser", (), False, ())


_WAYS: Final[Mapping[LoginKind, str]] = {
    "device-code": "log in with a code in a browser",
    "browser": "log in in a browser on this machine",
    "key": "store a key",
}
"""In the order in which they are proposed."""


def _wanted_way(provider: str) -> LoginKind:
    """Return how to log in; of a provider that has several ways a terminal asks its user, first of all with a code."""
    offered = login_kinds(provider)
    kinds: list[LoginKind] = [each for each in _WAYS if each in offered]
    if sys.stdin is None or not sys.stdin.isatty():
        return "key" if "key" in kinds else kinds[0]  # a key is piped in
    if len(kinds) == 1:
        return kinds[0]
    others = " or ".join(f"enter {each} to {_WAYS[each]}" for each in kinds[1:])
    echo(f"{provider}: press Enter to {_WAYS[kinds[0]]}, or {others}:")
    said = sys.stdin.readline().strip().lower()
    return kinds[next((place for place, each in enumerate(kinds) if each == said), 0)]


def _login(
    provider: str | None,
    key_command: str | None,
    env: str | None,
    device_code: bool,
    browser: bool,
    settings: tuple[str, ...],
    force: bool,
    extension: tuple[str, ...],
) -> int:
    if provider is None:
        rows = [_row(status, 4) for status in _statuses(None)]
        raise UsageError(
            "\n".join(["auth login requires the id of a provider, one of these or of models.json:", *rows])
        )
    provider = _checked(provider)
    if key_command is not None and env is not None:
        raise UsageError("--key-command and --env exclude each other: use one of them")
    providers = read_catalog(_folder() / "models.json").providers()
    is_known = provider in providers
    given = _read_settings(provider, settings)
    if given and (device_code or browser or extension):
        raise UsageError("--set stores a setting beside a key; it can't be combined with a login")
    if device_code or browser:
        if (device_code and browser) or extension or key_command is not None or env is not None:
            ways = ("--device-code", "--browser")[:: 1 if device_code else -1]
            raise UsageError(f"{ways[0]} can't be combined with {ways[1]}, -e, --key-command and --env")
        from pinnace_rpc.cli.commands.provider_login import browser_login, device_login

        log_in = device_login if device_code else browser_login
        return _keep_login(provider, log_in(provider, _folder()))
    if extension and (key_command is not None or env is not None):
        raise UsageError("-e logs in with an extension; it can't be combined with --key-command and --env")
    if key_command is None and env is None:
        from pinnace_rpc.cli.commands.extension_login import extension_login

        if (login := extension_login(provider, extension, is_known=is_known)) is not None:
            return _keep_login(provider, login)
        if extension:
            raise CommandError(f"none of the named extensions has logins for {provider}")
    if not is_known:
        hint = did_you_mean(provider, providers)
        echo(f"pinnace: warning: no provider {provider} in the catalog or in models.json{hint}", is_error=True)
    path = _auth_file()
    value, outcome = _given_key(provider, key_command, env, path)
    variables = {**_asked_settings(provider, given), **given}
    if value is None and not variables:
        if provider == _WITH_CODES and _enter_codes(provider):
            return 0
        raise CommandError("no key was given" if needs_key(provider) else "neither a key nor a setting was given")
    edited = _edited(
        path, provider, lambda: store_key(path, provider, value, replaces_login=force, variables=variables)
    )
    echo(f"{provider}: {outcome}")
    if missing := _missing_variables(provider):
        echo(f"pinnace: {provider} also needs {' and '.join(missing)} in the environment", is_error=True)
    _report_tightened(path, edited)
    if provider == _WITH_CODES and value is None:
        _enter_codes(provider)
    return 0


def _enter_codes(provider: str) -> int:
    """Ask for the codes that a provider needs beside its settings; return how many there were."""
    from pinnace_rpc.cli.commands.aws_codes import enter_codes  # it imports the HTTP client

    stored = read_auth(_auth_file()).entries.get(provider)
    return enter_codes({} if stored is None else stored.variables())


def _given_key(provider: str, key_command: str | None, env: str | None, path: Path) -> tuple[Secret | None, str]:
    """Return a key as it is stored, and what to report; None: the provider needs none, and none was given."""
    if key_command is not None:
        if not key_command.strip():
            raise UsageError("--key-command takes a shell command")
        return Secret(f"!{key_command}"), f"{path} names a command for its key"
    if env is not None:
        if not _VARIABLE_NAME.fullmatch(env):
            # Not repeated: it may be the key itself.
            raise UsageError("--env takes the name of a variable")
        unset = "" if os.environ.get(env) else ", which is not set now"
        return Secret(f"${env}"), f"{path} names the variable {env} for its key{unset}"
    if key := _read_key(provider):
        return literal(Secret(key)), f"its key is stored in {path}"
    return None, f"its settings are stored in {path}"


def _missing_variables(provider: str) -> list[str]:
    """Return the variables in the provider's address that nothing sets."""
    if read_catalog(_folder() / "models.json").has_own_address(provider):
        return []
    stored = read_auth(_auth_file()).entries.get(provider)
    return unset_variables(provider, {**os.environ, **({} if stored is None else stored.variables())})


def _asked_settings(provider: str, given: Mapping[str, str]) -> dict[str, str]:
    """Ask a terminal for the settings of a provider that nothing sets. An empty line leaves one out."""
    if sys.stdin is None or not sys.stdin.isatty() or read_catalog(_folder() / "models.json").has_own_address(provider):
        return {}
    stored = read_auth(_auth_file()).entries.get(provider)
    env = {**os.environ, **({} if stored is None else stored.variables()), **given}
    are_set = set_settings(provider, env)
    found: dict[str, str] = {}
    for setting in asked_settings(provider, are_set):
        echo(f"{setting.name} of {provider}, {setting.about} (none: Enter):")
        if value := sys.stdin.readline().strip():
            found |= _read_settings(provider, [f"{setting.name}={value}"])
    return found


def _read_settings(provider: str, words: Sequence[str]) -> dict[str, str]:
    try:
        return read_settings(provider, words)
    except SettingWrong as error:
        raise CommandError(f"{error}; nothing was stored") from None


def _keep_login(provider: str, login: Login) -> int:
    path = _auth_file()
    edited = _edited(path, provider, lambda: store_login(path, provider, login))
    echo(f"{provider}: logged in; the login is stored in {path}")
    _report_tightened(path, edited)
    return 0


def _logout(provider: str, force: bool) -> int:
    provider = _checked(provider)
    path = _auth_file()
    removes = force or has_login(provider)
    edited = _edited(path, provider, lambda: remove_entry(path, provider, removes_login=removes))
    if not edited.is_changed:
        raise CommandError(f"nothing is stored for {provider} in {path}")
    echo(f"{provider}: nothing is stored any more in {path}")
    _report_tightened(path, edited)
    left = _statuses([provider])[0]
    if left.is_usable:
        echo(f"pinnace: {provider} still has a key: {_where(left)}", is_error=True)
    return 0


def _status(provider: str | None, extension: tuple[str, ...], as_json: bool) -> int:
    own: Sequence[str] = ()
    is_known = provider is not None and provider in read_catalog(_folder() / "models.json").providers()
    if extension or (not is_known and may_find_extensions(os.environ)):
        from pinnace_rpc.cli.commands.extension_login import providers_with_logins

        own = providers_with_logins(extension)
    statuses = _statuses(None if provider is None else [_checked(provider)], own)
    if as_json:
        for status in statuses:
            sys.stdout.buffer.write(encode_record(status_record(status)))
        sys.stdout.buffer.flush()
    else:
        stored = [status for status in statuses if status.source is not None]
        missing = [status for status in statuses if status.source is None]
        for status in stored:
            echo(f"{status.provider:<{_WIDTH}}  {_where(status)}")
        if missing:
            if provider is None:
                echo("No key (variable that may hold one, or: pinnace auth login PROVIDER):")
            for status in missing:
                echo(_row(status, 2))
    return 0 if provider is None or statuses[0].is_usable else 1


_PROVIDER: Final = Argument("provider", "PROVIDER")
_LOGIN: Final = Subcommand(
    "pinnace auth login",
    "Store a key of a provider, from stdin or typed without echo. With --device-code, --browser or -e, log in instead.",
    [
        Option(("--key-command",), "key_command", "Store a shell command that prints the key.", "COMMAND"),
        Option(("--env",), "env", "Store the name of a variable that holds the key.", "NAME"),
        Option(
            ("--device-code",),
            "device_code",
            "Log in with a code that is entered in a browser.",
        ),
        Option(
            ("--browser",),
            "browser",
            "Log in in a browser that comes back to this machine, or whose last address is pasted.",
        ),
        Option(
            ("--set",),
            "settings",
            "Also store a setting of the provider, such as its account or region.",
            "NAME=VALUE",
            repeats=True,
        ),
        Option(("--force",), "force", "Also replace a login."),
        Option(
            ("-e", "--extension"),
            "extension",
            "Log in with an extension that registers the provider with logins.",
            "PATH",
            repeats=True,
        ),
    ],
    [Argument("provider", "PROVIDER", is_required=False)],  # its absence has an answer of its own
)
_LOGOUT: Final = Subcommand(
    "pinnace auth logout",
    "Remove the stored key or login of a provider.",
    [Option(("--force",), "force", "Also remove a login that only pi makes.")],
    [_PROVIDER],
)
_STATUS: Final = Subcommand(
    "pinnace auth status",
    "Show where each provider's key comes from. With a provider: exit code 1 if it has none.",
    [
        Option(
            ("-e", "--extension"),
            "extension",
            "Show the providers that this extension registers with logins, in place of installed ones.",
            "PATH",
            repeats=True,
        ),
        JSON,
    ],
    [Argument("provider", "[PROVIDER]", is_required=False)],
)
_GROUP: Final = Subcommand(
    "pinnace auth", "Manage the keys of model providers in auth.json.", subcommands=[_LOGIN, _LOGOUT, _STATUS]
)


def _folder() -> Path:
    return agent_dir(os.environ)


def _auth_file() -> Path:
    return _folder() / "auth.json"


def _checked(provider: str) -> str:
    provider = provider.strip()
    if not provider or not provider.isprintable():
        raise UsageError("PROVIDER is the id of a provider, such as openai")
    if provider == OFFLINE_PROVIDER:
        raise CommandError(f"{provider} needs no key")
    return provider


def _read_key(provider: str) -> str:
    if sys.stdin is None:
        raise CommandError("stdin is closed: pipe the key in, or type it at a terminal")
    key = _ask(provider) if sys.stdin.isatty() else _read_piped()
    if not key:
        if needs_key(provider):
            raise CommandError("no key was given")
        return ""
    if not is_token(key):
        raise CommandError("a key is one line of printable ASCII characters; nothing was stored")
    if legacy_variable(Secret(key), os.environ).reveal() != key:
        raise CommandError("this is the name of a variable that is set: to store the variable's name, use --env")
    return key


def _ask(provider: str) -> str:
    from getpass import GetPassWarning, getpass

    with warnings.catch_warnings():
        # It would continue with an echo.
        warnings.simplefilter("error", GetPassWarning)
        # An interrupt must restore the echo of the terminal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            none = "" if needs_key(provider) else "; none: Enter"
            return getpass(f"Key for {provider} (not shown{none}): ").strip()
        except GetPassWarning:
            raise CommandError("this terminal would show the key: pipe it in") from None
        except EOFError:
            return ""
        except KeyboardInterrupt:
            die_by(signal.SIGINT)


def _read_piped() -> str:
    data = sys.stdin.buffer.read(_MAX_KEY_BYTES + 1)
    if len(data) > _MAX_KEY_BYTES:
        raise CommandError("the input is too long for a key; nothing was stored")
    return data.decode("utf-8", "replace").strip()


def _edited(path: Path, provider: str, edit: Callable[[], JsonEdit]) -> JsonEdit:
    try:
        return edit()
    except LoginInTheWay:
        text = f"{provider} has a login in {path}, which would be lost; --force replaces it"
    except ConfigurationFileError as error:
        text = f"{path}: {error} (nothing was changed)"
    except LockHeld as error:
        text = str(error)
    except OSError as error:
        text = f"{error.filename or path}: {error.strerror or error}"
    raise CommandError(text)


def _report_tightened(path: Path, edited: JsonEdit) -> None:
    if edited.is_tightened:
        echo(f"pinnace: others could read {path}; its mode is 600 now", is_error=True)


def _statuses(providers: Iterable[str] | None, own: Sequence[str] = ()) -> list[KeyStatus]:
    """Return the state of these providers, or of all.

    Args:
        providers: Their ids; None: those of the catalog, of auth.json, and `own`.
        own: Those whose logins extensions use.
    """
    catalog = read_catalog(_folder() / "models.json")
    auth = read_auth(_auth_file())
    for diagnostic in (*catalog.diagnostics, *auth.diagnostics):
        echo(f"pinnace: {diagnostic}", is_error=True)
    names = dict.fromkeys([*catalog.providers(), *auth.entries, *own]) if providers is None else providers
    return [
        KeyStatus(name, "login", is_usable=True)
        if name in own and name in auth.entries and auth.entries[name].login is not None
        else key_status(name, catalog, auth, os.environ)
        for name in names
    ]


def _where(status: KeyStatus) -> str:
    if status.source is None:
        return "no key"
    where = _SOURCES.get(status.source, "")
    if status.variable is not None:
        where = f"variable {status.variable}" if status.source == "variable" else f"{status.variable} in auth.json"
    if status.needs_command:
        return f"{where}: what a command prints (it was not run)"
    return f"{where}: {status.problem}" if status.problem is not None else where


def _row(status: KeyStatus, indent: int) -> str:
    """Return a line about a provider: its key, or the variables that may hold one."""
    variables = " or ".join(reversed(key_variables(status.provider)))
    where = _where(status) if status.source is not None else variables or "no variable"
    return f"{' ' * indent}{status.provider:<{_WIDTH}}  {where}"
