"""One entry of `mcpServers`: what it means, and what is wrong with it.

The shape is that of the original and of most clients of MCP; texts of errors are the original's. Pure: reads no file,
resolves no variable, knows no process. Values that may hold a secret are `Secret`s until a connection needs them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Final, Literal, TypeAlias, TypeGuard
from urllib.parse import SplitResult, urlsplit

from pinnace_agent.files.relaxed_json import is_list, is_object
from pinnace_agent.redaction.policy import Secret
from pinnace_spec.nearest import nearest

Scope: TypeAlias = Literal["client", "project", "user", "extension"]
Exposure: TypeAlias = Literal["codemode", "deferred", "direct", "hidden"]
Protocol: TypeAlias = Literal["handshake", "auto"]
Registration: TypeAlias = Literal["auto", "dcr", "cimd"]

DEFAULT_TIMEOUT_S: Final = 60.0
"""For one request; progress starts it anew."""
OVERRIDE_KEYS: Final = ("enabled", "exposure", "toolExposure")
"""What a project may change of a server of the user."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_EXPOSURES: Final[Sequence[Exposure]] = ("codemode", "deferred", "direct", "hidden")
_ALIASES: Final[Mapping[object, Exposure]] = {"codemode-deferred": "codemode"}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_OWN_KEYS: Final = ("readOnlyTools", "envPassthrough", "protocol", "sandbox")
"""Keys that the original does not know. Only the user's own file may have them."""

_KEYS: Final = (
    *("type", "command", "args", "cwd", "env", "url", "headers", "timeout", "enabled", "description"),
    *("exposure", "toolExposure", "oauth", "auth", *_OWN_KEYS),
)
_OAUTH_KEYS: Final = (
    *("clientId", "clientSecret", "callbackPort", "callbackUrl", "scope", "clientName", "clientRegistration"),
    "authServerMetadataUrl",
)


_OF_OTHERS: Final = "disabled"
"""A key of other clients that is not to be ignored in silence where it is true: the server is started."""


class InvalidEntry(Exception):
    """An entry can't be used. The text names the server and the field, and no value that may be a secret."""


@dataclass(frozen=True, slots=True)
class OAuth:
    """How to sign in to a server."""

    client_id: str | None = None
    client_secret: Secret | None = None
    """May name a variable or a command."""
    callback_port: int | None = None
    callback_url: str | None = None
    scope: str | None = None
    client_name: str | None = None
    registration: Registration = "auto"
    metadata_url: str | None = None
    """Of the authorisation server; None: discovered."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server as it is configured."""

    name: str
    scope: Scope
    source: str
    """The file, or what else has named it."""
    command: str | None = None
    """The program of a server on stdio; None: it is reached by `url`."""
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    url: str = ""
    headers: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_enabled: bool = True
    description: str | None = None
    exposure: Exposure = "codemode"
    tool_exposure: Mapping[str, Exposure] = field(default_factory=dict[str, Exposure])
    oauth: OAuth | None = None
    auth_provider: str | None = None
    """The provider of models whose token is sent."""
    read_only_tools: tuple[str, ...] = ()
    """Patterns of the tools that the user says change nothing."""
    env_passthrough: tuple[str, ...] = ()
    """Variables of the agent that its tools do not get, and this server does."""
    protocol: Protocol = "handshake"
    is_sandboxed: bool = True
    """Whether its program runs in the sandbox, if there is one."""
    override: str | None = None
    """The project's file that has changed it; None: none has."""
    is_wanted_by_project: bool = False
    """Whether it is connected since the project wants it: its own server, or one that it has enabled."""

    @property
    def transport(self) -> Literal["stdio", "http"]:
        """How it is reached."""
        return "http" if self.command is None else "stdio"

    @property
    def is_exposed_to_networks(self) -> bool:
        """Whether what is sent to it passes a network in the clear."""
        parts = _split(self.url)
        return parts is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK

    @property
    def address(self) -> str:
        """Its command line or its URL without a password, for people, as configured: no variable is resolved."""
        if self.command is not None:
            return " ".join((self.command, *self.args))
        parts = _split(self.url)
        if parts is None or not parts.password:
            return self.url
        user, _, host = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}").geturl()

    @property
    def uses_oauth(self) -> bool:
        """Whether a user may sign in to it: it is reached over HTTP, and nothing else says who the user is."""
        has_header = any(name.lower() == "authorization" for name in self.headers)
        return self.transport == "http" and self.auth_provider is None and not has_header

    # DEVIATION D-90: `codemode` and `deferred` declare a tool, too.
    def exposes(self, tool: str) -> bool:
        """Return whether models see a tool. Of the original's ways to expose one, this program has `direct` alone."""
        return self.exposure_of(tool) != "hidden"

    def is_read_only(self, tool: str) -> bool:
        """Return whether the user says that a tool changes nothing. What the server says decides nothing."""
        return any(_matches(pattern, tool) for pattern in self.read_only_tools)

    def exposure_of(self, tool: str) -> Exposure:
        """Return how a tool is exposed, as configured: by its name, by the first pattern, or as the others are."""
        exact = self.tool_exposure.get(tool)
        if exact is not None:
            return exact
        for pattern, exposure in self.tool_exposure.items():
            if "*" in pattern and _matches(pattern, tool):
                return exposure
        return self.exposure


def namespace(server: str) -> str:
    """Return the beginning of the names of a server's tools. Servers of one namespace would share names."""
    return f"mcp__{server.replace('-', '_')}"


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value of JSON is a number that is finite; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def mistyped(raw: Mapping[str, object], known: Sequence[str] = _KEYS, inside: str = "") -> list[str]:
    """Return a text for each key that is most probably meant to be another one.

    Others are left alone: other clients of MCP have keys of their own in these files.
    """
    texts: list[str] = []
    for key, value in raw.items():
        if key == "oauth" and known is _KEYS and is_object(value):
            texts += mistyped(value, _OAUTH_KEYS, "oauth.")
        elif key == _OF_OTHERS and known is _KEYS and value is True:
            texts.append(f'unknown key "{key}" is ignored; did you mean "enabled": false?')
        elif key not in known and (meant := nearest(key, known, 0.83)):
            texts.append(f'unknown key "{inside}{key}" is ignored; did you mean "{inside}{meant}"?')
    return texts


def is_override(raw: object) -> bool:
    """Return whether an entry of a project only changes a server of the user."""
    return is_object(raw) and not any(key in raw for key in ("command", "url", "type"))


def overridden(base: ServerEntry, raw: object, source: str) -> ServerEntry:
    """Return a server of the user as a project wants it.

    Raises:
        InvalidEntry: The project may not change that, or the value is wrong.
    """
    assert is_object(raw)
    if any(key not in OVERRIDE_KEYS for key in raw):
        raise InvalidEntry(f'server "{base.name}": an override can only set {", ".join(OVERRIDE_KEYS)}')
    read = _Fields(base.name, raw)
    is_enabled = read.flag("enabled", default=base.is_enabled)
    return replace(
        base,
        is_enabled=is_enabled,
        is_wanted_by_project=is_enabled and not base.is_enabled,
        exposure=read.exposure(base.exposure),
        tool_exposure=base.tool_exposure if "toolExposure" not in raw else read.tool_exposure(),
        override=source,
    )


def read_entry(name: str, raw: object, scope: Scope, source: str) -> ServerEntry:
    """Read one entry.

    Args:
        name: Of the server.
        raw: The entry, as parsed.
        scope: Who has configured it; a project may not say where the user's credentials go, nor set our own keys.
        source: The file.

    Raises:
        InvalidEntry: Something is wrong with it.
    """
    if not _NAME.match(name):
        raise InvalidEntry(f'invalid server name "{name[:100]}" (use letters, digits, "_" and "-")')
    if not is_object(raw):
        raise InvalidEntry(f'server "{name}" must be an object')
    read = _Fields(name, raw)
    entry = ServerEntry(
        name,
        scope,
        source,
        timeout_s=read.timeout(),
        is_enabled=read.flag("enabled", default=True),
        description=read.text("description"),
        is_wanted_by_project=scope == "project",
    )
    kind = raw.get("type")
    if kind == "sse":
        raise read.wrong("legacy SSE transport is not supported; use the streamable HTTP URL")
    if isinstance(raw.get("url"), str) and kind in (None, "http", "streamable-http"):
        entry = _reached_by_http(entry, read)
    elif isinstance(raw.get("command"), str) and kind in (None, "stdio"):
        if not raw["command"]:
            raise read.wrong("command must not be empty")
        entry = replace(
            entry,
            command=read.text("command"),
            args=read.texts("args", "args must be an array of strings"),
            env=read.secrets("env"),
            cwd=read.text("cwd"),
        )
    else:
        raise InvalidEntry(f'server "{name}" needs either "command" (stdio) or "url" (streamable HTTP)')
    entry = replace(entry, exposure=read.exposure("codemode"), tool_exposure=read.tool_exposure())
    if scope == "user":
        return _with_own_keys(entry, read)
    if scope == "project":
        if entry.auth_provider is not None:
            raise read.wrong("auth is only allowed in the global mcp.json")
        if own := [key for key in _OWN_KEYS if key in raw]:
            raise read.wrong(f"{own[0]} is only allowed in the global mcp.json")
    return entry


def _reached_by_http(entry: ServerEntry, read: "_Fields") -> ServerEntry:
    url = read.text("url") or ""
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or not _is_web_address(url):
        raise read.wrong("url must be an http or https URL")
    provider = read.provider()
    if provider is not None and parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise read.wrong("auth requires an https URL, or http on localhost, 127.0.0.1, or [::1]")
    return replace(entry, url=url, headers=read.secrets("headers"), oauth=read.oauth(), auth_provider=provider)


def _with_own_keys(entry: ServerEntry, read: "_Fields") -> ServerEntry:
    protocol = read.text("protocol") or "handshake"
    if protocol not in ("handshake", "auto"):
        raise read.wrong('protocol must be "handshake" or "auto"')
    return replace(
        entry,
        read_only_tools=read.texts("readOnlyTools", "readOnlyTools must be an array of tool names or patterns"),
        env_passthrough=read.texts("envPassthrough", "envPassthrough must be an array of names of variables"),
        protocol="auto" if protocol == "auto" else "handshake",
        is_sandboxed=read.flag("sandbox", default=True),
    )


class _Fields:
    """The fields of one entry, read one at a time: the first that is wrong is the one that is reported."""

    def __init__(self, server: str, raw: Mapping[str, object]) -> None:
        self._server = server
        self._raw = raw

    def wrong(self, text: str) -> InvalidEntry:
        return InvalidEntry(f'server "{self._server}": {text}')

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._raw.get(name, default)
        if not isinstance(value, bool):
            raise self.wrong(f"{name} must be a boolean")
        return value

    def text(self, name: str) -> str | None:
        value = self._raw.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(f"{name} must be a string")
        return value

    def timeout(self) -> float:
        value = self._raw.get("timeout", DEFAULT_TIMEOUT_S)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise self.wrong("timeout must be a positive number of seconds")
        return float(value)

    def texts(self, name: str, problem: str) -> tuple[str, ...]:
        value = self._raw.get(name, [])
        if not is_list(value):
            raise self.wrong(problem)
        texts = tuple(each for each in value if isinstance(each, str))
        if len(texts) != len(value):
            raise self.wrong(problem)
        return texts

    def secrets(self, name: str) -> dict[str, Secret]:
        value = self._raw.get(name, {})
        found: dict[str, Secret] = {}
        if is_object(value):
            found = {key: Secret(text) for key, text in value.items() if isinstance(text, str)}
        if not is_object(value) or len(found) != len(value):
            raise self.wrong(f"{name} must map names to strings")
        return found

    def exposure(self, default: Exposure) -> Exposure:
        value = self._raw.get("exposure", default)
        if (found := _exposure(value)) is None:
            raise self.wrong(f"exposure must be one of {_quoted(_EXPOSURES)}")
        return found

    def tool_exposure(self) -> dict[str, Exposure]:
        value = self._raw.get("toolExposure", {})
        if not is_object(value):
            raise self.wrong("toolExposure must map tool names to exposures")
        found: dict[str, Exposure] = {}
        for tool, each in value.items():
            if (exposure := _exposure(each)) is None:
                raise self.wrong(f'toolExposure "{tool}" must be one of {_quoted(_EXPOSURES)}')
            found[tool] = exposure
        return found

    def provider(self) -> str | None:
        value = self._raw.get("auth")
        if value is None:
            return None
        provider = value.get("provider") if is_object(value) else None
        if not isinstance(provider, str) or not provider:
            raise self.wrong("auth.provider must be a provider name")
        return provider

    def oauth(self) -> OAuth | None:
        value = self._raw.get("oauth")
        if value is None:
            return None
        if not is_object(value):
            raise self.wrong("oauth must be an object")
        for name in ("clientId", "clientSecret", "scope"):
            if not isinstance(value.get(name, ""), str):
                raise self.wrong(f"oauth.{name} must be a string")
        port, callback = self._callback(value)
        client_name = value.get("clientName")
        if client_name is not None and not (isinstance(client_name, str) and client_name.strip()):
            raise self.wrong("oauth.clientName must be a non-empty string")
        registration = self._registration(value)
        metadata = value.get("authServerMetadataUrl")
        if metadata is not None and not _is_safe_address(metadata):
            raise self.wrong(
                "oauth.authServerMetadataUrl must be an https URL, or http on localhost, 127.0.0.1, or [::1]"
            )
        secret = _text(value.get("clientSecret"))
        return OAuth(
            _text(value.get("clientId")),
            None if secret is None else Secret(secret),
            port,
            callback,
            _text(value.get("scope")),
            client_name,
            registration,
            _text(metadata),
        )

    def _callback(self, value: Mapping[str, object]) -> tuple[int | None, str | None]:
        port, callback = value.get("callbackPort"), value.get("callbackUrl")
        if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535):
            raise self.wrong("oauth.callbackPort must be a port number")
        if callback is None:
            return port, None
        parts = _split(callback)
        if parts is None or parts.scheme != "http" or parts.hostname not in _LOOPBACK or parts.query or parts.fragment:
            raise self.wrong(
                "oauth.callbackUrl must be an http URI on localhost, 127.0.0.1, or [::1] without query or fragment"
            )
        if parts.port and port is not None and parts.port != port:
            raise self.wrong("oauth.callbackUrl and oauth.callbackPort name different ports")
        return port, _text(callback)

    def _registration(self, value: Mapping[str, object]) -> Registration:
        match value.get("clientRegistration"):
            case None | "auto":
                return "auto"
            case "dcr":
                return "dcr"
            case "cimd":
                if value.get("clientId") is not None or value.get("clientName") is not None:
                    raise self.wrong(
                        'oauth.clientRegistration "cimd" cannot be combined with oauth.clientId or oauth.clientName'
                    )
                return "cimd"
            case _:
                raise self.wrong('oauth.clientRegistration must be "auto", "dcr", or "cimd"')


def _exposure(value: object) -> Exposure | None:
    value = _ALIASES.get(value, value) if isinstance(value, str) else value
    return next((each for each in _EXPOSURES if each == value), None)


def _matches(pattern: str, tool: str) -> bool:
    """Return whether a pattern, in which `*` stands for any text, is that of a tool."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), tool, re.DOTALL) is not None


def _split(value: object) -> SplitResult | None:
    """Return the parts of an address; None: it is none."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        if parts is not None:
            _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts


def _is_web_address(url: str) -> bool:
    """Return whether the libraries that send requests take an address: some hosts are none."""
    if any(char.isspace() for char in url) or not url.isprintable():
        return False
    from pydantic_core import Url  # loaded with what signs in to servers, and with nothing before

    try:
        host = Url(url).host or ""
        return bool(host) and host.encode("idna") != b""
    except ValueError:  # of the address, or of its host
        return False


def _is_safe_address(value: object) -> bool:
    parts = _split(value)
    if parts is None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)
