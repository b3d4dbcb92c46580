"""What a server is started with: its program, folder, environment or headers, with every variable resolved.

The redactor learns what of the values is a key, since a server may send it back. Texts of errors name the field.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.config.server_entries import ServerEntry
from pinnace_agent.config.values import UnresolvedValue, interpolate, is_command, variables_of
from pinnace_agent.files.paths import expand_home
from pinnace_agent.mcp.ports import LinkLost
from pinnace_agent.redaction.policy import Secret
from pinnace_agent.redaction.redactor import REDACTOR

if TYPE_CHECKING:  # loaded with a sandbox
    from pinnace_agent.core.ports.confinement import SandboxReport

_COMMAND_S: Final = 10.0


class Environment(NamedTuple):
    """What the agent gives its tools, and has itself."""

    of_tools: Mapping[str, str]
    """Without the keys of providers."""
    own: Mapping[str, str]
    """Its own; variables of entries are resolved from it."""
    cwd: str
    """The session's folder."""
    provider_token: Callable[[str], Awaitable[str | None]] | None = None
    """Returns the key of a provider of models; None: there are no providers."""
    sandbox: "SandboxReport | None" = None
    """That of all programs that the agent starts; None: there is none."""


class ClientSettings(NamedTuple):
    """How this program is known to the authorization server of a server."""

    client_id: str | None = None
    """As it is registered by hand; None: it registers itself."""
    client_secret: str | None = None
    client_name: str = "pinnace"
    scope: str | None = None
    metadata_url: str | None = None
    """Of the authorization server's metadata; None: they are discovered."""


def sandbox_refusal(entry: ServerEntry, sandbox: "SandboxReport | None") -> str | None:
    """Return why the sandbox allows no connection to a server; None: it does.

    A project never loosens it: neither may its servers be a way to the network that commands do not have, nor may it
    enable a program of the user that runs outside.
    """
    if sandbox is None:
        return None
    if entry.transport == "http" and entry.is_wanted_by_project and not sandbox.has_network:
        return "the sandbox has no network, and the project's servers over HTTP are a way to it (--sandbox-network on)"
    if entry.is_sandboxed:
        return None
    if sandbox.is_enforced:
        return "its entry has sandbox: false, and sandbox.enforced of your settings keeps every program in the sandbox"
    if entry.is_wanted_by_project:
        return "its entry has sandbox: false, and a project can't enable a server that runs outside of the sandbox"
    return None


async def environment_of(entry: ServerEntry, given: Environment) -> dict[str, str]:
    """Return the environment of a server's process.

    Raises:
        LinkLost: A variable is not set, or a command fails.
    """
    # DEVIATION D-93: not the agent's own.
    passed = {name: given.own[name] for name in entry.env_passthrough if name in given.own}
    return {**given.of_tools, **passed, **await _resolved("env", entry.env, entry, given.own)}


async def headers_of(entry: ServerEntry, given: Environment) -> dict[str, str]:
    """Return the headers of every request to a server.

    Raises:
        LinkLost: A variable is not set, a command fails, or a header can't carry the value.
    """
    REDACTOR.learn_address(entry.url)
    headers = await _resolved("headers", entry.headers, entry, given.own)
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise LinkLost(f"headers.{name}: it holds a character that a header can't carry")
    return headers


async def client_settings_of(entry: ServerEntry, given: Environment) -> ClientSettings:
    """Return how this program is known to the authorization server.

    Raises:
        LinkLost: The secret names a variable that is not set, or a command fails.
    """
    oauth = entry.oauth
    if oauth is None:
        return ClientSettings()
    secret = None
    if oauth.client_secret is not None:
        secret = (await _resolved("oauth", {"clientSecret": oauth.client_secret}, entry, given.own))["clientSecret"]
    name = oauth.client_name or ClientSettings().client_name
    return ClientSettings(oauth.client_id, secret, name, oauth.scope, oauth.metadata_url)


def arguments_of(entry: ServerEntry, given: Environment) -> list[str]:
    """Return the program of a server and its arguments."""
    assert entry.command is not None
    return [expand_home(word, given.own) for word in (entry.command, *entry.args)]


def folder_of(entry: ServerEntry, given: Environment) -> str:
    """Return the folder of a server's process."""
    return os.path.join(given.cwd, expand_home(entry.cwd or ".", given.own))


async def _resolved(
    field: str, values: Mapping[str, Secret], entry: ServerEntry, env: Mapping[str, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        try:
            # A project's commands run where its servers do: trust in it is no way out of the sandbox.
            found[name] = await _text(value, env, is_outside=entry.scope != "project")
        except UnresolvedValue as error:
            raise LinkLost(f"{field}.{name}: {error}") from None
        # A variable's name says as much as the entry's; what a command prints was worth hiding from the file.
        sources = {each: env[each] for each in variables_of(value) if each in env}
        if is_command(value):
            sources["key of a command"] = found[name]
        REDACTOR.learn_values({**sources, name: found[name]})
    return found


async def _text(value: Secret, env: Mapping[str, str], *, is_outside: bool) -> str:
    if not is_command(value):
        return interpolate(value, env)
    from pinnace_agent.shell.value_command import CommandFailed, output_of

    try:
        return await output_of(value.reveal()[1:], env, _COMMAND_S, is_outside=is_outside)
    except CommandFailed as error:
        raise UnresolvedValue(str(error)) from None
