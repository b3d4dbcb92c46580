"""Which servers a session has: those of the client, of the trusted project and of the user, the first of a name wins.

Reads `mcp.json`, whose places and shape are the original's. What is wrong with an entry, or a file, is a text in the
result: the other servers are there all the same. Decides nothing about trust, which the caller knows, and starts
nothing. So it is with `mcp` of settings.json, which applies to all servers.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.config.server_entries import (
    InvalidEntry,
    Scope,
    ServerEntry,
    is_number,
    is_override,
    mistyped,
    namespace,
    overridden,
    read_entry,
)
from pinnace_agent.core.surroundings import CLIENT_SERVERS
from pinnace_agent.core.visible_text import visible_line
from pinnace_agent.extensions.registration.registrations import McpServerInfo
from pinnace_agent.files.paths import agent_dir, project_dir
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_list, is_object, read_object

FILE_NAME: Final = "mcp.json"
_KEYS: Final = ("mcpServers", "autoEnableCodemode")
_SETTINGS: Final = ("startupWaitSeconds", "maxTools")


@dataclass(slots=True)
class ConfiguredServers:
    """What was found."""

    servers: dict[str, ServerEntry] = field(default_factory=dict[str, ServerEntry])
    """By name, in the order of precedence; those that are not enabled, too."""
    errors: list[str] = field(default_factory=list[str])
    overridden: list[str] = field(default_factory=list[str])
    """The entries that another one of the name has displaced, as lines for people."""

    def add(self, entry: ServerEntry) -> None:
        """Add a server, which gives way to one of the same namespace that is there."""
        mine = namespace(entry.name)
        other = next((each for each in self.servers.values() if namespace(each.name) == mine), None)
        if other is None:
            self.servers[entry.name] = entry
        elif other.name == entry.name:
            self.overridden.append(f"{entry.name} of {entry.source} by {other.source}")
        else:
            self.errors.append(f'{entry.source}: server "{entry.name}" conflicts with "{other.name}"')

    @property
    def enabled(self) -> list[ServerEntry]:
        """Those that are to be connected."""
        return [entry for entry in self.servers.values() if entry.is_enabled]


def user_file(env: Mapping[str, str]) -> Path:
    """Return where the user's servers are."""
    return agent_dir(env) / FILE_NAME


def project_file(cwd: Path) -> Path:
    """Return where a project's servers are."""
    return project_dir(cwd) / FILE_NAME


def configured(env: Mapping[str, str], cwd: Path, *, is_trusted: bool, client: str | None = None) -> ConfiguredServers:
    """Return the servers of a session in a folder, without those of extensions.

    Args:
        env: Names the user's folder.
        cwd: The session's folder.
        is_trusted: Whether the project's file is read.
        client: The text of `CLIENT_SERVERS`; None: the client hands none over.
    """
    found = ConfiguredServers()
    if client is not None:
        for entry in _entries_of_client(client, found.errors):
            found.add(entry)
    user = _File(user_file(env), "user", found.errors)
    own = {entry.name: entry for entry in user.entries()}
    if is_trusted and os.path.realpath(project_dir(cwd)) != os.path.realpath(agent_dir(env)):
        project = _File(project_file(cwd), "project", found.errors)
        for entry in project.entries(own):
            found.add(entry)
            if entry.override is not None:
                del own[entry.name]
    for entry in own.values():
        found.add(entry)
    return found


def with_registered(found: ConfiguredServers, registered: Iterable[McpServerInfo]) -> ConfiguredServers:
    """Return the servers of a session with those of extensions, which give way to all others."""
    whole = ConfiguredServers(dict(found.servers), list(found.errors), list(found.overridden))
    for each in registered:
        whole.add(read_entry(each["name"], each["config"], "extension", each["extensionPath"]))
    return whole


def project_servers(cwd: Path) -> list[str]:
    """Return what trust in a project starts, as lines for people: the MCP servers that it names, or enables."""
    errors: list[str] = []
    file = _File(project_file(cwd), "project", errors)
    enabled = [
        f"MCP server {visible_line(name)}: the one of your {FILE_NAME}, if it is disabled" for name in file.enables()
    ]
    lines = [f"MCP server {each.name}: {each.address}" for each in file.own()]
    return [*lines, *enabled, *errors]


class _File:
    """One `mcp.json`."""

    def __init__(self, path: Path, scope: Scope, errors: list[str]) -> None:
        self._path = str(path)
        self._scope: Scope = scope
        self._errors = errors
        self._raw = self._read(path)

    def _read(self, path: Path) -> JsonObject:
        try:
            content = read_object(path, is_relaxed=False)
        except ConfigurationFileError as error:
            self._errors.append(f"{self._path}: {error}")
            return {}
        if content is None:
            return {}
        if not isinstance(content.get("autoEnableCodemode", True), bool):
            self._errors.append(f"{self._path}: autoEnableCodemode must be a boolean")
        problems = mistyped(content, _KEYS)
        self._errors += [f"{self._path}: {text}" for text in problems]
        is_of_others = bool(content) and not problems and not any(key in content for key in _KEYS)
        servers = content.get("mcpServers", {})
        if is_of_others or not is_object(servers):
            self._errors.append(f'{self._path}: expected an object with an "mcpServers" object')
            return {}
        return servers

    def enables(self) -> list[str]:
        """Return the names of the servers of another file that are connected if this one is read."""
        return [
            name
            for name, raw in self._raw.items()
            if is_override(raw) and is_object(raw) and raw.get("enabled") is True
        ]

    def own(self) -> Iterable[ServerEntry]:
        """Yield the entries that can be used, without those that change another file's."""
        self._raw = {name: raw for name, raw in self._raw.items() if not is_override(raw)}
        return self.entries()

    def entries(self, users: Mapping[str, ServerEntry] | None = None) -> Iterable[ServerEntry]:
        """Yield the entries that can be used; with those of the user an entry may change one of them."""
        names: dict[str, str] = {}
        for name, raw in self._raw.items():
            if is_object(raw):  # first: a misspelt key may be why the entry is invalid
                self._errors += [f'{self._path}: server "{name[:100]}": {text}' for text in mistyped(raw)]
            try:
                entry = self._entry(name, raw, users)
            except InvalidEntry as error:
                self._errors.append(f"{self._path}: {error}")
                continue
            if (clash := names.setdefault(namespace(name), name)) != name:
                self._errors.append(f'{self._path}: server "{name}" conflicts with "{clash}"')
                continue
            yield entry

    def _entry(self, name: str, raw: object, users: Mapping[str, ServerEntry] | None) -> ServerEntry:
        if users is None or not is_override(raw):
            return read_entry(name, raw, self._scope, self._path)
        if (base := users.get(name)) is None:
            raise InvalidEntry(f'server "{name}" needs "command" or "url", or a global server to override')
        return overridden(base, raw, self._path)


def client_text(servers: Iterable[Mapping[str, object]]) -> str:
    """Return the servers of a client's request for `CLIENT_SERVERS`. Each has a name of its own in it.

    Args:
        servers: As in the Agent Client Protocol: `name`, `type`, and `command`, `args`, `env` or `url`, `headers`;
            variables and headers are lists of `{name, value}`.
    """
    entries: dict[str, dict[str, object]] = {}
    taken: set[str] = set()
    for server in servers:
        # Editors name servers for people; names may become equal.
        plain = name = re.sub(r"[^A-Za-z0-9_-]", "_", str(server["name"])) or "_"
        number = 1
        while namespace(name) in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(namespace(name))
        entries[name] = _client_entry(server)
    return json.dumps(entries)


def client_problem(server: Mapping[str, object]) -> str | None:
    """Return what is wrong with a server of a client's request, which is as in `client_text`; None: nothing."""
    try:
        read_entry("_", _client_entry(server), "client", "")
    except InvalidEntry as error:
        return str(error).removeprefix('server "_": ')
    return None


def _client_entry(server: Mapping[str, object]) -> dict[str, object]:
    entry = {key: value for key, value in server.items() if key in ("command", "args", "url")}
    if isinstance(kind := server.get("type"), str):
        entry["type"] = kind
    for key in ("env", "headers"):
        if is_list(pairs := server.get(key)):
            entry[key] = {each["name"]: _literal(each["value"]) for each in pairs if is_object(each)}
    return entry


def _literal(value: object) -> object:
    """Return a value that stands for itself: a client resolves its variables, and no value of it is a command."""
    if not isinstance(value, str):
        return value
    text = value.replace("$", "$$")
    return f"${text}" if text.startswith("!") else text


def _entries_of_client(text: str, errors: list[str]) -> Iterable[ServerEntry]:
    source = "the client"
    try:
        servers: object = json.loads(text)
    except ValueError:
        errors.append(f"{CLIENT_SERVERS}: is not valid JSON")
        return
    if not is_object(servers):
        errors.append(f"{CLIENT_SERVERS}: must be an object of servers by name")
        return
    for name, raw in servers.items():
        try:
            yield read_entry(name, raw, "client", source)
        except InvalidEntry as error:
            errors.append(f"{source}: {error}")


# What applies to all servers.


class McpSettings(NamedTuple):
    """What applies to all servers."""

    startup_wait_s: float = 10.0
    """How long the first request to a model waits for servers."""
    max_tools: int = 100
    """How many of their tools models are offered: providers refuse requests with more than 128."""
    problems: tuple[str, ...] = ()
    """What is wrong, for the user."""


def read_settings(settings: Mapping[str, object]) -> McpSettings:
    """Read the settings of the user and of a trusted project, merged."""
    group = settings.get("mcp")
    if group is None:
        return McpSettings()
    if not is_object(group):
        return McpSettings(problems=("settings.json: mcp must be an object",))
    made = McpSettings()
    problems = [f"settings.json: mcp: {text}" for text in mistyped(group, _SETTINGS)]
    wait_s, most = group.get("startupWaitSeconds"), group.get("maxTools")
    if is_number(wait_s) and wait_s >= 0:
        made = made._replace(startup_wait_s=float(wait_s))
    elif wait_s is not None:
        problems.append("settings.json: mcp.startupWaitSeconds must be a number of seconds")
    if is_number(most) and most >= 1 and most == int(most):
        made = made._replace(max_tools=int(most))
    elif most is not None:
        problems.append("settings.json: mcp.maxTools must be a positive whole number")
    return made._replace(problems=tuple(problems))
