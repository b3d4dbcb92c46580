"""`pinnace mcp`: lists the configured MCP servers, tries one, adds one, removes one, signs in to one, and out.

The files are the original's: `mcp.json` of the agent folder, and of a trusted project. `list` and `test` start the
servers that are enabled, as a session would; no environment and no header is shown. Exit codes: 0 done; 1 an entry is
invalid, an enabled server can't be connected, or it can't be done; 2 usage error.
"""

import json
import os
import re
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.server_entries import InvalidEntry, Scope, read_entry
from pinnace_agent.core.visible_text import visible_line
from pinnace_agent.files.file_lock import LockHeld
from pinnace_agent.files.json_file import FileForm, edit_object, pretty
from pinnace_agent.files.paths import agent_dir
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_object
from pinnace_agent.mcp.configuration import configured, project_file, project_servers, user_file
from pinnace_agent.mcp.definitions import first_line, tool_names
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.shell.environment import shell_environment
from pinnace_rpc.options.parser import Argument, CommandError, Option, Subcommand, UsageError, parse, refuse_subcommand
from pinnace_rpc.options.release import program_version
from pinnace_rpc.options.shown.tables import JSON, echo_json
from pinnace_rpc.options.streams import echo
from pinnace_spec.nearest import did_you_mean

if TYPE_CHECKING:  # loaded with the first server that is connected
    from pinnace_agent.config.configuration import Configuration
    from pinnace_agent.config.server_entries import ServerEntry
    from pinnace_agent.core.ports.confinement import SandboxReport
    from pinnace_agent.mcp.configuration import ConfiguredServers
    from pinnace_agent.mcp.launching import Environment
    from pinnace_agent.mcp.ports import ServerLink
    from pinnace_agent.mcp.prompts import ServerPrompt
    from pinnace_agent.mcp.server import Server

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOCAL: Final = Option(("--local", "-l"), "is_local", "Use .pi/mcp.json of this folder instead of the user's file.")
_LIST: Final = Subcommand("pinnace mcp list", "Connect the enabled servers, and show their state and tools.", [JSON])
_TEST: Final = Subcommand(
    "pinnace mcp test",
    "Connect one server and show its tools. Also shows the time it took, and what can't be used.",
    [JSON, Option(("--call",), "call", "Call a tool, with the ARGUMENTS.", "TOOL")],
    [Argument("name", "NAME"), Argument("arguments", "[ARGUMENTS]", is_required=False)],
)
_ADD: Final = Subcommand(
    "pinnace mcp add",
    "Add or replace a server: a program after --, or --url.",
    [
        _LOCAL,
        Option(("--url",), "url", "The address of a server over streamable HTTP.", "URL"),
        Option(("--env",), "env", "A variable of the program. May be repeated.", "NAME=VALUE", repeats=True),
        Option(("--cwd",), "cwd", "The folder of the program.", "DIR"),
        Option(("--header",), "header", "A header of every request. May be repeated.", "NAME=VALUE", repeats=True),
        Option(("--bearer-token-env-var",), "bearer", "Send the value of a variable as a bearer token.", "NAME"),
        Option(("--oauth-client-id",), "clientId", "The id of an OAuth client that you have registered.", "ID"),
        Option(("--oauth-client-secret",), "clientSecret", "Its secret: ${NAME} or !COMMAND.", "SECRET"),
        Option(("--oauth-callback-port",), "callbackPort", "The local port of the sign-in's redirect.", "PORT"),
        Option(("--oauth-client-name",), "clientName", "The name under which pinnace registers itself.", "NAME"),
        Option(("--oauth-client-registration",), "clientRegistration", "How it registers: auto or dcr.", "MODE"),
        Option(
            ("--exposure",),
            "exposure",
            "hidden keeps the tools from the model; codemode, deferred and direct declare them.",
            "MODE",
        ),
        Option(("--description",), "description", "What the server offers, for the model.", "TEXT"),
    ],
    [Argument("name", "NAME"), Argument("command", "[-- COMMAND [ARG ...]]", is_required=False, repeats=True)],
)
_REMOVE: Final = Subcommand("pinnace mcp remove", "Remove a server.", [_LOCAL], [Argument("name", "NAME")])
_LOGIN: Final = Subcommand(
    "pinnace mcp login",
    "Sign in to a server over HTTP. Prints the address to open; the address of the redirect may be pasted.",
    [
        Option(("--local", "-l"), "is_local", "The server must be one of .pi/mcp.json of this folder."),
        Option(("--timeout",), "timeout", "The limit of the whole sign-in. Default: 300.", "SECONDS"),
    ],
    [Argument("name", "NAME")],
)
_LOGOUT: Final = Subcommand(
    "pinnace mcp logout",
    "Remove the stored tokens of a sign-in.",
    [Option(("--local", "-l"), "is_local", "The server must be one of .pi/mcp.json of this folder.")],
    [Argument("name", "NAME")],
)
_GROUP: Final = Subcommand(
    "pinnace mcp", "Manage MCP servers.", subcommands=[_LIST, _TEST, _ADD, _REMOVE, _LOGIN, _LOGOUT]
)


def main(words: Sequence[str]) -> int:
    """Run `pinnace mcp` with these words and return the exit code."""
    if not words:
        from pinnace_rpc.options.help import page

        raise UsageError(f"mcp requires a command\n\n{page(_GROUP)}")
    name, *rest = words
    if name.startswith("-"):
        parse(_GROUP, [name])
    runs = (_list, _test, _add, _remove, _login, _logout)
    for subcommand, run in zip(_GROUP.subcommands, runs, strict=True):
        if subcommand.name.endswith(f" {name}"):
            try:
                return run(parse(subcommand, _separated(rest) if subcommand is _ADD else rest))
            except ConfigurationFileError as error:
                from pinnace_agent.mcp.oauth.credentials import FILE_NAME  # the only one whose name is not said yet

                raise CommandError(f"{agent_dir(os.environ) / FILE_NAME}: {error}") from None
            except LockHeld as error:
                raise CommandError(str(error)) from None
            except OSError as error:
                raise CommandError(f"{error.filename or 'mcp.json'}: {error.strerror or error}") from None
    refuse_subcommand(name, [each.name.rpartition(" ")[2] for each in _GROUP.subcommands])


def _separated(words: Sequence[str]) -> Sequence[str]:
    """Return the words of `add` with `--` before the program, where it is left out: the original needs none."""
    flags = {name for option in _ADD.options for name in option.names if not option.takes_value()}
    place = count = 0
    while place < len(words) and words[place] != "--":
        word = words[place]
        if word.startswith("-"):
            place += 1 if word in flags or "=" in word else 2
            continue
        count += 1
        if count == 2:  # behind the name
            return [*words[:place], "--", *words[place:]]
        place += 1
    return words


def _list(given: Mapping[str, object]) -> int:
    found = _found()
    tried = _connected(found, None)
    if given["as_json"]:
        echo_json({"servers": [_record(each) for each in tried], "errors": found.errors})
    else:
        for each in tried:
            _show(each)
        for error in found.errors:
            echo(f"error: {visible_line(error)}")
        if not tried and not found.errors:
            echo(f"No MCP servers. Add one: pinnace mcp add NAME -- COMMAND, or to {user_file(os.environ)}")
    for line in found.overridden:
        echo(f"pinnace: overridden: {visible_line(line)}", is_error=True)
    is_good = all(each.server.state in ("connected", "disabled") for each in tried)
    return 0 if is_good and not found.errors else 1


def _test(given: Mapping[str, object]) -> int:
    name, call, text = str(given["name"]), given["call"], given["arguments"]
    found = _found()
    _entry(found, name)
    arguments: object = {}
    if text is not None:
        if call is None:
            raise UsageError("ARGUMENTS are those of --call TOOL")
        try:
            arguments = json.loads(str(text))
        except ValueError:
            arguments = None
        if not is_object(arguments):
            raise UsageError("ARGUMENTS must be a JSON object")
    results: list[Mapping[str, object]] = []
    (tried,) = _connected(found, name, None if call is None else (str(call), arguments, results))
    server = tried.server
    record = {**_record(tried), "seconds": round(tried.connecting_s, 3)}
    if results:
        record |= {"callSeconds": round(tried.call_s, 3), "result": results[0]}
    if given["as_json"]:
        echo(REDACTOR.text(json.dumps(record, ensure_ascii=False)))
    else:
        _show(tried)
        for line in REDACTOR.text(server.details).splitlines():
            echo(f"    {visible_line(line)}")
        echo(f"  connecting and listing took {tried.connecting_s:.2f} s")
        for result in results:
            echo(f"  the call took {tried.call_s:.2f} s")
            echo(REDACTOR.text(json.dumps(result, indent=2, ensure_ascii=False)))
    failed = any("error" in result or result.get("isError") is True for result in results)
    return 0 if server.state == "connected" and not failed else 1


def _add(given: Mapping[str, object]) -> int:
    name, url = str(given["name"]), given["url"]
    command = [str(word) for word in _words(given["command"])]
    if (url is None) == (not command):
        raise UsageError("add takes either --url URL or -- COMMAND [ARG ...]")
    oauth = _oauth(given)
    if oauth and url is None:
        raise UsageError("--oauth options are for servers with --url")
    misplaced = ("env", "cwd") if url is not None else ("header", "bearer")
    for field in misplaced:
        if given[field]:
            kind = "programs" if url is not None else "servers with --url"
            raise UsageError(f"--{field if field != 'bearer' else 'bearer-token-env-var'} is for {kind}")
    entry: dict[str, object] = {}
    if url is not None:
        headers = _pairs("header", given["header"])
        if given["bearer"] is not None:
            if not _VARIABLE.fullmatch(str(given["bearer"])):
                raise UsageError("--bearer-token-env-var must be the name of a variable")
            headers["Authorization"] = f"Bearer ${{{given['bearer']}}}"
        entry |= {"url": url, **({"headers": headers} if headers else {}), **({"oauth": oauth} if oauth else {})}
    else:
        program, *arguments = command
        variables = _pairs("env", given["env"])
        entry |= {"command": program, **({"args": arguments} if arguments else {})}
        entry |= {**({"env": variables} if variables else {}), **({"cwd": given["cwd"]} if given["cwd"] else {})}
    entry |= {key: given[key] for key in ("exposure", "description") if given[key] is not None}
    is_local = given["is_local"] is True
    path = project_file(Path.cwd()) if is_local else user_file(os.environ)
    scope: Scope = "project" if is_local else "user"
    try:
        read_entry(name, entry, scope, str(path))
    except InvalidEntry as error:
        raise CommandError(str(error)) from None

    said = "added to"

    def change(content: JsonObject) -> JsonObject:
        nonlocal said
        servers = _servers_of(content)
        said = "replaced in" if name in servers else "added to"
        return {**content, "mcpServers": {**servers, name: entry}}

    _edit(path, change)
    echo(f"{name}: {said} {path}")
    if is_local and not load_configuration(os.environ, Path.cwd()).is_project_trusted:
        echo("pinnace: the project is not trusted, so that no session uses it (pinnace trust)", is_error=True)
    if any("$" not in str(value) for value in _secret_values(entry)):
        echo("pinnace: warning: a value is in the file as it is; name a variable instead: ${NAME}", is_error=True)
    return 0


def _oauth(given: Mapping[str, object]) -> dict[str, object]:
    names = ("clientId", "clientSecret", "callbackPort", "clientName", "clientRegistration")
    found: dict[str, object] = {name: given[name] for name in names if given[name] is not None}
    port = str(found.get("callbackPort", ""))
    if port.isdecimal():  # what is no number is refused with the entry
        found["callbackPort"] = int(port)
    return found


def _remove(given: Mapping[str, object]) -> int:
    name = str(given["name"])
    path = project_file(Path.cwd()) if given["is_local"] else user_file(os.environ)
    removed: list[object] = []
    known: list[str] = []

    def change(content: JsonObject) -> JsonObject:
        servers = dict(_servers_of(content))
        known[:] = servers
        removed[:] = [servers.pop(name)] if name in servers else []
        return {**content, "mcpServers": servers} if removed else content

    if path.exists():
        _edit(path, change)
    if not removed:
        raise CommandError(f"{path} has no server {name}{did_you_mean(name, known)}")
    echo(f"{name}: removed from {path}")
    return 0


def _edit(path: Path, change: Callable[[JsonObject], JsonObject]) -> None:
    try:
        edit_object(path, change, FileForm(pretty))
    except ConfigurationFileError as error:
        raise CommandError(f"{path}: {error}") from None


def _login(given: Mapping[str, object]) -> int:
    import trio

    from pinnace_agent.mcp.oauth.sign_in import LIMIT_S, sign_in_to
    from pinnace_agent.mcp.opening import credentials_of, is_installed, missing
    from pinnace_agent.mcp.ports import SignInFailed

    limit_s = _seconds(given["timeout"], LIMIT_S)
    entry = _to_sign_in(given, "login")
    if not is_installed():
        raise CommandError(missing())
    environment = _environment()

    async def run() -> None:
        async with _served([entry], environment) as (server,):
            if server.state == "connected":
                echo(f'Already signed in to MCP server "{entry.name}" ({len(server.tools)} tools).')
                return
            if server.challenge is None:
                raise CommandError(REDACTOR.text(f'MCP server "{entry.name}" failed to connect: {server.error}'))
            user = _Terminal(entry.name)
            try:
                await sign_in_to(
                    entry, environment, credentials_of(entry, environment), server.challenge, user, limit_s
                )
            except SignInFailed as error:
                raise CommandError(REDACTOR.text(f'Sign-in to MCP server "{entry.name}" failed: {error}')) from None
            if await server.connect_anew() != "connected":
                raise CommandError(REDACTOR.text(f"Signed in, but {server.error}"))
            echo(f'Signed in to MCP server "{entry.name}" ({len(server.tools)} tools).')

    _run(trio.run, run)
    return 0


def _logout(given: Mapping[str, object]) -> int:
    from pinnace_agent.mcp.opening import credentials_of

    entry = _to_sign_in(given, "logout")
    is_removed = credentials_of(entry, _environment(starts_servers=False)).remove()
    said = "Signed out of" if is_removed else "No stored credentials for"
    echo(f'{said} MCP server "{entry.name}".')
    return 0


def _to_sign_in(given: Mapping[str, object], command: str) -> "ServerEntry":
    """Return the entry of a server that a user signs in to."""
    from pinnace_agent.mcp.oauth.commands import NOT_USED

    name = str(given["name"])
    entry = _entry(_found(), name)
    if given["is_local"] is True and entry.scope != "project":
        raise CommandError(f'MCP server "{name}" is defined in {entry.source}, not in the project; omit --local')
    if (provider := entry.auth_provider) is not None:
        raise CommandError(
            f'MCP server "{name}" uses the credentials of provider "{provider}": pinnace auth {command} {provider}'
        )
    if not entry.uses_oauth:
        raise CommandError(f'MCP server "{name}" {NOT_USED}')
    return entry


def _entry(found: "ConfiguredServers", name: str) -> "ServerEntry":
    if name not in found.servers:
        known = ", ".join(found.servers) or "none"
        raise CommandError("\n".join([f'no MCP server named "{name}" (there are: {known})', *found.errors]))
    return found.servers[name]


def _seconds(value: object, default: float) -> float:
    if value is None:
        return default
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"--timeout must be a positive number of seconds, not {str(value)!r}")
    return seconds


class _Terminal:
    """The user at a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name

    def show(self, url: str) -> None:
        echo(f'Sign in to MCP server "{self._name}" in your browser:\n{url}')
        echo("If the browser cannot reach this machine, paste the URL it was redirected to:", is_error=True)

    async def paste(self) -> str | None:
        import trio

        from pinnace_rpc.cli.commands.answered_lines import line

        while sys.stdin is not None:
            entered = await line("")
            if entered:
                return entered
            if entered is None:  # stdin has ended
                await trio.sleep_forever()
        return None


def _servers_of(content: JsonObject) -> JsonObject:
    servers = content.get("mcpServers", {})
    if not is_object(servers):
        raise ConfigurationFileError('expected an object with an "mcpServers" object')
    return servers


def _pairs(option: str, given: object) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in _words(given):
        name, is_pair, value = str(pair).partition("=")
        if not is_pair or not name:
            raise UsageError(f"--{option} takes NAME=VALUE")
        found[name] = value
    return found


def _words(given: object) -> Sequence[object]:
    """Return the values of what may be repeated."""
    return cast("Sequence[object]", given) if isinstance(given, list | tuple) else ()  # cast: of any items


def _secret_values(entry: Mapping[str, object]) -> list[object]:
    found: list[object] = []
    for key in ("env", "headers"):
        if is_object(values := entry.get(key)):
            found += values.values()
    if is_object(oauth := entry.get("oauth")) and (secret := oauth.get("clientSecret")) is not None:
        found.append("$" if str(secret).startswith("!") else secret)
    return found


def _found() -> "ConfiguredServers":
    cwd = Path.cwd()
    is_trusted = load_configuration(os.environ, cwd).is_project_trusted
    found = configured(os.environ, cwd, is_trusted=is_trusted)
    if not is_trusted and project_file(cwd).exists():
        echo(f"pinnace: {project_file(cwd)} is ignored: the project is not trusted (pinnace trust)", is_error=True)
        for line in project_servers(cwd):
            echo(f"pinnace: trust would start: {visible_line(line)}", is_error=True)
    for entry in found.servers.values():
        REDACTOR.learn_address(entry.url)  # also of one that is not connected
    for entry in found.enabled:
        if entry.is_exposed_to_networks:
            echo(f"pinnace: warning: {entry.name} is reached by http, which others can read", is_error=True)
    return found


class _Tried:
    """A server that was connected, or could not be."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.prompts: Mapping[str, ServerPrompt] = {}
        """By what it calls them."""
        self.connecting_s = 0.0
        """From its start until its tools were listed, or it was given up."""
        self.call_s = 0.0

    async def look(self) -> None:
        """Read what is not read when a server is connected; what it refuses is among what is dropped."""
        from pinnace_agent.mcp.ports import CallTimedOut, LinkLost, ServerError
        from pinnace_agent.mcp.prompts import prompts_of

        server = self.server
        if server.state != "connected" or not server.offers("prompts"):
            return
        try:
            self.prompts, server.dropped_prompts = await prompts_of(server)
        except (ServerError, CallTimedOut, LinkLost) as error:
            server.dropped_prompts = [f"its prompts can't be listed: {str(error) or 'no answer'}"]


def _connected(
    found: "ConfiguredServers",
    only: str | None,
    call: "tuple[str, object, list[Mapping[str, object]]] | None" = None,
) -> Sequence[_Tried]:
    """Connect servers, all or one, until each has been tried; and call a tool of the one."""
    import trio

    from pinnace_agent.mcp.ports import CallTimedOut, LinkLost, ServerError

    entries = [entry for entry in found.servers.values() if only in (None, entry.name)]
    tried: list[_Tried] = []

    begun_s = 0.0

    def begin() -> None:
        nonlocal begun_s
        begun_s = time.monotonic()

    async def run() -> None:
        async with _served(entries, _environment(), begin) as servers:
            tried[:] = [_Tried(server) for server in servers]
            for each in tried:
                each.connecting_s = time.monotonic() - begun_s
            async with trio.open_nursery() as nursery:
                for each in tried:
                    nursery.start_soon(each.look)
            if call is not None and servers[0].state == "connected":
                tool, arguments, results = call
                called_s = time.monotonic()
                try:
                    results.append(await servers[0].request("tools/call", {"name": tool, "arguments": arguments}))
                except (ServerError, CallTimedOut, LinkLost) as error:
                    results.append({"error": str(error) or "no answer"})
                tried[0].call_s = time.monotonic() - called_s

    _run(trio.run, run)
    return tried


def _run(run: "Callable[[Callable[[], Awaitable[None]]], None]", work: "Callable[[], Awaitable[None]]") -> None:
    """Run work in an event loop; what it raises comes without the groups of its nurseries."""
    try:
        run(work)
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]  # cast: any group
    return error


def _environment(*, starts_servers: bool = True) -> "Environment":
    """Return what the variables of entries are resolved from; with the sandbox of the settings if servers start."""
    from pinnace_agent.mcp.launching import Environment

    configuration = load_configuration(os.environ, Path.cwd())
    of_tools = shell_environment(os.environ, configuration.hidden_variables)
    if (proxy := configuration.settings.http_proxy) is not None:
        from pinnace_agent.llm.transport.proxies import use_proxy

        use_proxy(proxy)
    sandbox = _sandbox(configuration) if starts_servers else None
    return Environment(of_tools, os.environ, str(Path.cwd()), configuration.registry.provider_token, sandbox)


def _sandbox(configuration: "Configuration") -> "SandboxReport | None":
    settings = configuration.settings
    if configuration.refusals:
        raise CommandError("\n".join(configuration.refusals))
    if settings.sandbox is settings.project_sandbox is None:
        return None
    from pinnace_agent.sandbox.sandbox import Unavailable, start_sandbox

    try:
        return start_sandbox(None, None, (), settings, os.getcwd(), None, notice=_notice, warn=_notice)
    except Unavailable as error:
        raise CommandError(str(error)) from None


def _notice(text: str) -> None:
    echo(f"pinnace: {text}", is_error=True)


@asynccontextmanager
async def _served(
    entries: "Sequence[ServerEntry]", given: "Environment", begin: Callable[[], None] = lambda: None
) -> "AsyncGenerator[list[Server], None]":
    """Connect servers; the block begins when each has been tried, and ends them. `begin` is called before the first."""
    import trio

    from pinnace_agent.mcp.opening import is_installed, load_library, missing, open_link
    from pinnace_agent.mcp.ports import ServerHooks
    from pinnace_agent.mcp.server import Server

    hooks = ServerHooks(_ignore, _ignore, os.getcwd, None)

    async def opened(server: Server, use: "Callable[[ServerLink], Awaitable[None]]") -> None:
        await open_link(server.entry, given, hooks, program_version(), lambda: 1.0, use)

    servers = [Server(entry, opened, lambda _server: None) for entry in entries]
    enabled = [server for server in servers if server.entry.is_enabled]
    if enabled and not is_installed():
        for server in enabled:
            server.fail(missing())
        enabled = []
    if enabled:
        load_library()
    begin()
    async with trio.open_nursery() as nursery:
        for server in enabled:
            nursery.start_soon(server.serve)
        for server in servers:
            await server.settled.wait()
        yield servers
        nursery.cancel_scope.cancel()


def _ignore(_said: object) -> None:
    """Take what a server reports unasked."""


def _record(tried: _Tried) -> dict[str, object]:
    server = tried.server
    entry = server.entry
    record: dict[str, object] = {
        "name": server.name,
        "scope": "global" if entry.scope == "user" else entry.scope,
        "source": entry.source,
        "enabled": entry.is_enabled,
        "exposure": entry.exposure,
        "transport": entry.address,
        "state": server.state,
        "tools": list(server.tools),
        "prompts": list(tried.prompts),
        "dropped": server.left_out,
    }
    if server.link is not None:
        record["protocol"] = server.link.protocol
    if own := {name: how for name in server.tools if (how := entry.exposure_of(name)) != entry.exposure}:
        record["toolExposure"] = own
    if server.offers("resources"):
        record["resources"] = True
    if entry.auth_provider is not None:
        record["authProvider"] = entry.auth_provider
    if entry.override is not None:
        record["override"] = entry.override
    if server.error is not None and server.state != "connected":
        record["error"] = REDACTOR.text(server.error)
        if server.details:
            record["details"] = REDACTOR.text(server.details)
    return record


def _show(tried: _Tried) -> None:
    server = tried.server
    entry = server.entry
    echo(f"{server.name}: {server.state} ({entry.scope}, {visible_line(entry.address)})")
    for name, tool in server.tools.items():
        hidden = "" if entry.exposes(name) else " (hidden)"
        echo(f"  {visible_line(name)}{hidden}: {first_line(tool.description, 100)}")
    for name, command in tool_names(server.name, tried.prompts).items():
        about = first_line(tried.prompts[name].description, 100)
        echo(f"  /{command}{': ' if about else ''}{about}")
    for line in server.left_out:
        echo(f"  dropped: {visible_line(line)}")
    if server.offers("resources"):
        echo("  offers resources")
    if server.state == "needs-auth":
        from pinnace_agent.mcp.oauth.commands import sign_in_hint

        echo(f"  {sign_in_hint(entry)}")
    if server.error is not None and server.state != "connected":
        echo(f"  {visible_line(REDACTOR.text(server.error))}")
