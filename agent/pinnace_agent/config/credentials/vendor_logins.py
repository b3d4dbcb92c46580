"""The providers whose logins this program makes and refreshes itself, and as which client it asks their servers.

The client ids are those that pi, an open program, publishes in its source: a login is good for both programs, and a
refresh token is good for its own client alone. `logins` of the user's settings.json names other ids and servers; those
of a project are not read, since a server gets the tokens.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from pinnace_agent.files.relaxed_json import ConfigurationFileError, is_object, read_object


class Browser(NamedTuple):
    """How a browser logs in to a provider, and where it is sent then, on this machine."""

    host: Literal["127.0.0.1", "localhost"]
    """As the client is registered."""
    port: int
    """0: any."""
    path: str
    authorize_path: str = ""
    discovery_path: str = ""
    """In its place: where the server names its page, as `authorizationEndpoint`."""
    scope: str = ""
    parameters: Mapping[str, str] = MappingProxyType({})
    """Of the page, on top of those of RFC 6749 and RFC 7636."""
    has_state: bool = True
    """Whether the server returns the `state`."""


class Vendor(NamedTuple):
    """The authorisation server of a provider."""

    name: str
    """For users."""
    client_id: str
    url: str
    device_path: str
    """Empty: it has no login with a code."""
    token_path: str
    scope: str = ""
    early_s: float = 0.0
    """How long before its end a token counts as expired, as pi writes it."""
    default_life_s: float = 3600.0
    """Of a token whose server does not say how long it is good."""
    kind: Literal["device", "codex", "copilot", "openrouter"] = "device"
    """How it gives tokens: as RFC 8628 and RFC 6749 have it, or as the module of this name says."""
    browser: Browser | None = None
    """None: it has no login in a browser that comes back to this machine."""


VENDORS: Final[Mapping[str, Vendor]] = MappingProxyType(
    {
        "xai": Vendor(
            name="xAI",
            client_id="b1a00492-073a-47ea-816f-4c329264a828",
            url="https://auth.x.ai",
            device_path="/oauth2/device/code",
            token_path="/oauth2/token",
            scope="openid profile email offline_access grok-cli:access api:access",
            early_s=300.0,
        ),
        "openai-codex": Vendor(
            name="ChatGPT",
            client_id="app_EMoamEEZ73f0CkXaXp7hrann",
            url="https://auth.openai.com",
            device_path="/api/accounts/deviceauth/usercode",
            token_path="/oauth/token",
            kind="codex",
            browser=Browser(
                host="localhost",
                port=1455,
                path="/auth/callback",
                authorize_path="/oauth/authorize",
                scope="openid profile email offline_access",
                parameters=MappingProxyType(
                    {
                        "id_token_add_organizations": "true",
                        "codex_cli_simplified_flow": "true",
                        "originator": "pinnace",
                    }
                ),
            ),
        ),
        "github-copilot": Vendor(
            name="GitHub Copilot",
            client_id="Iv1.b507a08c87ecfe98",
            url="https://github.com",
            device_path="/login/device/code",
            token_path="/login/oauth/access_token",
            scope="read:user",
            early_s=300.0,
            kind="copilot",
        ),
        "radius": Vendor(
            name="Radius",
            client_id="pi-gateway",
            url="https://radius.pi.dev",
            device_path="/v1/oauth/device",
            token_path="/v1/oauth/token",
            scope="gateway offline_access",
            early_s=60.0,
            browser=Browser(
                host="127.0.0.1",
                port=1456,
                path="/oauth/callback",
                discovery_path="/v1/oauth",
                scope="gateway offline_access",
                parameters=MappingProxyType({"handoff": "url"}),
            ),
        ),
        "openrouter": Vendor(
            name="OpenRouter",
            client_id="",
            url="https://openrouter.ai",
            device_path="",
            token_path="/api/v1/auth/keys",
            kind="openrouter",
            browser=Browser(host="127.0.0.1", port=0, path="/oauth/callback", authorize_path="/auth", has_state=False),
        ),
        "kimi-coding": Vendor(
            name="Kimi Code",
            client_id="17e5f671-d194-4dfb-9706-5516cb48c098",
            url="https://auth.kimi.com",
            device_path="/api/oauth/device_authorization",
            token_path="/api/oauth/token",
        ),
    }
)
_MEMBERS: Final = ("clientId", "url")


class LoginSettingsWrong(Exception):
    """`logins` of settings.json can't be used; the text names the field."""


def has_login(provider: str) -> bool:
    """Return whether this program logs in to a provider itself."""
    return provider in VENDORS


def login_option(provider: str) -> str:
    """Return the option of `pinnace auth login` that logs in to a provider of `VENDORS`: a code comes first."""
    return "--device-code" if VENDORS[provider].device_path else "--browser"


def vendor_of(provider: str, folder: Path) -> Vendor | None:
    """Return the server of a provider's logins; None: this program does not log in to it.

    Args:
        provider: Its id.
        folder: The user's, with settings.json.

    Raises:
        LoginSettingsWrong: The user's settings for it are wrong.
    """
    vendor = VENDORS.get(provider)
    if vendor is None:
        return None
    chosen = _chosen(provider, folder / "settings.json")
    return vendor._replace(client_id=chosen.get("clientId", vendor.client_id), url=chosen.get("url", vendor.url))


def _chosen(provider: str, path: Path) -> dict[str, str]:
    """Return what the user has set for a provider."""
    try:
        content = read_object(path, is_relaxed=True) or {}
    except ConfigurationFileError as error:
        raise LoginSettingsWrong(f"{path}: {error}") from None
    place = "logins"
    logins = content.get("logins", {})
    if is_object(logins):
        place = f"logins.{provider}"
        logins = logins.get(provider, {})
    if not is_object(logins):
        raise LoginSettingsWrong(f"{path}: {place} must be an object")
    for name in logins:
        if name not in _MEMBERS:
            raise LoginSettingsWrong(f"{path}: {place}.{name} is unknown: only {' and '.join(_MEMBERS)} can be set")
    chosen: dict[str, str] = {}
    for name, value in logins.items():
        if not isinstance(value, str) or not value.strip():
            raise LoginSettingsWrong(f"{path}: {place}.{name} must be a text")
        chosen[name] = value
    return chosen
