"""`pinnace auth`: gives the program a key, takes it back, tells where each provider's key comes from.

A key comes in by stdin or a prompt without echo, never as an argument: others can see the arguments of a process. It
is shown by nothing. Providers of extensions may have logins instead (`extension_login`). Exit codes: 0 done; 1 it can't
be done, or the provider that `status` was asked about has no key; 2 usage error. Runs no command of a configuration
file; only a login uses the network.
"""

import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from pinnace_agent.resources.auth_file import LoginInTheWay, remove_entry, store_key, store_login
from pinnace_agent.resources.catalog import OFFLINE_PROVIDER, read_catalog
from pinnace_agent.resources.credentials import read_auth
from pinnace_agent.resources.file_lock import LockHeld
from pinnace_agent.resources.json_file import Edited
from pinnace_agent.resources.key_status import KeyStatus, key_status
from pinnace_agent.resources.logins import Login
from pinnace_agent.resources.paths import agent_dir
from pinnace_agent.resources.relaxed_json import ConfigurationFileError
from pinnace_agent.resources.values import Secret, legacy_variable
from pinnace_rpc.stdio import die_by
from pinnace_spec.wire import encode_record

# Far more than any key: a file that was piped in by mistake is not read to its end.
_MAX_KEY_BYTES: Final = 64 * 1024
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOURCES: Final[Mapping[str, str]] = {
    "auth.json": "key in auth.json",
    "models.json": "apiKey in models.json",
    "header": "header in models.json",
    "login": "login in auth.json",
}


def main(words: Sequence[str]) -> int:
    """Run `pinnace auth` with these words and return the exit code."""
    help_names = {"help_option_names": ["-h", "--help"]}
    group = click.Group("auth", commands=[_LOGIN, _LOGOUT, _STATUS], context_settings=help_names)
    group.help = "Keys of the models' providers, in auth.json."
    code: object = group.main(list(words), prog_name="pinnace auth", standalone_mode=False)
    return code if isinstance(code, int) else 0


def _login(provider: str, key_command: str | None, env: str | None, force: bool, extension: tuple[str, ...]) -> int:
    provider = _checked(provider)
    if key_command is not None and env is not None:
        raise click.UsageError("--key-command and --env are two ways to say the same thing: take one of them")
    is_known = provider in read_catalog(_folder() / "models.json").providers()
    if extension and (key_command is not None or env is not None):
        raise click.UsageError("-e logs in by an extension; --key-command and --env keep a key instead")
    if key_command is None and env is None:
        from pinnace_rpc.extension_login import extension_login

        if (login := extension_login(provider, extension, is_known=is_known)) is not None:
            return _keep_login(provider, login)
        if extension:
            raise click.ClickException(f"no extension that was named has logins for {provider}")
    if not is_known:
        click.echo(f"pinnace: there is no provider {provider} in the catalog, nor in models.json", err=True)
    path = _auth_file()
    if key_command is not None:
        if not key_command.strip():
            raise click.UsageError("--key-command takes a shell command")
        value, told = Secret(f"!{key_command}"), f"{path} names a command for its key"
    elif env is not None:
        if not _VARIABLE_NAME.fullmatch(env):
            # Not repeated: it may be the key itself.
            raise click.UsageError("--env takes the name of a variable")
        unset = "" if os.environ.get(env) else ", which is not set now"
        value, told = Secret(f"${env}"), f"{path} names the variable {env} for its key{unset}"
    else:
        value, told = _as_written(_read_key(provider)), f"its key is kept in {path}"
    edited = _edited(path, provider, lambda: store_key(path, provider, value, replaces_login=force))
    click.echo(f"{provider}: {told}")
    _tell_tightened(path, edited)
    return 0


def _keep_login(provider: str, login: Login) -> int:
    path = _auth_file()
    edited = _edited(path, provider, lambda: store_login(path, provider, login))
    click.echo(f"{provider}: logged in; the login is kept in {path}")
    _tell_tightened(path, edited)
    return 0


def _logout(provider: str, force: bool) -> int:
    provider = _checked(provider)
    path = _auth_file()
    edited = _edited(path, provider, lambda: remove_entry(path, provider, removes_login=force))
    if not edited.is_changed:
        raise click.ClickException(f"nothing is stored for {provider} in {path}")
    click.echo(f"{provider}: nothing is stored any more in {path}")
    _tell_tightened(path, edited)
    left = _statuses([provider])[0]
    if left.is_usable:
        click.echo(f"pinnace: {provider} still has a key: {_where(left)}", err=True)
    return 0


def _status(provider: str | None, as_json: bool) -> int:
    if provider is None:
        statuses = _statuses(None)
        shown = [status for status in statuses if status.source is not None]
    else:
        statuses = shown = _statuses([_checked(provider)])
    if as_json:
        for status in statuses:
            sys.stdout.buffer.write(encode_record(_record(status)))
        sys.stdout.buffer.flush()
    else:
        width = max((len(status.provider) for status in shown), default=0)
        for status in shown:
            click.echo(f"{status.provider:<{width}}  {_where(status)}")
        if len(shown) < len(statuses):
            click.echo(f"No key: {len(statuses) - len(shown)} other providers")
    return 0 if provider is None or statuses[0].is_usable else 1


_PROVIDER: Final = "provider"
_FORCE: Final = "A login gives way."
_LOGIN: Final = click.Command(
    "login",
    callback=_login,
    params=[
        click.Argument([_PROVIDER]),
        click.Option(["--key-command"], metavar="COMMAND", help="Keep a shell command that prints the key."),
        click.Option(["--env"], metavar="NAME", help="Keep the name of a variable that holds the key."),
        click.Option(["--force"], is_flag=True, help=_FORCE),
        click.Option(
            ["-e", "--extension"],
            multiple=True,
            metavar="PATH",
            help="Log in by an extension that registers the provider with logins.",
        ),
    ],
    help="Keep a key for a provider, read from stdin or asked for without echo, or log in to one of an extension.",
)
_LOGOUT: Final = click.Command(
    "logout",
    callback=_logout,
    params=[click.Argument([_PROVIDER]), click.Option(["--force"], is_flag=True, help=_FORCE)],
    help="Forget what is stored for a provider.",
)
_STATUS: Final = click.Command(
    "status",
    callback=_status,
    params=[
        click.Argument([_PROVIDER], required=False),
        click.Option(["--json", "as_json"], is_flag=True, help="One JSON object a line, for every provider."),
    ],
    help="Tell where each provider's key comes from. With a provider: exit code 1 if it has none.",
)


def _folder() -> Path:
    return agent_dir(os.environ)


def _auth_file() -> Path:
    return _folder() / "auth.json"


def _checked(provider: str) -> str:
    provider = provider.strip()
    if not provider or not provider.isprintable():
        raise click.UsageError("PROVIDER is the id of a provider, such as openai")
    if provider == OFFLINE_PROVIDER:
        raise click.ClickException(f"{provider} needs no key")
    return provider


def _read_key(provider: str) -> str:
    if sys.stdin is None:
        raise click.ClickException("stdin is closed: pipe the key in, or give it at a terminal")
    key = _ask(provider) if sys.stdin.isatty() else _read_piped()
    if not key:
        raise click.ClickException("there is no key: nothing was given")
    if not (key.isascii() and key.isprintable()):
        raise click.ClickException("a key is one line of printable ASCII characters; nothing was kept")
    if legacy_variable(Secret(key), os.environ).reveal() != key:
        raise click.ClickException("a variable of that very name is set: to mean the variable, use --env")
    return key


def _ask(provider: str) -> str:
    from getpass import GetPassWarning, getpass

    with warnings.catch_warnings():
        # It would go on with an echo.
        warnings.simplefilter("error", GetPassWarning)
        # An interrupt must leave a terminal that shows what is typed.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return getpass(f"Key for {provider} (not shown): ").strip()
        except GetPassWarning:
            raise click.ClickException("this terminal would show the key: pipe it in") from None
        except EOFError:
            return ""
        except KeyboardInterrupt:
            die_by(signal.SIGINT)


def _read_piped() -> str:
    data = sys.stdin.buffer.read(_MAX_KEY_BYTES + 1)
    if len(data) > _MAX_KEY_BYTES:
        raise click.ClickException("that is too long for a key; nothing was kept")
    return data.decode("utf-8", "replace").strip()


def _as_written(key: str) -> Secret:
    """Write a key so that it is read as it is: no variable, no command."""
    text = key.replace("$", "$$")
    return Secret(f"${text}" if text.startswith("!") else text)


def _edited(path: Path, provider: str, edit: Callable[[], Edited]) -> Edited:
    try:
        return edit()
    except LoginInTheWay:
        text = f"{provider} has a login in {path}, which would be lost: --force does it all the same"
    except ConfigurationFileError as error:
        text = f"{path}: {error} (nothing was changed)"
    except LockHeld as error:
        text = str(error)
    except OSError as error:
        text = f"{error.filename or path}: {error.strerror or error}"
    raise click.ClickException(text)


def _tell_tightened(path: Path, edited: Edited) -> None:
    if edited.is_tightened:
        click.echo(f"pinnace: others could read {path}; its mode is 600 now", err=True)


def _statuses(providers: Iterable[str] | None) -> list[KeyStatus]:
    catalog = read_catalog(_folder() / "models.json")
    auth = read_auth(_auth_file())
    for diagnostic in (*catalog.diagnostics, *auth.diagnostics):
        click.echo(f"pinnace: {diagnostic}", err=True)
    names = dict.fromkeys([*catalog.providers(), *auth.entries]) if providers is None else providers
    return [key_status(provider, catalog, auth, os.environ) for provider in names]


def _where(status: KeyStatus) -> str:
    if status.source is None:
        return "no key"
    where = f"variable {status.variable}" if status.source == "variable" else _SOURCES[status.source]
    if status.needs_command:
        return f"{where}: what a command prints, which was not run"
    return f"{where}: {status.problem}" if status.problem is not None else where


def _record(status: KeyStatus) -> Mapping[str, object]:
    record: dict[str, object] = {
        "provider": status.provider,
        "source": status.source,
        "isUsable": status.is_usable,
        "needsCommand": status.needs_command,
    }
    if status.variable is not None:
        record["variable"] = status.variable
    if status.problem is not None:
        record["problem"] = status.problem
    return record
